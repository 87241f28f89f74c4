"""Advisory locks. They end with the transaction, so they also hold through a pooling proxy.

Keys come in pairs: what is locked, and which one of it. The first half is ours alone by convention;
other programs on the same database must keep away from 1952672000 to 1952672099.
"""

from enum import IntEnum
from zlib import crc32

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_LOCK = text("SELECT pg_catalog.pg_advisory_xact_lock(:what, :which)")
_TRY = text("SELECT pg_catalog.pg_try_advisory_xact_lock(:what, :which)")
# Waiting for a lock of any kind; the value goes with the transaction.
_PATIENCE = text("SELECT pg_catalog.set_config('lock_timeout', :duration, true)")
# Not DEFAULT, which is the role's: see `pins`.
_AS_EVER = text("SET LOCAL lock_timeout TO 0")


class Lock(IntEnum):
    """What can be locked."""

    CONTROL_MIGRATION = 1_952_672_000
    TENANT_MIGRATION = 1_952_672_001
    CLAIM = 1_952_672_002
    HISTORY = 1_952_672_003
    # The triggers that make identities take it, too, by this number.
    SERVICES = 1_952_672_004
    SIGNING_KEYS = 1_952_672_005
    # Who puts events in order, and who counts webhooks.
    OUTBOX = 1_952_672_006
    WEBHOOKS = 1_952_672_007


async def take_lock(connection: AsyncConnection, what: Lock, name: str = "") -> None:
    """Wait for a lock, until the end of the transaction. Names that collide wait for each other."""
    await connection.execute(_LOCK, {"what": what, "which": _which(name)})


async def try_lock(connection: AsyncConnection, what: Lock) -> bool:
    """Take a lock until the end of the transaction, if nobody has it."""
    taken = await connection.scalar(_TRY, {"what": what, "which": _which("")})
    return bool(taken)


def key_of(what: Lock, name: str) -> tuple[int, int]:
    """Return both halves of a key, for a script that takes the lock by itself."""
    return int(what), _which(name)


def _which(name: str) -> int:
    """Return the second half of a key: a signed number of 32 bits."""
    return crc32(name.encode()) - 2**31


async def wait_as_ever(connection: AsyncConnection) -> None:
    """Let the statements after this one wait for locks as those of any other transaction."""
    await connection.execute(_AS_EVER)


async def wait_at_most(connection: AsyncConnection, duration: str) -> None:
    """Let statements of this transaction fail that wait longer for a lock, `10s` for example."""
    await connection.execute(_PATIENCE, {"duration": duration})
