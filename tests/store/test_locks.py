"""The locks of steps, and their compatibility with the advisory locks of the previous release."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.errors import LockNotAvailable, NoDataFound

from tenantcron.store.connection.locks import Lock

ADVISORY_CLAIM = "SELECT pg_advisory_xact_lock(1952672002, -2147483648)"
TAKE = "SELECT tenantcron.take_lock('claim')"
TRY = "SELECT tenantcron.try_lock('claim')"
REGISTER = (
    "INSERT INTO tenantcron.worker (id, service, started_at, seen_at, capabilities)"
    " VALUES ('w', 'scheduler', now(), now() - %s::interval, %s)"
)


@contextmanager
def session(url: str) -> Iterator[psycopg.Connection]:
    """Open a transaction that does not wait for locks."""
    with psycopg.connect(url) as connection:
        connection.execute("SET lock_timeout TO '50ms'")
        connection.commit()
        yield connection
        connection.rollback()


def register(url: str, ago: str = "0s", capabilities: list[str] | None = None) -> None:
    with session(url) as connection:
        connection.execute(REGISTER, (ago, capabilities))
        connection.commit()


def taken(connection: psycopg.Connection) -> bool:
    row = connection.execute(TRY).fetchone()
    return bool(row and row[0])


def test_each_lock_has_its_row(database_url: str) -> None:
    with session(database_url) as connection:
        rows = connection.execute("SELECT name FROM tenantcron.lock").fetchall()
    assert {name for (name,) in rows} == {*Lock, "services"}


def test_without_its_row_a_lock_is_an_error(database_url: str) -> None:
    with session(database_url) as connection:
        connection.execute("DELETE FROM tenantcron.lock")
        with pytest.raises(NoDataFound, match="has no row 'claim'"):
            connection.execute(TAKE)


def test_a_lock_is_tried_without_waiting(database_url: str) -> None:
    with session(database_url) as holder, session(database_url) as other:
        holder.execute(TAKE)
        assert not taken(other)
        other.rollback()
        holder.commit()
        assert taken(other)


@pytest.mark.parametrize(
    ("ago", "capabilities"), [("0s", ["saga:*"]), ("61 minutes", None)], ids=["new", "long gone"]
)
def test_an_advisory_lock_blocks_nothing_without_a_replica_of_the_previous_release(
    database_url: str, ago: str, capabilities: list[str] | None
) -> None:
    register(database_url, ago, capabilities)
    with session(database_url) as foreign, session(database_url) as own:
        foreign.execute(ADVISORY_CLAIM)
        assert taken(own)
        own.execute(TAKE)


def test_replicas_of_the_previous_and_this_release_exclude_each_other(
    database_url: str,
) -> None:
    register(database_url)
    with session(database_url) as before, session(database_url) as own:
        before.execute(ADVISORY_CLAIM)
        assert not taken(own)
        with pytest.raises(LockNotAvailable):
            own.execute(TAKE)
        own.rollback()
        before.commit()
        own.execute(TAKE)
        with pytest.raises(LockNotAvailable):
            before.execute(ADVISORY_CLAIM)


@pytest.mark.parametrize("lock", list(Lock))
def test_a_replica_of_the_previous_release_registers_only_outside_steps(
    database_url: str, lock: Lock
) -> None:
    with session(database_url) as own, session(database_url) as before:
        own.execute("SELECT tenantcron.take_lock(%s)", (lock.value,))
        with pytest.raises(LockNotAvailable):
            before.execute(REGISTER, ("0s", None))
        before.rollback()
        before.execute(REGISTER, ("0s", ["saga:*"]))
