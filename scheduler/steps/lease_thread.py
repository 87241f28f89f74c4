"""The thread that renews the leases of a replica and watches its main event loop.

The protocol stands in `leases`. The thread has an event loop of its own and one connection, so it
shares the statements, deadlines and error messages of everything else that speaks to the database.
"""

import asyncio
import os
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.core.durations import format_duration
from tenantcron.scheduler.replica.exits import Exit
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.sleeping_loops import Bell, repeat
from tenantcron.scheduler.replica.watchdog import LOOK, Block, Watchdog
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import give_back_unstarted
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.scheduler.steps.handler_context import fields
from tenantcron.scheduler.steps.leases import TRUSTED, Beat, Watch, flag_ended, renew, stop_ended
from tenantcron.scheduler.steps.results import Results
from tenantcron.store.connection.engine import lone_database
from tenantcron.store.connection.errors import DatabaseAwayError, DatabaseError
from tenantcron.store.steps import finishing
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.faults import storable

log = structlog.get_logger(__name__)

# Of a lease: how often leases are renewed, and how long one heartbeat may take.
_EVERY: Final = 1 / 3
# Leases for which a blocked loop keeps what it runs.
LONGEST_BLOCK: Final = 2
# For what is left to write before the process ends.
_LAST_WORDS: Final = 5.0
# For a heartbeat that is under way when the thread stops.
_LAST_BEAT: Final = 0.5
# What the other executions of a blocked replica have left of their leases when it ends: enough for
# its threads to be gone before the next attempt starts.
_REST: Final = timedelta(seconds=1)


