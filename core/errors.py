"""The base class of all errors that tenantcron raises on purpose."""

from tenantcron.core.credentials import without_credentials


class TenantcronError(Exception):
    """An error that the reader can fix; its text states the problem and the next step.

    The text may quote user input or a library, so credentials in URLs are redacted.
    """

    def __str__(self) -> str:
        """Return the text."""
        return without_credentials(super().__str__())


class UsageError(TenantcronError):
    """The command was used incorrectly: a missing file, an unreadable policy."""


class DeclinedError(TenantcronError):
    """A valid request was declined: the state or the caller's role does not allow it.

    Nothing was changed. Commands exit with 1, as for findings.
    """


class NotFoundError(DeclinedError):
    """The named tenant, schedule or execution does not exist, or the caller may not see it.

    The hint says what to do next, such as the closest name.
    """

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem if hint is None else f"{problem}: {hint}")
        # As in `__str__`: it may quote user input.
        self.problem = without_credentials(problem)
        self.hint = hint
