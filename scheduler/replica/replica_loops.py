"""One replica at work: loops around the steps, from the first refresh to the last result.

Who does what, and what wakes it:

- **refresh** brings the cursors in line: at start, on a NOTIFY, and at its own uneven pace;
- **fire** sleeps until the next cursor is due;
- **claim** sleeps until something waits: after fire, on a NOTIFY, when a slot was freed, when a
  retry or a spread start has come;
- **results** are written as they come;
- **runners** names what this replica can run, and ends what no replica can (`runners`);
- **heartbeat** is no task of this loop: a thread renews leases and reports what was cancelled
  (`leases` has the protocol); **recover** takes over what other replicas lost; **housekeeping**
  makes and drops months of history;
- **tenants** follows the platform's registry, if the settings name one: on a NOTIFY and every
  minute, by one replica at a time;
- **outbox** delivers events to webhooks, in tasks of its own that nothing else waits for.

A loop that cannot reach the database says so and tries again, ever more slowly; the others are not
concerned. An error that is not the database's is a bug: it ends the replica, loudly, and what it
held is recovered by its leases.

Stopping: no more refresh, fire and claim; what was claimed and has not started is given back; what
runs has until `drain` to end, while heartbeats and results go on. Then it is interrupted, and that
is recorded, too. Every part has a deadline, see `shutdown`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import structlog
from sqlalchemy.exc import DBAPIError

from tenantcron.actor.attribution import Attribution
from tenantcron.core.memory import resident
from tenantcron.core.names import TenantId
from tenantcron.core.requirements import requirement
from tenantcron.provider.bounds import ProviderError
from tenantcron.provider.notifications import Hints, listen
from tenantcron.provider.pace import Pace
from tenantcron.provider.protocol import ScheduleProvider
from tenantcron.provider.refresh import Refreshed, refresh
from tenantcron.provider.rezoning import recompute_for_new_zones
from tenantcron.scheduler.events.outbox import Outbox
from tenantcron.scheduler.inspect.audit import audit
from tenantcron.scheduler.metrics.counts import LastAudit
from tenantcron.scheduler.replica.failover import FailoverWatch
from tenantcron.scheduler.replica.housekeeping import clean_up, prepare_history
from tenantcron.scheduler.replica.record_retention import RecordRetention
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.shutdown import Shutdown, end_tasks
from tenantcron.scheduler.replica.sleeping_loops import WakeSignal, retry_conflicts, run_loop
from tenantcron.scheduler.steps.attempts import Attempt, refused
from tenantcron.scheduler.steps.claim import (
    STARTS_A_BATCH,
    STARTS_A_LARGE_BATCH,
    Sweep,
    claim_batch,
    glance_at_requirements,
    release,
    release_unrunnable,
    release_unstarted,
)
from tenantcron.scheduler.steps.definitions import Definition, UnreadableError
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.scheduler.steps.fire import Fired, fire_batch
from tenantcron.scheduler.steps.lease_thread import LeaseThread
from tenantcron.scheduler.steps.results import Results
from tenantcron.scheduler.steps.runners import RunnerWatch
from tenantcron.scheduler.steps.slot_shortage import RECLAIM_AFTER
from tenantcron.schedules.targets import HttpTarget
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import audit_records, identities, limits, workers
from tenantcron.store.steps import glances
from tenantcron.store.steps.claiming import CANCEL, Claimed
from tenantcron.targets.tracing import Note, step
from tenantcron.tenants.source.follow import Follower

log = structlog.get_logger(__name__)

# However far off the next thing is, a loop looks after that many seconds: a hint may have got lost.
LONGEST_SLEEP = 10.0
# What is due and was not to be had is in another replica's hands, for a moment.
_SHORTEST_SLEEP = 0.01
# What has come due while the answer was on its way is in no other replica's hands.
_AT_ONCE = 0.0001
# Executions that this process runs at a time. The limits of the cluster are another matter. There
# is room for two batches: one is claimed while the other has not begun to run.
CAPACITY = 2 * STARTS_A_LARGE_BATCH
_MINUTE, _HOUR = 60.0, 3600.0
# How far back the audit of a scheduler goes; `tenantcron audit` goes all the way.
_AUDITED = timedelta(days=1)
# For each statement of audits and housekeeping, which read history and which no step waits for.
_SLOW = timedelta(minutes=5)

Ahead = Callable[[], Awaitable[float | None]]


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
        default_target: HttpTarget | None = None,
    ) -> None:
        settings = replica.settings
        self._replica = replica
        self._slowly = replace(replica, database=replica.database.patient(_SLOW))
        self._executor = executor
        self._providers = providers
        # What runs sagas that have neither a target nor a handler here.
        self._default_target = default_target
        # None: events are left to other replicas.
        self._outbox = outbox
        # None: the platform's registry is not followed.
        self._follower = follower
        self._pace = Pace(replica.random, settings.refresh_interval, settings.refresh_jitter)
        self._next_look = 0.0
        self._sweep = Sweep()
        self._batch = STARTS_A_BATCH
        self._results = Results(replica, on_freed=self._look_for_work)
        self._stopping = asyncio.Event()
        self._shutdown: Shutdown | None = None
        self._moved, self._due, self._waiting = WakeSignal(), WakeSignal(), WakeSignal()
        self._seldom, self._registry = WakeSignal(), WakeSignal()
        self._ended, self._listened = WakeSignal(), WakeSignal()
        self._failover = FailoverWatch(replica)
        self._runners = RunnerWatch(replica)
        self._records = RecordRetention()
        self._leases = LeaseThread(
            replica, executor, self._results, self._stopping.is_set, self._check_memory
        )
        # Whether it stops because it uses too much memory.
        self.is_too_large = False
        self._claimed_at: datetime
        self._is_short = False
        # What the last look of a loop has found; then its next one is a glance (see `glances`).
        self._is_due_far, self._nothing_waits = False, False
        # Whether executions may be claimed that this replica neither runs nor has given back.
        self._in_doubt = False
        # How many cancellations were heard of.
        self._cancels = 0

    @property
    def unhealthy(self) -> str | None:
        """Why the process should be restarted; None if it works. See `progress`."""
        return "; ".join(self._replica.progress.stuck(self._replica.settings)) or None

    @property
    def unready(self) -> str | None:
        """Why it is not at work; None if its heartbeats come through and it takes work."""
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
        """Whether it is at work."""
        return self.unready is None

    @property
    def _stop_plan(self) -> Shutdown:
        """The deadlines of the stop; for a run that ends by itself they count from now."""
        now = asyncio.get_running_loop().time()
        return self._shutdown or Shutdown(now, self._replica.settings.drain)

    def stop(self) -> None:
        """Start nothing any more; `run` returns when all that runs has ended, or in time."""
        self._shutdown = self._stop_plan
        self._stopping.set()
        signals = (self._moved, self._due, self._waiting, self._seldom, self._ended)
        for signal in (*signals, self._listened, self._registry):
            signal.set()
        if self._outbox is not None:
            self._outbox.stop()

    def _check_memory(self) -> None:
        """Drain above the limit of the settings: what leaks is freed only by a new process."""
        limit = self._replica.settings.max_memory
        if limit is None or self._stopping.is_set() or resident() <= limit:
            return
        self.is_too_large = True
        log.error("memory_exceeded", resident=resident(), max_memory=limit)
        self.stop()

    async def run(self) -> None:
        """Work until `stop` is called, then drain."""
        replica = self._replica
        await self._prepare()
        starting = {
            "refresh": (self._refresh, self._moved),
            "fire": (self._fire, self._due),
            "claim": (self._claim, self._waiting),
            "recover": (self._recover, self._seldom),
            "timeline": (self._failover.check, self._listened),
            "runners": (self._runners.check, self._seldom),
        }
        follower = self._follower
        async with asyncio.TaskGroup() as tasks:
            keepers = [
                tasks.create_task(self._results.write()),
                tasks.create_task(self._leases.hold()),
                tasks.create_task(self._listen()),
                tasks.create_task(run_loop("audit", self._audit, self._seldom, self._stopping)),
            ]
            starters = [
                tasks.create_task(
                    run_loop(name, step, signal, self._stopping, replica.progress), name=name
                )
                for name, (step, signal) in starting.items()
            ]
            starters.append(tasks.create_task(self._keep_house(), name="housekeeping"))
            if follower is not None:
                # Without its progress: it may register a fleet, which takes minutes.
                following = run_loop("tenants", follower.step, self._registry, self._stopping)
                starters.append(tasks.create_task(following, name="tenants"))
            delivering = tasks.create_task(self._deliver(), name="outbox")
            await self._stopping.wait()
            await end_tasks(starters, self._stop_plan.steps_end)
            await self._drain()
            await end_tasks([delivering], self._stop_plan.drained)
            for keeper in keepers:
                keeper.cancel()
        await self._leave()

    async def run_once(self) -> None:
        """Do all that is due now, wait until it has ended, and return.

        What comes due meanwhile is left to the next one: where there is much to do, there would be
        no end.
        """
        await self._prepare()
        async with asyncio.TaskGroup() as tasks:
            keepers = [
                tasks.create_task(self._results.write()),
                tasks.create_task(self._leases.hold()),
            ]
            if self._follower is not None:
                await retry_conflicts(self._follower.step)
            await retry_conflicts(self._refresh)
            await retry_conflicts(self._recover)
            while not self._stopping.is_set() and (await retry_conflicts(self._fire_batch)).more:
                pass
            while not self._stopping.is_set() and await retry_conflicts(self._round):
                pass
            if self._stopping.is_set():
                await self._drain()
            elif self._outbox is not None:
                await self._outbox.deliver_once()
            for keeper in keepers:
                keeper.cancel()
        await self._leave()

    async def _round(self) -> bool:
        """Start what can be, wait for an end; False if there was nothing to do."""
        # They hold their slots while this round claims, even if all of them end meanwhile.
        holding = self._executor.load + self._results.unwritten
        claim = await self._start_batch()
        running = self._executor.load
        if running:
            await self._ended.wait(LONGEST_SLEEP)
        await self._results.all_written()
        # Also where the last one has ended: its slot may be of use.
        return bool(claim or running or holding)

    async def _prepare(self) -> None:
        replica = self._replica
        # What the settings declare is on record, and so is that they were this replica's.
        starting = Attribution(replica.actor, uuid4())
        async with replica.database.transaction() as connection:
            settings = replica.settings
            await audit_records.act(connection, starting)
            await limits.declare(
                connection, settings.max_concurrent, settings.max_concurrent_per_tenant
            )
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
            async with asyncio.timeout_at(self._stop_plan.left):
                await self._release_all()
        except (TimeoutError, DatabaseError, DBAPIError) as error:
            # Its leases expire, and its row is removed after a day.
            log.warning("leaving_failed", worker=self._replica.worker_id, error=first_line(error))
        log.info("scheduler_stopped", worker=self._replica.worker_id)

    async def _release_all(self) -> None:
        # Of results that were given up nobody can tell what is in doubt; their leases see to it.
        if not self._results.unwritten:
            await retry_conflicts(self._settle_doubt)
        # From now on a catch-all leaves alone for a while what this replica has named.
        await self._runners.declare()
        async with self._replica.database.transaction() as connection:
            await workers.remove(connection, self._replica.worker_id)

    async def _listen(self) -> None:
        def moved(_: TenantId) -> None:
            self._moved.set()

        def work(payload: str) -> None:
            if payload == CANCEL:
                self._cancels += 1
                self._leases.renew_now()
            else:
                self._waiting.set()

        def lost(error: str) -> None:
            log.warning("listening_lost", error=error)

        def listening() -> None:
            # Whatever was said until now was not heard: a change, work or a cancellation.
            self._cancels += 1
            for signal in (self._moved, self._waiting, self._listened):
                signal.set()
            self._leases.renew_now()
            tenants()

        def tenants() -> None:
            if self._follower is not None:
                self._follower.hear()
                self._registry.set()

        hints = Hints(moved, work, on_listening=listening, on_lost=lost, on_tenants=tenants)
        await listen(self._replica.database.target, hints, self._replica.random)

    async def _refresh(self) -> float:
        """A hint brings in what moved; at its own pace it also tries what could not be read."""
        replica, clock = self._replica, asyncio.get_running_loop().time
        is_periodic = clock() >= self._next_look
        # A hint is about tenants, whom the first provider serves.
        for provider in self._providers if is_periodic else self._providers[:1]:
            began = clock()
            try:
                refreshed = await refresh(
                    replica.database, provider, at=replica.clock(), retry_broken=is_periodic
                )
            except ProviderError as error:
                log.error("provider_failed", provider=error.provider, error=str(error))
                continue
            replica.counts.refreshes.add([clock() - began])
            replica.counts.note_unstarted(refreshed.ended)
            self._report(provider, refreshed)
        if is_periodic:
            self._next_look = clock() + self._pace.draw().total_seconds()
            self._runners.knows_schedules = True
        return max(self._next_look - clock(), 0.001)

    def _report(self, provider: ScheduleProvider, refreshed: Refreshed) -> None:
        for tenant, why in refreshed.broken.items():
            log.error("tenant_left_out", provider=provider.name, tenant=tenant, error=why)
        if refreshed.created or refreshed.updated or refreshed.removed:
            log.info(
                "refreshed",
                provider=provider.name,
                tenants=refreshed.tenants,
                created=refreshed.created,
                updated=refreshed.updated,
                removed=refreshed.removed,
            )
            self._due.set()

    async def _fire(self) -> float:
        """Fire what is due. An idle replica glances at the next cursor before it does."""
        is_glance = self._is_due_far and not self._due.was_set
        seconds = await self._seconds_to(self._due_next) if is_glance else 0.0
        if seconds is not None and seconds <= 0:
            fired = await self._fire_batch()
            if fired.executions:
                self._look_for_work()
            if fired.more:
                return 0
            seconds = await self._seconds_to(self._due_next)
        self._is_due_far = seconds is None or seconds > LONGEST_SLEEP
        return _sleep(seconds)

    async def _fire_batch(self) -> Fired:
        with step(self._replica.tracing, "fire") as note:
            fired = await fire_batch(self._replica)
            note(fired.executions)
        return fired

    async def _claim(self) -> float:
        if self._executor.load >= CAPACITY:
            return LONGEST_SLEEP
        database = self._replica.database
        is_glance = self._nothing_waits and not self._waiting.was_set and not self._in_doubt
        if is_glance and not await glances.anything_waits(database, await self._requirements()):
            return LONGEST_SLEEP
        if await self._start_batch():
            return 0
        seconds = await self._seconds_to(self._waiting_next)
        # Or nothing whose time is still to come; the next glance tells these apart.
        self._nothing_waits = seconds is None
        # The slots may be in the hands of replicas whose results do not wake this one.
        return min(_sleep(seconds), RECLAIM_AFTER if self._is_short else LONGEST_SLEEP)

    async def _start_batch(self) -> bool:
        """Start what may start here and now; True if another batch would find something."""
        await self._settle_doubt()
        with step(self._replica.tracing, "claim") as note:
            return await self._start_claimed(note)

    async def _start_claimed(self, note: Note) -> bool:
        batch = min(self._batch, CAPACITY - self._executor.load)
        cancels = self._cancels
        self._in_doubt = True
        claim = await claim_batch(self._replica, batch, self._sweep.after)
        self._claimed_at, self._is_short = claim.at, claim.is_short
        self._replica.recent.note_claimed(claim.started)
        is_full = len(claim.started) >= batch
        self._batch = STARTS_A_LARGE_BATCH if is_full else STARTS_A_BATCH
        note(len(claim.started))
        if claim.started and self._stopping.is_set():
            await release(self._replica, claim.started)
            self._in_doubt = False
            return False
        definitions = await self._definitions(claim.started)
        for claimed in await self._runnable(claim.started, definitions):
            self._start(claimed, definitions[claimed.definition_id])
        self._in_doubt = False
        # Who was cancelled since the claim did not run yet when the heartbeat looked.
        if claim.must_replace or cancels != self._cancels:
            self._leases.renew_now()
        return self._sweep.advance(claim)

    async def _runnable(
        self, claimed: Sequence[Claimed], definitions: Mapping[UUID, Definition]
    ) -> Sequence[Claimed]:
        """Release what this replica cannot run after all; a claim finds such only by mistake."""
        own = self._replica.capabilities
        required = {one.id: _required(one, definitions[one.definition_id]) for one in claimed}
        strange = [one for one in claimed if not own.cover(required[one.id])]
        if not strange:
            return claimed
        await release_unrunnable(self._replica, strange, [required[one.id] for one in strange])
        return [one for one in claimed if own.cover(required[one.id])]

    async def _settle_doubt(self) -> None:
        """Give back what a claim took that failed all the same, or could not be given back."""
        if not self._in_doubt:
            return
        known = {one.lease_token for one in self._executor.running}
        # What has ended by now runs by its row until its result is written.
        await self._results.all_written()
        await release_unstarted(self._replica, known)
        self._in_doubt = False

    async def _recover(self) -> float:
        replica = self._replica
        if not await glances.anything_expired(replica.database, replica.clock()):
            return replica.settings.lease.total_seconds() / 4
        if await recover_lost(replica):
            self._look_for_work()
            return 0
        return replica.settings.lease.total_seconds() / 4

    async def _deliver(self) -> None:
        """Deliver events; what is being sent when it is time to stop may end, like executions."""
        outbox = self._outbox
        if outbox is None:
            return
        async with asyncio.TaskGroup() as visits:

            async def step() -> float:
                return await outbox.step(visits)

            await run_loop("outbox", step, outbox.wake_signal, self._stopping)

    async def _keep_house(self) -> None:
        """Not at once: at a start there is better to do, and replicas often start together."""
        await self._seldom.wait(_MINUTE * self._replica.random.random())
        await run_loop("housekeeping", self._clean_up, self._seldom, self._stopping)

    async def _clean_up(self) -> float:
        await prepare_history(self._slowly)
        await clean_up(self._slowly)
        await self._records.step(self._slowly)
        # In a rolling upgrade a replica with older zones may have moved a cursor since the start.
        await recompute_for_new_zones(self._replica.database, self._replica.clock())
        return _HOUR * (1 + self._replica.random.random())

    async def _audit(self) -> float:
        """Audit the last day, if the settings want that."""
        replica, interval = self._replica, self._replica.settings.metrics_audit_interval
        if interval is None:
            return _HOUR
        kept = min(_AUDITED, replica.settings.retention)
        audited = await audit(self._slowly.database, kept, at=replica.clock())
        findings = Counter[str]()
        for one in audited.findings:
            findings[one.code.value] += one.count
        replica.counts.audited = LastAudit(audited.until, findings)
        if findings:
            log.error("audit_found", findings=dict(findings))
        return interval.total_seconds()

    async def _drain(self) -> None:
        """Let what runs end; when its time is up, interrupt it."""
        log.info("scheduler_stopping", running=self._executor.load)
        try:
            async with asyncio.timeout_at(self._stop_plan.drained):
                await self._all_ended()
        except TimeoutError:
            log.warning("drain_over", running=self._executor.load)
            self._executor.interrupt_all()
        await self._write_results()

    async def _write_results(self) -> None:
        """Wait until all are written, but not for a database that is away: they end with leases."""
        try:
            async with asyncio.timeout_at(self._stop_plan.results_written):
                await self._all_ended()
                await self._results.all_written()
        except TimeoutError:
            log.error("results_given_up", results=self._results.unwritten)

    async def _all_ended(self) -> None:
        while self._executor.load:
            await self._ended.wait(LONGEST_SLEEP)

    async def _definitions(self, claimed: Sequence[Claimed]) -> dict[UUID, Definition]:
        ids = {one.definition_id for one in claimed}
        known = self._replica.definitions.cached(ids)
        if known is not None:
            return known
        async with self._replica.database.transaction() as connection:
            return await self._replica.definitions.read(connection, ids)

    def _start(self, claimed: Claimed, definition: Definition) -> None:
        if isinstance(definition, UnreadableError):
            self._on_end(refused(claimed, str(definition)))
            return
        target = definition.target
        if target is None and not self._executor.has_handler(claimed.saga_name):
            target = self._default_target
        self._executor.start(claimed, definition.settings, target, self._on_end)

    def _on_end(self, attempt: Attempt) -> None:
        self._results.add(attempt)
        self._ended.set()

    async def _seconds_to(self, ahead: Ahead) -> float | None:
        """Return how far off something is: the answer was right when it was asked for."""
        now = asyncio.get_running_loop().time
        asked = now()
        seconds = await ahead()
        if seconds is None or seconds <= 0:
            return seconds
        return max(seconds - (now() - asked), _AT_ONCE)

    async def _due_next(self) -> float | None:
        return await glances.seconds_to_next_due(self._replica.database, self._replica.clock())

    async def _waiting_next(self) -> float | None:
        replica = self._replica
        since, at, requires = self._claimed_at, replica.clock(), await self._requirements()
        return await glances.seconds_to_next_waiting(replica.database, requires, since, at)

    async def _requirements(self) -> Sequence[str]:
        return await glance_at_requirements(self._replica)

    def _look_for_work(self) -> None:
        self._waiting.set()


def _required(claimed: Claimed, definition: Definition) -> str:
    """Return what an execution requires; one that cannot be read ends here as well as anywhere."""
    if isinstance(definition, UnreadableError):
        return requirement(claimed.saga_name, None)
    return definition.required(claimed.saga_name)


def _sleep(seconds: float | None) -> float:
    """Return how long a loop sleeps that has something to do in so many seconds, or nothing."""
    if seconds is None:
        return LONGEST_SLEEP
    return min(seconds, LONGEST_SLEEP) if seconds > 0 else _SHORTEST_SLEEP
