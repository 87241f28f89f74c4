"""Advisory locks. They end with the transaction, so they also hold through a pooling proxy.

Keys come in pairs: what is locked, and which one of it. The first half is ours alone by convention;
other programs on the same database must keep away from 1952672000 to 1952672099.
"""

from enum import IntEnum
from zlib import crc32

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_LOCK = text("SELECT pg_catalog.pg_advisory_xact_lock(:what, :which)")
# Waiting for a lock of any kind; the value goes with the transaction.
_PATIENCE = text("SELECT pg_catalog.set_config('lock_timeout', :duration, true)")


class Lock(IntEnum):
    """What can be locked."""

    CONTROL_MIGRATION = 1_952_672_000
    TENANT_MIGRATION = 1_952_672_001
    CLAIM = 1_952_672_002
    HISTORY = 1_952_672_003
    # The triggers that make identities take it, too, by this number.
    SERVICES = 1_952_672_004
    SIGNING_KEYS = 1_952_672_005


async def take_lock(connection: AsyncConnection, what: Lock, name: str = "") -> None:
    """Wait for a lock, until the end of the transaction. Names that collide wait for each other."""
    # The key is a signed number of 32 bits.
    which = crc32(name.encode()) - 2**31
    await connection.execute(_LOCK, {"what": what, "which": which})


async def wait_at_most(connection: AsyncConnection, duration: str) -> None:
    """Let statements of this transaction fail that wait longer for a lock, `10s` for example."""
    await connection.execute(_PATIENCE, {"duration": duration})
