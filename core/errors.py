"""The root of all errors that tenantcron raises on purpose."""

from tenantcron.core.credentials import without_credentials


class TenantcronError(Exception):
    """Something that the reader can fix; its text says what is wrong and what to do next.

    It may quote what a user or a library said, so credentials of URLs are never part of it.
    """

    def __str__(self) -> str:
        """Return the text."""
        return without_credentials(super().__str__())


class UsageError(TenantcronError):
    """The command was called wrongly: a file that is not there, a policy that cannot be read."""
