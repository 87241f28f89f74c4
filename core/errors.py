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
