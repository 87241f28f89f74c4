"""Locks on steps, which end with the transaction, so they also hold through a pooling proxy.

A step that one process at a time may take locks a row of `tenantcron.lock`. Only the owner has
rights on that table; other roles lock its rows by two functions, which `grants.sql` opens to
schedulers and operators. Advisory locks would need no table. But every login may take any of them,
so one that may only read could stop all claims.

Rolling upgrade. The release before takes advisory locks instead. While a replica of it is there,
the functions take both:

1. Such a replica registers in `worker`, without capabilities, before its first step. A trigger
   locks all rows until that is committed, so no replica of this release is in a step meanwhile.
2. A replica of this release locks its row first and looks for such workers after that. So it sees
   every one that could be in the same step, and waits for the advisory lock as well.
3. When no such worker has been seen for an hour, the advisory lock is not taken any more. A replica
   that stops takes itself off the list, so that is usually at once.

Until then a foreign login that holds the advisory lock still stops both releases. `lock_wait` in
the log names its session. Commands and API servers do not register. If one of the release before
rotates keys or adds a webhook at the same moment as one of this release, both do it: there are two
new keys, or one webhook more than allowed.

Migrations take advisory locks, because the first one has no table yet. A login that holds such a
lock can delay a migration or `uninstall`, and nothing else. Keys come in pairs: what is locked, and
which one of it. Other programs on the same database must not use 1952672000 to 1952672099.
"""

from enum import IntEnum, StrEnum
from zlib import crc32

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_TAKE = "SELECT tenantcron.take_lock(%(name)s)"
_TRY = "SELECT tenantcron.try_lock(%(name)s)"
_LOCK_MIGRATION = text("SELECT pg_catalog.pg_advisory_xact_lock(:what, :which)")
# Waiting for a lock of any kind; the value goes with the transaction.
_PATIENCE = text("SELECT pg_catalog.set_config('lock_timeout', :duration, true)")
# Not DEFAULT, which is the role's: see `pins`.
_AS_EVER = text("SET LOCAL lock_timeout TO 0")


class Lock(StrEnum):
    """The rows of `tenantcron.lock`; triggers take `services` when a service is declared."""

    CLAIM = "claim"
    HISTORY = "history"
    SIGNING_KEYS = "signing_keys"
    # Who puts events in order, and who counts webhooks.
    OUTBOX = "outbox"
    WEBHOOKS = "webhooks"


class MigrationLock(IntEnum):
    """The advisory locks of migrations."""

    CONTROL = 1_952_672_000
    TENANT = 1_952_672_001


async def take_lock(connection: AsyncConnection, what: Lock) -> None:
    """Wait for a lock, until the end of the transaction."""
    await connection.exec_driver_sql(_TAKE, {"name": what.value})


async def try_lock(connection: AsyncConnection, what: Lock) -> bool:
    """Take a lock until the end of the transaction, if no other transaction has it."""
    found = await connection.exec_driver_sql(_TRY, {"name": what.value})
    return bool(found.scalar_one())


async def lock_migration(connection: AsyncConnection, what: MigrationLock, name: str = "") -> None:
    """Wait for a lock of migrations, until the end of the transaction.

    Names that collide wait for each other.
    """
    first, second = key_of(what, name)
    await connection.execute(_LOCK_MIGRATION, {"what": first, "which": second})


def key_of(what: MigrationLock, name: str) -> tuple[int, int]:
    """Return both halves of a key, for a script that takes the lock by itself.

    The second half is a signed number of 32 bits.
    """
    return int(what), crc32(name.encode()) - 2**31


async def wait_as_ever(connection: AsyncConnection) -> None:
    """Let the statements after this one wait for locks as those of any other transaction."""
    await connection.execute(_AS_EVER)


async def wait_at_most(connection: AsyncConnection, duration: str) -> None:
    """Let statements of this transaction fail that wait longer for a lock, `10s` for example."""
    await connection.execute(_PATIENCE, {"duration": duration})
