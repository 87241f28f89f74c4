"""One replica: runs the loops around the steps, from the first refresh to the last result.

| loop | what it does | what wakes it |
|---|---|---|
| refresh | syncs cursors with schedules (`refresh_loop`) | NOTIFY, a jittered interval |
| fire | fires due cursors (`fire_loop`) | the next cursor is due, a refresh |
| claim | claims and starts executions (`claim_loop`) | fire, NOTIFY, freed slots, delays |
| results | writes results (`results`) | an attempt ended |
| live_logs | stores what running attempts have logged (`live_logs`) | an interval, while any run |
| recover | takes over executions of lost replicas | a quarter of a lease |
| left_work | stops work whose execution has ended (`left_work_loop`) | cancellations, an interval |
| runners | declares capabilities, ends executions without a runner (`runners`) | an interval |
| timeline | detects failovers (`failover`) | an interval, a new LISTEN connection |
| housekeeping, audit | maintain and check the history (`maintenance_loops`) | an interval |
| tenants | syncs tenants with the tenant source, one replica at a time | NOTIFY, an interval |
| outbox | delivers events to webhooks, in separate tasks | an interval |
| event_bus | publishes events to a bus, one replica at a time | an interval |

Heartbeats are sent by a separate thread, which also reports cancellations (`leases`).

A loop that cannot reach the database logs that and retries, with growing delays; the other loops
are not affected. Any other error is a bug. It ends the replica, and other replicas recover its
executions when the leases expire.

Shutdown: refresh, fire and claim stop. Executions that were claimed and have not started are
released. Running executions have until `drain` to end, while heartbeats and results continue. Then
they are interrupted, and that is recorded. Every phase has a deadline (`shutdown`).
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from uuid import uuid4

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.actor.attribution import Attribution
from tenantcron.core.memory import resident
from tenantcron.core.targets import Target
from tenantcron.events.outbox import Outbox
from tenantcron.events.publisher import BusPublisher
from tenantcron.provider.protocol import ScheduleProvider
from tenantcron.provider.rezoning import recompute_for_new_zones
from tenantcron.scheduler.replica import polling_loops
from tenantcron.scheduler.replica.claim_loop import ClaimLoop
from tenantcron.scheduler.replica.failover import FailoverWatch
from tenantcron.scheduler.replica.fire_loop import FireLoop
from tenantcron.scheduler.replica.housekeeping import prepare_history
from tenantcron.scheduler.replica.left_work_loop import LeftWorkLoop
from tenantcron.scheduler.replica.maintenance_loops import MaintenanceLoops
from tenantcron.scheduler.replica.notification_loop import listen_for_notifications
from tenantcron.scheduler.replica.polling_loops import run_loop
from tenantcron.scheduler.replica.refresh_loop import RefreshLoop
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.shutdown import Shutdown, end_tasks
from tenantcron.scheduler.replica.wake_signals import WakeSignals
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.scheduler.steps.lease_thread import LeaseThread
from tenantcron.scheduler.steps.live_logs import LiveLogs
from tenantcron.scheduler.steps.results import Results
from tenantcron.scheduler.steps.runners import RunnerWatch
from tenantcron.store.connection.conflicts import retry_conflicts
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import audit_records, declared_weights, identities, limits, workers
from tenantcron.store.steps import glances
from tenantcron.targets.contract import TargetRunner
from tenantcron.tenants.source.follow import Follower

log = structlog.get_logger(__name__)


class ReplicaRun:
    """One replica, from start to stop."""

    def __init__(  # noqa: PLR0913 -- the parts of a replica, each with a name
        self,
        replica: Replica,
        executor: Executor,
        providers: Sequence[ScheduleProvider],
        outbox: Outbox | None = None,
        follower: Follower | None = None,
        *,
        default_target: Target | None = None,
        publisher: BusPublisher | None = None,
        runners: Mapping[str, TargetRunner] = MappingProxyType({}),
    ) -> None:
        self._replica, self._executor = replica, executor
        # None: other replicas deliver events.
        self._outbox = outbox
        # None: there is no event bus.
        self._publisher = publisher
        # None: there is no tenant source.
        self._follower = follower
        self._shutdown: Shutdown | None = None
        self._stopping, self._signals = asyncio.Event(), WakeSignals()
        signals, stopping = self._signals, self._stopping
        self._results = Results(replica, on_freed=signals.work_pending.set)
        self._leases = LeaseThread(
            replica, executor, self._results, stopping.is_set, self._check_memory
        )
        self._live_logs = LiveLogs(replica, executor)
        self._failover, self._runners = FailoverWatch(replica), RunnerWatch(replica)
        self._refreshing = RefreshLoop(replica, providers, signals, self._runners)
        self._claiming = ClaimLoop(
            replica,
            executor,
            self._results,
            self._leases,
            signals,
            stopping=stopping,
            default_target=default_target,
        )
        self._firing = FireLoop(replica, signals, self._claiming)
        self._left_work = LeftWorkLoop(replica, runners)
        self._maintenance = MaintenanceLoops(replica)
        # Whether the replica stops because it uses too much memory.
        self.is_too_large = False

    @property
    def unhealthy(self) -> str | None:
        """Why the process should be restarted; None if it is healthy (see `progress`)."""
        return "; ".join(self._replica.progress.stuck(self._replica.settings)) or None

    @property
    def unready(self) -> str | None:
        """Why the replica is not ready; None if its heartbeats succeed and it accepts work."""
        silence = self._leases.silence
        if self._stopping.is_set():
            return "it is stopping"
        if silence == float("inf"):
            return "it is starting: no heartbeat has reached the database yet"
        if silence < self._replica.settings.lease.total_seconds():
            return self.unhealthy
        why = self._replica.progress.error_of("heartbeat") or "no answer"
        return f"no heartbeat has reached the database for {silence:.0f} s: {why}"

    @property
    def is_ready(self) -> bool:
        """Whether the replica is ready."""
        return self.unready is None

    @property
    def _deadlines(self) -> Shutdown:
        """The deadlines of the shutdown. Without a call of `stop` they count from now."""
        now = asyncio.get_running_loop().time()
        return self._shutdown or Shutdown(now, self._replica.settings.drain)

    def stop(self) -> None:
        """Start no more executions; `run` returns when all have ended or at its deadline."""
        self._shutdown = self._deadlines
        self._stopping.set()
        self._signals.set_all()
        if self._outbox is not None:
            self._outbox.stop()
        if self._publisher is not None:
            self._publisher.stop()

    def _check_memory(self) -> None:
        """Drain above `max_memory`, because only a new process frees leaked memory."""
        limit = self._replica.settings.max_memory
        if limit is None or self._stopping.is_set() or resident() <= limit:
            return
        self.is_too_large = True
        log.error("memory_exceeded", resident=resident(), max_memory=limit)
        self.stop()

    async def run(self) -> None:
        """Work until `stop` is called, then drain."""
        await self._prepare()
        async with asyncio.TaskGroup() as tasks:
            # These run until the last result is written.
            keepers = [
                tasks.create_task(self._results.write()),
                tasks.create_task(self._live_logs.write()),
                tasks.create_task(self._leases.hold()),
                tasks.create_task(self._listen()),
                tasks.create_task(self._audit()),
            ]
            starters = list(self._start_loops(tasks))
            delivering = [
                tasks.create_task(self._deliver(), name="outbox"),
                tasks.create_task(self._publish(), name="event_bus"),
            ]
            await self._stopping.wait()
            await end_tasks(starters, self._deadlines.steps_end)
            await self._drain()
            await end_tasks(delivering, self._deadlines.drained)
            for keeper in keepers:
                keeper.cancel()
        await self._leave()

    def _start_loops(self, tasks: asyncio.TaskGroup) -> Iterator[asyncio.Task[None]]:
        """Start the loops that a shutdown stops first."""
        signals, progress = self._signals, self._replica.progress
        loops = {
            "refresh": (self._refreshing.step, signals.schedules_changed),
            "fire": (self._firing.step, signals.cursors_changed),
            "claim": (self._claiming.step, signals.work_pending),
            "recover": (self._recover, signals.stopping),
            "timeline": (self._failover.check, signals.listening),
            "runners": (self._runners.check, signals.stopping),
        }
        for name, (step, signal) in loops.items():
            loop = run_loop(name, step, signal, self._stopping, progress)
            yield tasks.create_task(loop, name=name)
        yield tasks.create_task(self._keep_house(), name="housekeeping")
        if self._left_work.is_needed:
            # Without progress: a step waits for another server.
            step, signal = self._left_work.step, signals.executions_cancelled
            yield tasks.create_task(
                run_loop("left_work", step, signal, self._stopping), name="left_work"
            )
        if self._follower is not None:
            # Without progress: a step may register a fleet, which takes minutes.
            step, signal = self._follower.step, signals.tenants_changed
            yield tasks.create_task(
                run_loop("tenants", step, signal, self._stopping), name="tenants"
            )

    async def run_once(self) -> None:
        """Run everything that is due now, wait until it has ended, and return.

        Occurrences that become due meanwhile are left to the next run, so that this one ends.
        """
        await self._prepare()
        async with asyncio.TaskGroup() as tasks:
            keepers = [
                tasks.create_task(self._results.write()),
                tasks.create_task(self._live_logs.write()),
                tasks.create_task(self._leases.hold()),
            ]
            if self._follower is not None:
                await retry_conflicts(self._follower.step)
            await retry_conflicts(self._refreshing.step)
            await retry_conflicts(self._recover)
            if self._left_work.is_needed:
                await retry_conflicts(self._left_work.step)
            fire = self._firing.fire_batch
            while not self._stopping.is_set() and (await retry_conflicts(fire)).more:
                pass
            while not self._stopping.is_set() and await retry_conflicts(self._start_and_wait):
                pass
            if self._stopping.is_set():
                await self._drain()
            elif self._outbox is not None:
                await self._outbox.deliver_once()
                if self._publisher is not None:
                    await self._publisher.publish_once()
            if self._publisher is not None:
                await self._publisher.close()
            for keeper in keepers:
                keeper.cancel()
        await self._leave()

    async def _start_and_wait(self) -> bool:
        """Start a batch and wait until an attempt ends; return False if there was no work."""
        # These hold slots during the claim, even if all of them end meanwhile.
        holding = self._executor.load + self._results.unwritten
        claim = await self._claiming.start_batch()
        limited = (await self._claiming.start_limited()).rate
        running, longest = self._executor.load, polling_loops.LONGEST_SLEEP
        # What a rate limit delays for longer is left to the next run.
        waits = limited < longest
        if running or waits:
            await self._signals.attempt_ended.wait(min(limited, longest))
        await self._results.all_written()
        # Also after the last attempt, which has freed a slot.
        return bool(claim or running or holding or waits)

    async def _prepare(self) -> None:
        replica = self._replica
        # The audit records attribute the declared settings to this replica.
        starting = Attribution(replica.actor, uuid4())
        async with replica.database.transaction() as connection:
            settings = replica.settings
            await audit_records.act(connection, starting)
            await limits.declare(
                connection, settings.max_concurrent, settings.max_concurrent_per_tenant
            )
            if replica.quotas is not None:
                await limits.declare_quotas(connection, replica.quotas)
            if replica.target_kinds is not None:
                await limits.declare_target_kinds(connection, replica.target_kinds)
            if replica.weights is not None:
                await declared_weights.declare(connection, replica.weights)
        async with replica.database.transaction() as connection:
            await audit_records.act(connection, starting)
            await identities.declare_service(connection, settings.service)
        await prepare_history(replica)
        await recompute_for_new_zones(replica.database, replica.clock())
        await self._leases.start()
        await self._runners.declare()
        log.info("scheduler_started", worker=replica.worker_id, service=replica.settings.service)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout_at(self._deadlines.left):
                await self._release_all()
        except (TimeoutError, DatabaseError, DBAPIError) as error:
            # The leases expire, and housekeeping removes the worker row after a day.
            log.warning("leaving_failed", worker=self._replica.worker_id, error=first_line(error))
        log.info("scheduler_stopped", worker=self._replica.worker_id)

    async def _release_all(self) -> None:
        # With unwritten results, uncertain claims cannot be identified. Their leases expire.
        if not self._results.unwritten:
            await retry_conflicts(self._claiming.release_uncertain)
        # Declares again, so that a catch-all ignores these requirements for a while.
        await self._runners.declare()
        async with self._replica.database.transaction() as connection:
            await workers.remove(connection, self._replica.worker_id)

    async def _listen(self) -> None:
        await listen_for_notifications(self._replica, self._signals, self._claiming, self._follower)

    async def _recover(self) -> float:
        replica = self._replica
        is_expired = await glances.anything_expired(replica.database, replica.clock())
        if is_expired and await recover_lost(replica):
            self._signals.work_pending.set()
            return 0
        return replica.settings.lease.total_seconds() / 4

    async def _deliver(self) -> None:
        """Deliver events. A request in progress may end during the drain, like executions."""
        outbox = self._outbox
        if outbox is None:
            return
        async with asyncio.TaskGroup() as visits:

            async def step() -> float:
                return await outbox.step(visits)

            await run_loop("outbox", step, outbox.wake_signal, self._stopping)

    async def _publish(self) -> None:
        """Publish events, during the drain as well."""
        publisher = self._publisher
        if publisher is not None:
            await run_loop("event_bus", publisher.step, publisher.wake_signal, self._stopping)
            await publisher.close()

    async def _keep_house(self) -> None:
        signal, maintenance = self._signals.stopping, self._maintenance
        await signal.wait(maintenance.first_delay)
        await run_loop("housekeeping", maintenance.keep_house, signal, self._stopping)

    async def _audit(self) -> None:
        await run_loop("audit", self._maintenance.audit, self._signals.stopping, self._stopping)

    async def _drain(self) -> None:
        """Wait until all attempts end; interrupt them at the deadline."""
        log.info("scheduler_stopping", running=self._executor.load)
        try:
            async with asyncio.timeout_at(self._deadlines.drained):
                await self._all_ended()
        except TimeoutError:
            log.warning("drain_over", running=self._executor.load)
            self._executor.interrupt_all()
        await self._write_results()

    async def _write_results(self) -> None:
        """Wait until all results are written, or abandon them at the deadline."""
        try:
            async with asyncio.timeout_at(self._deadlines.results_written):
                await self._all_ended()
                await self._results.all_written()
        except TimeoutError:
            log.error("results_given_up", results=self._results.unwritten)

    async def _all_ended(self) -> None:
        while self._executor.load:
            await self._signals.attempt_ended.wait(polling_loops.LONGEST_SLEEP)