class LeaseThread:
    """Renews the leases of one replica from a thread of its own."""

    def __init__(
        self,
        replica: Replica,
        executor: Executor,
        results: Results,
        is_draining: Callable[[], bool],
        on_beat: Callable[[], None],
    ) -> None:
        self._replica, self._executor = replica, executor
        self._results, self._is_draining = results, is_draining
        # Called in the main loop after each heartbeat.
        self._on_beat = on_beat
        self._lease = replica.settings.lease.total_seconds()
        # When the last heartbeat was sent that came through; the thread writes it.
        self._kept_at = float("-inf")
        self._first: Future[None] = Future()
        self._ended: Future[None] = Future()
        # Of the thread's own loop.
        self._own_loop: AbstractEventLoop | None = None
        self._serving: asyncio.Task[None]
        self._bell, self._stopping = Bell(), asyncio.Event()
        # Of the main loop.
        self._main: AbstractEventLoop
        self._watch: Watch
        self._watchdog: Watchdog

    @property
    def silence(self) -> float:
        """Seconds since the last heartbeat that came through was sent."""
        return monotonic() - self._kept_at

    async def start(self) -> None:
        """Start it in the loop whose executions it is for; the first heartbeat has come through."""
        replica, self._main = self._replica, asyncio.get_running_loop()
        self._watchdog = Watchdog(self._main, threading.get_ident(), self._executor, replica.counts)
        threading.Thread(target=self._run, name="leases", daemon=True).start()
        await asyncio.wrap_future(self._first)
        lease, later = replica.settings.lease, self._main.call_later
        self._watch = Watch(self._executor, lease, lambda: self.silence, later, replica.counts)
        self._watch.start()

    def ring(self) -> None:
        """Renew now: something was cancelled."""
        self._in_thread(self._bell.ring)

    async def hold(self) -> None:
        """Wait for the thread, which ends only by an error; stop it when this is cancelled."""
        try:
            await asyncio.shield(asyncio.wrap_future(self._ended))
        finally:
            await self._stop()

    async def _stop(self) -> None:
        """End the thread, but do not wait for a database that does not answer."""
        self._watch.end()
        self._in_thread(self._end)
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * _LAST_BEAT):
                await asyncio.wait([asyncio.wrap_future(self._ended)])

    def _end(self) -> None:
        """Let a heartbeat that is under way come through, but not for long."""
        self._stopping.set()
        self._bell.ring()
        asyncio.get_running_loop().call_later(_LAST_BEAT, self._serving.cancel)

    def _in_thread(self, callback: Callable[[], None]) -> None:
        # A closed loop: the thread has ended already.
        with suppress(RuntimeError):
            if self._own_loop is not None:
                self._own_loop.call_soon_threadsafe(callback)

    def _in_main(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):
            self._main.call_soon_threadsafe(callback)

    # From here on in the thread.

    def _run(self) -> None:
        try:
            # A selector: psycopg needs one on every system.
            with (
                suppress(asyncio.CancelledError),
                asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner,
            ):
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 -- the main loop raises it
            for future in (self._first, self._ended):
                if not future.done():
                    future.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self._serving = asyncio.create_task(self._renew())
        self._own_loop = asyncio.get_running_loop()
        await self._serving

    async def _renew(self) -> None:
        async with lone_database(self._replica.database.target) as database:
            replica = replace(self._replica, database=database)
            await self._beat(replica)
            self._first.set_result(None)
            watching = asyncio.create_task(self._look_after_loop(replica))
            try:
                beat = partial(self._beat, replica)
                await repeat("heartbeat", beat, self._bell, self._stopping, replica.progress)
            finally:
                watching.cancel()
                # A block that has just ended is worth its line.
                self._watchdog.look()

    async def _beat(self, replica: Replica) -> float:
        """Send a heartbeat; return how long there is nothing to do."""
        sent, every = monotonic(), self._lease * _EVERY
        try:
            async with asyncio.timeout(every):
                beat = await renew(
                    replica,
                    self._executor,
                    [attempt.claimed for attempt in self._results.left],
                    draining=self._is_draining(),
                    is_blocked=self._watchdog.is_blocked,
                )
        except TimeoutError:
            raise DatabaseAwayError(
                f"{replica.database.target} has not answered a heartbeat for {every:.0f} s"
            ) from None
        self._kept_at = sent
        self._report(beat)
        return every

    def _report(self, beat: Beat) -> None:
        """Notify the main loop first: what a flag stops must find its attempt stopped."""
        counts = self._replica.counts
        self._in_main(partial(stop_ended, self._executor, counts, beat))
        self._in_main(self._on_beat)
        flag_ended(self._executor, beat)

    async def _look_after_loop(self, replica: Replica) -> None:
        while True:
            await asyncio.sleep(LOOK)
            self._watchdog.look()
            if not self._watchdog.is_blocked:
                continue
            if self.silence > self._lease * TRUSTED:
                self._close_all()
            if self._watchdog.seconds > self._lease * LONGEST_BLOCK:
                await self._give_up(replica, self._watchdog.found())

    def _close_all(self) -> None:
        """The leases are as good as lost, and the loop cannot stop the handlers."""
        for claimed in self._executor.running:
            self._executor.flag(claimed.lease, closed=True)

    async def _give_up(self, replica: Replica, block: Block) -> None:
        """End a process whose loop is blocked for good, and blame only what blocks it."""
        about = {} if block.claimed is None else fields(block.claimed)
        seconds = round(self._watchdog.seconds)
        log.error("loop_given_up", **about, seconds=seconds, stack=block.stack)
        try:
            # What cannot be written now comes to the same when the leases run out.
            with suppress(DatabaseError, DBAPIError, TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await self._record(replica, block)
        finally:
            os._exit(Exit.LOOP_BLOCKED)

    async def _record(self, replica: Replica, block: Block) -> None:
        """Record the blocking attempt and what has ended; let others take over the rest soon."""
        running, left, culprit = self._executor.running, self._results.left, block.claimed
        if culprit is not None:
            await finish_batch(replica, [_blocked(culprit, block, self._watchdog.seconds)])
        others = [claimed for claimed in running if claimed is not culprit]
        if others:
            async with replica.database.transaction(by_key=True) as connection:
                await finishing.heartbeat(connection, others, lease=_REST, at=replica.clock())
        known = {claimed.lease_token for claimed in running}
        known |= {attempt.claimed.lease_token for attempt in left}
        await give_back_unstarted(replica, known)
        # Last: the loop may hold these rows in a transaction that it cannot end.
        if left:
            await finish_batch(replica, left)


def _blocked(claimed: Claimed, block: Block, seconds: float) -> Attempt:
    span = format_duration(timedelta(seconds=round(seconds)))
    headline = f"blocked the event loop for {span}, so its replica was stopped"
    return Attempt(claimed, AttemptOutcome.FAILED, storable(f"{headline}\n{block.stack}"))
