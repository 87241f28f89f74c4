"""The claim loop: claims pending executions, starts them, and queues their results.

It sleeps until there is work: after fire, on a NOTIFY, when a slot is freed, when the delay of a
retry or the spread of an occurrence is over, and when a host with a rate limit may be called again.

A claim is uncertain while its executions are claimed but neither running nor released, for example
because the response to its commit was lost. Before the next claim, and before the replica stops,
the loop releases the executions of an uncertain claim.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import structlog

from tenantcron.core.requirements import requirement
from tenantcron.core.targets import Target
from tenantcron.scheduler.replica import polling_loops
from tenantcron.scheduler.replica.polling_loops import seconds_left, sleep_time
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.replica.wake_signals import WakeSignals
from tenantcron.scheduler.steps.attempts import Attempt, refused
from tenantcron.scheduler.steps.claim import (
    STARTS_A_BATCH,
    STARTS_A_LARGE_BATCH,
    Sweep,
    claim_batch,
    glance_at_requirements,
    release,
    release_as,
    release_unrunnable,
    release_unstarted,
)
from tenantcron.scheduler.steps.claim_limited import LimitedHosts, LimitedWait
from tenantcron.scheduler.steps.definitions import DefinitionResult, UnreadableError
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.fire import Fired
from tenantcron.scheduler.steps.handler_context import fields
from tenantcron.scheduler.steps.lease_thread import LeaseThread
from tenantcron.scheduler.steps.results import Results
from tenantcron.scheduler.steps.slot_shortage import RECLAIM_AFTER
from tenantcron.scheduler.steps.start_at_once import FiredAndClaimed, fire_and_claim
from tenantcron.store.steps import glances
from tenantcron.store.steps.claiming import Claim, Claimed
from tenantcron.targets.tracing import Note, step

log = structlog.get_logger(__name__)

# Executions that this process runs at a time, apart from the limits of the cluster. There is room
# for two batches: one is claimed while the other starts.
CAPACITY = 2 * STARTS_A_LARGE_BATCH


class ClaimLoop:
    """Claims and starts the executions of one replica."""

    def __init__(  # noqa: PLR0913 -- the parts of a replica that a start involves
        self,
        replica: Replica,
        executor: Executor,
        results: Results,
        leases: LeaseThread,
        signals: WakeSignals,
        *,
        stopping: asyncio.Event,
        default_target: Target | None = None,
    ) -> None:
        self._replica, self._executor = replica, executor
        self._results, self._leases = results, leases
        self._signals, self._stopping = signals, stopping
        # Runs sagas that have neither a target nor a handler here.
        self._default_target = default_target
        self._limited_default = replica.definitions.limited(default_target)
        self._sweep = Sweep()
        self._limited = LimitedHosts(replica)
        # When all other executions are claimed again, unless the loop is woken before.
        self._next_claim = 0.0
        self._is_limited_first = False
        self._batch = STARTS_A_BATCH
        self._claimed_at: datetime
        self._is_short = False
        # Seconds from the last claim to the next minute, if a tenant has reached its quota.
        self._next_minute: float | None = None
        # Whether the last step found nothing pending. Then the next step begins with a glance.
        self._is_idle = False
        # Whether claimed executions may exist that neither run here nor were released.
        self._is_uncertain = False
        # How many notifications of a cancellation have arrived.
        self._cancellations = 0
        # The fire loop claims, too; only one claim of this replica may be uncertain.
        self._claiming = asyncio.Lock()

    def note_cancellation(self) -> None:
        """Renew leases now, which cancels executions, and again after a claim in progress."""
        self._cancellations += 1
        self._leases.renew_now()

    async def step(self) -> float:
        """Claim and start executions; return the seconds until there may be more."""
        if self._executor.load >= CAPACITY:
            return polling_loops.LONGEST_SLEEP
        was_woken = self._signals.work_pending.was_set
        if not self._limited.requires:
            return await self._step(was_woken=was_woken)
        now = asyncio.get_running_loop().time
        # They take turns, so that neither gets all slots that are freed.
        self._is_limited_first = not self._is_limited_first
        limited = await self.start_limited() if self._is_limited_first else None
        if was_woken or now() >= self._next_claim:
            self._next_claim = now() + await self._step(was_woken=was_woken)
        if limited is None:
            limited = await self.start_limited()
        return max(min(limited.seconds, self._next_claim - now()), 0)

    async def start_limited(self) -> LimitedWait:
        """Start executions at hosts with a rate limit; return the time until the next ones."""
        until = LimitedWait()
        for required, wait in (await self._limited.waits()).items():
            if wait > 0:
                until = until.until(wait)
                continue
            async with self._claiming:
                await self.release_uncertain()
                with step(self._replica.tracing, "claim") as note:
                    may_start = await self._start_claimed_at(required, note)
            until = until.until(0) if may_start else until.blocked()
        return until

    async def _start_claimed_at(self, required: str, note: Note) -> bool:
        """Claim and start executions for one host; return whether more may start soon."""
        cancellations = self._cancellations
        self._is_uncertain = True
        claim, more = await self._limited.claim(required, CAPACITY - self._executor.load)
        if claim is None:
            # Another replica was faster.
            self._is_uncertain = False
            return True
        are_started = await self._start_all(claim, note, cancellations, required)
        return are_started and (more or bool(claim.started))

    async def _step(self, *, was_woken: bool) -> float:
        """Claim and start a batch; an idle replica first glances at pending executions."""
        longest_sleep = polling_loops.LONGEST_SLEEP
        is_glance = self._is_idle and not was_woken and not self._is_uncertain
        if is_glance and not await self._is_anything_pending():
            return longest_sleep
        if await self.start_batch():
            return 0
        seconds = await seconds_left(self._next_pending)
        # None also if executions only wait for slots; the next glance distinguishes the two.
        self._is_idle = seconds is None
        if self._next_minute is not None:
            longest_sleep = min(longest_sleep, self._next_minute)
        # Results of other replicas free slots without waking this one.
        return min(sleep_time(seconds), RECLAIM_AFTER if self._is_short else longest_sleep)

    async def start_batch(self) -> bool:
        """Claim and start a batch; return whether another batch may find something."""
        async with self._claiming:
            await self.release_uncertain()
            with step(self._replica.tracing, "claim") as note:
                return await self._start_claimed(note)

    async def fire_and_start(self) -> Fired | None:
        """Fire a batch and start its executions in one transaction; None if others come first."""
        if not self._may_start_at_once:
            return None
        try:
            async with self._claiming:
                found = await self._fire_and_start()
            self._is_idle = found.is_all_started and not found.fired.more
        finally:
            if self._is_uncertain or not self._is_idle:
                self._signals.work_pending.set()
        return found.fired

    async def _fire_and_start(self) -> FiredAndClaimed:
        with step(self._replica.tracing, "claim") as note:
            cancellations = self._cancellations
            self._is_uncertain = True
            found = await fire_and_claim(self._replica, CAPACITY - self._executor.load)
            if found.claim is None:
                self._is_uncertain = False
            else:
                await self._start_all(found.claim, note, cancellations)
            return found

    @property
    def _may_start_at_once(self) -> bool:
        """Whether the last claim has left nothing that comes before what is due now."""
        demand = self._replica.demand
        is_behind = self._claiming.locked() or self._is_uncertain or self._limited.requires
        is_limited = demand.is_scarce or demand.is_at_quota
        return self._is_idle and not (is_behind or is_limited or self._stopping.is_set())

    async def _start_claimed(self, note: Note) -> bool:
        batch = min(self._batch, CAPACITY - self._executor.load)
        cancellations = self._cancellations
        self._is_uncertain = True
        claim = await claim_batch(self._replica, batch, self._sweep.after)
        self._claimed_at, self._is_short = claim.at, claim.is_short
        self._next_minute = claim.seconds_to_next_minute if claim.is_at_quota else None
        is_full = len(claim.started) >= batch
        self._batch = STARTS_A_LARGE_BATCH if is_full else STARTS_A_BATCH
        return await self._start_all(claim, note, cancellations) and self._sweep.advance(claim)

    async def _start_all(
        self, claim: Claim, note: Note, cancellations: int, limited: str | None = None
    ) -> bool:
        """Start claimed executions; return False if the replica stops and released them."""
        self._replica.recent.note_claimed(claim.started)
        note(len(claim.started))
        if claim.started and self._stopping.is_set():
            await release(self._replica, claim.started)
            self._is_uncertain = False
            return False
        definitions = await self._definitions(claim.started)
        for claimed in await self._runnable(claim.started, definitions, limited):
            self._start(claimed, definitions[claimed.definition_id])
        self._is_uncertain = False
        # An execution that was cancelled during the claim did not run yet when the lease thread
        # renewed its leases.
        if claim.must_replace or cancellations != self._cancellations:
            self._leases.renew_now()
        return True

    async def _runnable(
        self,
        claimed: Sequence[Claimed],
        definitions: Mapping[UUID, DefinitionResult],
        limited: str | None,
    ) -> Sequence[Claimed]:
        """Release executions that were claimed by mistake.

        This replica cannot run them, or they call a host with a rate limit of which no call was
        spent for them.
        """
        own = self._replica.capabilities
        if own.limited:
            claimed = await self._with_calls(claimed, definitions, limited)
        required = {
            execution.id: _required(execution, definitions[execution.definition_id])
            for execution in claimed
        }
        unrunnable = [execution for execution in claimed if not own.cover(required[execution.id])]
        if not unrunnable:
            return claimed
        requires = [required[execution.id] for execution in unrunnable]
        await release_unrunnable(self._replica, unrunnable, requires)
        return [execution for execution in claimed if own.cover(required[execution.id])]

    async def _with_calls(
        self,
        claimed: Sequence[Claimed],
        definitions: Mapping[UUID, DefinitionResult],
        limited: str | None,
    ) -> Sequence[Claimed]:
        """Release executions that call a host with a rate limit without a call spent for them."""
        hosts = {
            execution.id: self._limited_requirement(execution, definitions[execution.definition_id])
            for execution in claimed
        }
        paid = (None, limited)
        misplaced = [execution for execution in claimed if hosts[execution.id] not in paid]
        if not misplaced:
            return claimed
        requires = [hosts[execution.id] or "" for execution in misplaced]
        given = await release_as(self._replica, misplaced, requires)
        log.info("executions_rate_limited", executions=given, requires=sorted(set(requires)))
        return [execution for execution in claimed if hosts[execution.id] in paid]

    async def release_uncertain(self) -> None:
        """Release the executions of a claim that failed after its commit."""
        if not self._is_uncertain:
            return
        known = {claimed.lease_token for claimed in self._executor.running}
        # The rows of ended attempts say RUNNING until their results are written.
        await self._results.all_written()
        await release_unstarted(self._replica, known)
        self._is_uncertain = False

    async def _definitions(self, claimed: Sequence[Claimed]) -> dict[UUID, DefinitionResult]:
        ids = {execution.definition_id for execution in claimed}
        cached = self._replica.definitions.cached(ids)
        if cached is not None:
            return cached
        async with self._replica.database.transaction() as connection:
            return await self._replica.definitions.read(connection, ids)

    def _start(self, claimed: Claimed, definition: DefinitionResult) -> None:
        if isinstance(definition, UnreadableError):
            self._on_end(refused(claimed, str(definition)))
            return
        target = definition.target
        if target is None and not self._executor.has_handler(claimed.saga_name):
            target = self._default_target
        self._executor.start(claimed, definition.settings, target, self._on_end)

    def _limited_requirement(self, claimed: Claimed, definition: DefinitionResult) -> str | None:
        """Return the requirement of an execution whose host has a rate limit."""
        if isinstance(definition, UnreadableError):
            return None
        if definition.target is None and not self._executor.has_handler(claimed.saga_name):
            return self._limited_default
        return definition.limited

    def _on_end(self, attempt: Attempt) -> None:
        if attempt.accepted:
            log.info("execution_handed_over", **fields(attempt.claimed))
        else:
            self._results.add(attempt)
        self._signals.attempt_ended.set()

    async def _is_anything_pending(self) -> bool:
        requires = await glance_at_requirements(self._replica)
        return await glances.anything_waits(self._replica.database, requires)

    async def _next_pending(self) -> float | None:
        replica = self._replica
        since, at = self._claimed_at, replica.clock()
        requires = await glance_at_requirements(replica)
        return await glances.seconds_to_next_waiting(replica.database, requires, since, at)


def _required(claimed: Claimed, definition: DefinitionResult) -> str:
    """Return the requirement of an execution; any replica can end an unreadable one."""
    if isinstance(definition, UnreadableError):
        return requirement(claimed.saga_name, None)
    return definition.required(claimed.saga_name)
