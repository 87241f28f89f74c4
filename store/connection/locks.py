"""Locks on steps. They end with the transaction, so they work through a pooler in transaction mode.

A step that only one process may run at a time locks a row of `tenantcron.lock`. Only the owner has
privileges on that table; other roles lock its rows through two functions, which `grants.sql` grants
to schedulers and operators. Advisory locks would need no table, but every login may take any of
them, so a read-only login could block all claims.

Rolling upgrades: the previous release takes advisory locks instead. While one of its replicas is
running, the functions take both:

1. Such a replica registers in `worker`, without capabilities, before its first step. A trigger
   locks all rows until that is committed, so no replica of this release is inside a step then.
2. A replica of this release locks its row first and looks for such workers after that. So it sees
   every one that could be inside the same step, and waits for the advisory lock as well.
3. When no such worker has been seen for an hour, the advisory lock is not taken any more. A replica
   that stops removes its row, so this is usually immediate.

Until then a foreign login that holds the advisory lock still blocks both releases. `lock_wait` in
the log names its session. Commands and API servers do not register. If one of the previous release
rotates keys or adds a webhook concurrently with one of this release, both succeed: there are two
new keys, or one webhook more than allowed.

Migrations take advisory locks, because the first one has no table yet. A login that holds such a
lock can only delay a migration or `uninstall`. A key is a pair: the kind of the lock, and its
object. Other programs on the same database must not use 1952672000 to 1952672099.
"""

from enum import IntEnum, StrEnum
from zlib import crc32

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_TAKE = "SELECT tenantcron.take_lock(%(name)s)"
_TRY = "SELECT tenantcron.try_lock(%(name)s)"
_LOCK_MIGRATION = text("SELECT pg_catalog.pg_advisory_xact_lock(:what, :which)")
# The value ends with the transaction.
_SET_TIMEOUT = text("SELECT pg_catalog.set_config('lock_timeout', :duration, true)")
# Not DEFAULT, which is the default of the role: see `pins`.
_RESET_TIMEOUT = text("SET LOCAL lock_timeout TO 0")


class Lock(StrEnum):
    """The rows of `tenantcron.lock`; triggers take `services` when a service is declared."""

    CLAIM = "claim"
    HISTORY = "history"
    SIGNING_KEYS = "signing_keys"
    # For ordering events, and for counting webhooks.
    OUTBOX = "outbox"
    WEBHOOKS = "webhooks"


class MigrationLock(IntEnum):
    """The advisory locks of migrations."""

    CONTROL = 1_952_672_000
    TENANT = 1_952_672_001


async def take_lock(connection: AsyncConnection, what: Lock) -> None:
    """Wait for a lock and hold it until the end of the transaction."""
    await connection.exec_driver_sql(_TAKE, {"name": what.value})


async def try_lock(connection: AsyncConnection, what: Lock) -> bool:
    """Take a lock until the end of the transaction, if no other transaction has it."""
    found = await connection.exec_driver_sql(_TRY, {"name": what.value})
    return bool(found.scalar_one())


async def lock_migration(connection: AsyncConnection, what: MigrationLock, name: str = "") -> None:
    """Wait for a lock of migrations and hold it until the end of the transaction.

    Names with the same hash wait for each other.
    """
    first, second = key_of(what, name)
    await connection.execute(_LOCK_MIGRATION, {"what": first, "which": second})


def key_of(what: MigrationLock, name: str) -> tuple[int, int]:
    """Return both halves of a key, for a script that takes the lock itself.

    The second half is a signed number of 32 bits.
    """
    return int(what), crc32(name.encode()) - 2**31


async def reset_lock_timeout(connection: AsyncConnection) -> None:
    """Reset the lock timeout of the transaction to the default."""
    await connection.execute(_RESET_TIMEOUT)


async def set_lock_timeout(connection: AsyncConnection, duration: str) -> None:
    """Set the lock timeout of the transaction, such as `10s`."""
    await connection.execute(_SET_TIMEOUT, {"duration": duration})
