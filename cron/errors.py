"""The error for an invalid expression, with a hint."""

from tenantcron.core.errors import TenantcronError


class CronError(TenantcronError):
    """The text is not a timetable; `message` explains why, `hint` what to write instead."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        """Keep both parts, so that a caller can show them in different places."""
        super().__init__(message)
        self.message = message
        self.hint = hint
