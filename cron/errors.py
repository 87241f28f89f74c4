"""What is wrong with an expression, in words, and what to write instead."""

from tenantcron.core.errors import TenantcronError


class CronError(TenantcronError):
    """The text is not a timetable; `message` says why, `hint` what to write instead."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        """Keep both parts, so that a caller can show them in different places."""
        super().__init__(message)
        self.message = message
        self.hint = hint
