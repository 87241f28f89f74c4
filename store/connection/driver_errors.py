"""Translate errors of the driver into errors with instructions."""

import re

import psycopg
from sqlalchemy.exc import DBAPIError

from tenantcron.core.credentials import without_credentials
from tenantcron.store.connection.crowding import is_crowded
from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.connection.errors import (
    ConflictError,
    DatabaseAwayError,
    DatabaseError,
    MissingRightsError,
    ReadOnlyError,
    TooManyClientsError,
    WrongPasswordError,
)

# Python puts a number in front of the system's message.
_ERROR_NUMBER = re.compile(r"\[Errno -?[0-9]+\] ")
# libpq has no error codes before a session exists, only text.
_REFUSED = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
_MISSING_RIGHTS = "42501"
# A row to update has moved to another partition (an execution has ended), or a deadlock.
_CONFLICTS = ("40001", "40P01")
# A standby rejects writes (read_only_sql_transaction) and the start of a read-write transaction
# (feature_not_supported, which has other causes in other statements).
_READ_ONLY = "25006"
_NO_READ_WRITE = "0A000"


def explain(error: DBAPIError, target: DatabaseTarget) -> DatabaseError | None:
    """Return the error to raise instead, or None if the statement itself is wrong."""
    return explain_cause(
        error.orig, target, statement=error.statement, is_lost=error.connection_invalidated
    )


def explain_cause(
    cause: BaseException | None, target: DatabaseTarget, *, statement: str | None, is_lost: bool
) -> DatabaseError | None:
    """Return the error to raise instead of a driver error."""
    if is_read_only(cause, statement):
        return ReadOnlyError(
            f"{target} is a standby or read-only ({first_line(cause)}). The connection is closed; "
            "run it again when a primary is reachable. With several hosts, add "
            "target_session_attrs=read-write to the URL"
        )
    if is_crowded(cause):
        return TooManyClientsError(
            f"{target} has no connection left ({first_line(cause)}). Raise max_connections, run "
            "fewer replicas, or put a pooler such as PgBouncer in front of the server"
        )
    if is_lost:
        return DatabaseAwayError(
            f"the connection to {target} was lost: {first_line(cause)}. The transaction is rolled "
            "back, unless it was being committed; run it again"
        )
    if isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None:
        return _not_connected(cause, target)
    return _refused(cause, target)


def _refused(cause: BaseException | None, target: DatabaseTarget) -> DatabaseError | None:
    """Translate an error of a reachable server."""
    if isinstance(cause, psycopg.Error) and cause.sqlstate == _MISSING_RIGHTS:
        return MissingRightsError(f"{target}: {first_line(cause)}. Grant it, or use another role")
    if isinstance(cause, psycopg.Error) and cause.sqlstate in _CONFLICTS:
        return ConflictError(
            f"another transaction changed the same rows ({first_line(cause)}): run it again"
        )
    return None


def is_read_only(cause: BaseException | None, statement: str | None) -> bool:
    """Whether a server rejected a write because it is a standby or read-only."""
    if not isinstance(cause, psycopg.Error):
        return False
    begins = statement is not None and statement.startswith("BEGIN")
    return cause.sqlstate == _READ_ONLY or (begins and cause.sqlstate == _NO_READ_WRITE)


def _not_connected(cause: psycopg.OperationalError, target: DatabaseTarget) -> DatabaseError:
    text = _ERROR_NUMBER.sub("", first_line(cause))
    needs_password = cause.pgconn is not None and cause.pgconn.needs_password
    if needs_password or any(words in text for words in _REFUSED):
        return WrongPasswordError(
            f"{target} rejects the user or the password: check TENANTCRON_DATABASE_URL ({text})"
        )
    return DatabaseAwayError(
        f"cannot connect to {target}: {text}. Check that the server is running and that "
        "TENANTCRON_DATABASE_URL is right"
    )


def first_line(cause: BaseException | None) -> str:
    """Return the first line of an error; the driver adds hints and further attempts after it."""
    lines = without_credentials(str(cause)).strip().splitlines()
    return lines[0].strip() if lines else type(cause).__name__
