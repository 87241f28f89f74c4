"""From what the driver raised to what the reader can do about it."""

import psycopg
from sqlalchemy.exc import DBAPIError

from tenantcron.store.errors import (
    ConflictError,
    DatabaseAwayError,
    DatabaseError,
    MissingRightsError,
    WrongPasswordError,
)
from tenantcron.store.targets import Target

# libpq gives no code for what fails before a session exists, only text.
_REFUSED = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
_MISSING_RIGHTS = "42501"
# A row that was to be changed has moved to another partition (an execution has ended), or two
# transactions would have waited for each other.
_CONFLICTS = ("40001", "40P01")


def explain(error: DBAPIError, target: Target) -> DatabaseError | None:
    """Return the error to raise instead, or None if the statement itself is at fault."""
    cause = error.orig
    if error.connection_invalidated:
        return DatabaseAwayError(
            f"the connection to {target} was lost: {first_line(cause)}. What was in progress is "
            "undone, unless it was being committed; run it again"
        )
    if isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None:
        return _not_connected(cause, target)
    if isinstance(cause, psycopg.Error) and cause.sqlstate == _MISSING_RIGHTS:
        return MissingRightsError(f"{target}: {first_line(cause)}. Grant it, or use another role")
    if isinstance(cause, psycopg.Error) and cause.sqlstate in _CONFLICTS:
        return ConflictError(
            f"somebody else changed the same at the same moment ({first_line(cause)}): run it again"
        )
    return None


def _not_connected(cause: psycopg.OperationalError, target: Target) -> DatabaseError:
    text = first_line(cause)
    needs_password = cause.pgconn is not None and cause.pgconn.needs_password
    if needs_password or any(words in text for words in _REFUSED):
        return WrongPasswordError(
            f"{target} refuses the user or the password: check TENANTCRON_DATABASE_URL ({text})"
        )
    return DatabaseAwayError(
        f"cannot connect to {target}: {text}. Is the server running, and is "
        "TENANTCRON_DATABASE_URL right?"
    )


def first_line(cause: BaseException | None) -> str:
    """The driver adds hints and further attempts on lines of their own."""
    lines = str(cause).strip().splitlines()
    return lines[0].strip() if lines else type(cause).__name__
