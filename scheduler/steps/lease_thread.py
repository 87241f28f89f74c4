"""The thread that renews the leases of a replica and watches its main event loop.

`leases` has the protocol. The thread has its own event loop and one connection, so it can use the
same statements, deadlines and error messages as the rest of the scheduler.
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
from tenantcron.core.wake_signal import WakeSignal
from tenantcron.scheduler.replica.exits import Exit
from tenantcron.scheduler.replica.polling_loops import run_loop
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.watchdog import CHECK_INTERVAL, LoopBlock, Watchdog
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import release_unstarted
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.scheduler.steps.handler_context import fields
from tenantcron.scheduler.steps.leases import (
    TRUSTED,
    Heartbeat,
    LeaseWatch,
    flag_ended,
    renew,
    stop_ended,
)
from tenantcron.scheduler.steps.results import Results
from tenantcron.store.connection.engine import lone_database
from tenantcron.store.connection.errors import DatabaseAwayError, DatabaseError
from tenantcron.store.steps import finishing
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.faults import storable

log = structlog.get_logger(__name__)

# The heartbeat interval and the timeout of a heartbeat, as a fraction of a lease.
_EVERY: Final = 1 / 3
# How long a blocked loop keeps its leases, in leases.
LONGEST_BLOCK: Final = 2
# The time limit for the last writes before the process exits.
_LAST_WRITES: Final = 5.0
# The time limit for a heartbeat in progress when the thread stops.
_LAST_BEAT: Final = 0.5
# The remaining lease of the other executions of a blocked replica when it exits. Its threads are
# gone before the next attempt starts.
_REST: Final = timedelta(seconds=1)


class LeaseThread:
    """Renews the leases of one replica, in its own thread."""

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
        # When the last successful heartbeat was sent. Written by the thread.
        self._kept_at = float("-inf")
        self._first: Future[None] = Future()
        self._ended: Future[None] = Future()
        # These belong to the thread's loop.
        self._own_loop: AbstractEventLoop | None = None
        self._serving: asyncio.Task[None]
        self._wake_signal, self._stopping = WakeSignal(), asyncio.Event()
        # These belong to the main loop.
        self._main: AbstractEventLoop
        self._watch: LeaseWatch
        self._watchdog: Watchdog

    @property
    def silence(self) -> float:
        """Seconds since the last successful heartbeat was sent."""
        return monotonic() - self._kept_at

    async def start(self) -> None:
        """Start the thread from the main loop, and wait for the first successful heartbeat."""
        replica, self._main = self._replica, asyncio.get_running_loop()
        self._watchdog = Watchdog(self._main, threading.get_ident(), self._executor, replica.counts)
        threading.Thread(target=self._run, name="leases", daemon=True).start()
        await asyncio.wrap_future(self._first)
        lease, later = replica.settings.lease, self._main.call_later
        self._watch = LeaseWatch(self._executor, lease, lambda: self.silence, later, replica.counts)
        self._watch.start()

    def renew_now(self) -> None:
        """Send a heartbeat now, because an execution was cancelled."""
        self._in_thread(self._wake_signal.set)

    async def hold(self) -> None:
        """Wait for the thread, which ends only with an error; stop it when this is cancelled."""
        try:
            await asyncio.shield(asyncio.wrap_future(self._ended))
        finally:
            await self._stop()

    async def _stop(self) -> None:
        """Stop the thread, but do not wait for a database that does not answer."""
        self._watch.end()
        self._in_thread(self._end)
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * _LAST_BEAT):
                await asyncio.wait([asyncio.wrap_future(self._ended)])

    def _end(self) -> None:
        """Give a heartbeat in progress a short time to finish."""
        self._stopping.set()
        self._wake_signal.set()
        asyncio.get_running_loop().call_later(_LAST_BEAT, self._serving.cancel)

    def _in_thread(self, callback: Callable[[], None]) -> None:
        # The loop is closed: the thread has already ended.
        with suppress(RuntimeError):
            if self._own_loop is not None:
                self._own_loop.call_soon_threadsafe(callback)

    def _in_main(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):
            self._main.call_soon_threadsafe(callback)

    # The methods from here on run in the thread.

    def _run(self) -> None:
        try:
            # psycopg needs a selector loop on every platform.
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
            watching = asyncio.create_task(self._watch_loop(replica))
            try:
                beat = partial(self._beat, replica)
                await run_loop(
                    "heartbeat", beat, self._wake_signal, self._stopping, replica.progress
                )
            finally:
                watching.cancel()
                # Log a block that has just ended.
                self._watchdog.check()

    async def _beat(self, replica: Replica) -> float:
        """Send a heartbeat, and return the seconds until the next one."""
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

    def _report(self, beat: Heartbeat) -> None:
        """Notify the main loop, then set the flags, so that the loop decides the outcome first."""
        counts = self._replica.counts
        self._in_main(partial(stop_ended, self._executor, counts, beat))
        self._in_main(self._on_beat)
        flag_ended(self._executor, beat)

    async def _watch_loop(self, replica: Replica) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            self._watchdog.check()
            if not self._watchdog.is_blocked:
                continue
            if self.silence > self._lease * TRUSTED:
                self._close_all()
            if self._watchdog.seconds > self._lease * LONGEST_BLOCK:
                await self._give_up(replica, self._watchdog.current_block())

    def _close_all(self) -> None:
        """Stop all handlers from committing: leases expire soon, and the loop is blocked."""
        for claimed in self._executor.running:
            self._executor.flag(claimed.lease, closed=True)

    async def _give_up(self, replica: Replica, block: LoopBlock) -> None:
        """Exit a process whose loop stays blocked, and fail only the blocking attempt."""
        about = {} if block.claimed is None else fields(block.claimed)
        seconds = round(self._watchdog.seconds)
        log.error("loop_given_up", **about, seconds=seconds, stack=block.stack)
        try:
            # If this fails, the leases expire and other replicas recover the executions.
            with suppress(DatabaseError, DBAPIError, TimeoutError):
                async with asyncio.timeout(_LAST_WRITES):
                    await self._record(replica, block)
        finally:
            os._exit(Exit.LOOP_BLOCKED)

    async def _record(self, replica: Replica, block: LoopBlock) -> None:
        """Record the blocking attempt and pending results; let other leases expire soon."""
        running, left, culprit = self._executor.running, self._results.left, block.claimed
        if culprit is not None:
            await finish_batch(replica, [_blocked(culprit, block, self._watchdog.seconds)])
        others = [claimed for claimed in running if claimed is not culprit]
        if others:
            async with replica.database.transaction(by_key=True) as connection:
                await finishing.heartbeat(connection, others, lease=_REST, at=replica.clock())
        known = {claimed.lease_token for claimed in running}
        known |= {attempt.claimed.lease_token for attempt in left}
        await release_unstarted(replica, known)
        # Last, because the blocked loop may hold locks on these rows.
        if left:
            await finish_batch(replica, left)


def _blocked(claimed: Claimed, block: LoopBlock, seconds: float) -> Attempt:
    span = format_duration(timedelta(seconds=round(seconds)))
    headline = f"blocked the event loop for {span}, so its replica was stopped"
    return Attempt(claimed, AttemptOutcome.FAILED, storable(f"{headline}\n{block.stack}"))
