"""The read replica: a streaming standby for reads that may be a few seconds old.

Reads of history can go to a standby, so that dashboards and clients that poll cost the primary
nothing. A standby lags, can stop following, can be down, and becomes a primary after a failover.
Whether it may be used is decided by positions in the write-ahead log, not by clocks:

- **Samples.** Every second `watch` notes the primary's current position. All changes that were
  committed before the sample are at or before that position, also those that are not flushed yet.
- **Freshness.** Then it asks the standby how far it has replayed. The newest sample at or before
  that position is the time as of which the standby is complete.
- **Use.** The standby is used while that time is less than `MOST_STALE` ago. Otherwise reads go to
  the primary. So a read is never older than `MOST_STALE`, whatever the standby does.
- **Identity.** A server that is not a standby of the same cluster is never used: it was promoted,
  or the setting is wrong.
- **Failures.** A read that fails on the standby is repeated on the primary, and the standby is not
  used until it has answered again. If the primary is down, no new samples are taken, and the
  standby is not used either: a page must not look current after a failover that lost transactions.

No lookup that authorises a change, and no change, uses the standby.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from time import monotonic
from typing import Final, NamedTuple, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database, open_replica
from tenantcron.store.connection.errors import DatabaseError

# The oldest state that a read from the replica shows.
MOST_STALE: Final = timedelta(seconds=5)
_CHECK_EVERY: Final = 1.0
# A check that takes longer has failed.
_CHECK_WITHIN: Final = timedelta(seconds=2)
_POSITION: Final = (
    "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS position, system_identifier AS cluster"
    " FROM pg_control_system()"
)
_REPLAYED: Final = (
    "SELECT pg_is_in_recovery() AS is_standby,"
    " pg_last_wal_replay_lsn() - '0/0'::pg_lsn AS position, system_identifier AS cluster"
    " FROM pg_control_system()"
)

T = TypeVar("T")
log = structlog.get_logger(__name__)


class _Sample(NamedTuple):
    """A position of the primary, and when it was read."""

    position: int
    at: float


class ReadReplica:
    """A standby, and whether it is fresh enough to be read."""

    def __init__(
        self, replica: Database, primary: Database, clock: Callable[[], float] = monotonic
    ) -> None:
        self._replica, self._primary = replica, primary
        self._clock = clock
        self._samples: deque[_Sample] = deque()
        self._complete_as_of = float("-inf")
        # None: not known yet.
        self._is_used: bool | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether reads may use it now."""
        return self._clock() - self._complete_as_of < MOST_STALE.total_seconds()

    async def read(
        self,
        read: Callable[[AsyncConnection], Awaitable[T]],
        *,
        primary: Database,
        seen: Callable[[Database], Database],
    ) -> T:
        """Read from the standby, or from the primary; `seen` restricts what the reader sees."""
        if self.is_fresh:
            try:
                async with seen(self._replica).transaction() as connection:
                    return await read(connection)
            except (DatabaseError, DBAPIError) as error:
                self._skip(first_line(error))
        async with seen(primary).transaction() as connection:
            return await read(connection)

    async def check(self) -> None:
        """Take a sample, and find out as of when the standby is complete."""
        try:
            async with asyncio.timeout(_CHECK_WITHIN.total_seconds()):
                problem = await self._compare()
        except (DatabaseError, DBAPIError, TimeoutError) as error:
            problem = first_line(error) or "no answer in time"
        if problem is not None:
            self._skip(problem)
        elif not self.is_fresh:
            self._report(f"it is more than {MOST_STALE.seconds} s behind")
        else:
            self._report(None)

    async def _compare(self) -> str | None:
        """Return why the server cannot be used at all; None if only its lag matters."""
        at = self._clock()
        async with self._primary.transaction() as connection:
            current = (await connection.exec_driver_sql(_POSITION)).one()
        self._samples.append(_Sample(int(current.position), at))
        async with self._replica.transaction() as connection:
            found = (await connection.exec_driver_sql(_REPLAYED)).one()
        if not found.is_standby or found.position is None:
            return "it is not a standby"
        if found.cluster != current.cluster:
            return "it is a standby of another cluster"
        self._advance(int(found.position))
        return None

    def _advance(self, replayed: int) -> None:
        while self._samples and self._samples[0].position <= replayed:
            self._complete_as_of = max(self._complete_as_of, self._samples.popleft().at)
        # Older ones cannot make it fresh any more.
        oldest = self._clock() - MOST_STALE.total_seconds()
        while self._samples and self._samples[0].at < oldest:
            self._samples.popleft()

    def _skip(self, reason: str) -> None:
        self._complete_as_of = float("-inf")
        self._report(reason)

    def _report(self, reason: str | None) -> None:
        """Log a change: reads go to the standby from now on, or to the primary with a reason."""
        if self._is_used == (reason is None):
            return
        self._is_used = reason is None
        if reason is None:
            log.info("read_replica_used", replica=str(self._replica.target))
        else:
            log.warning("read_replica_skipped", replica=str(self._replica.target), reason=reason)


@asynccontextmanager
async def watched_replica(
    url: str | None, primary: Database, timeout: timedelta
) -> AsyncIterator[ReadReplica | None]:
    """Open the read replica of a URL and watch it during the block; None without a URL."""
    if url is None:
        yield None
        return
    # Half of the time of a request, so that the primary can still answer it.
    async with open_replica(url, timeout / 2) as database:
        replica = ReadReplica(database.patient(timeout / 2), primary)
        watching = asyncio.create_task(_watch(replica))
        try:
            yield replica
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


async def _watch(replica: ReadReplica) -> None:
    while True:
        await replica.check()
        await asyncio.sleep(_CHECK_EVERY)
