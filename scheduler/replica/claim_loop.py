"""The claim loop: claims pending executions, starts them, and queues their results.

It sleeps until there is work: after fire, on a NOTIFY, when a slot is freed, and when the delay of
a retry or the spread of an occurrence is over.

A claim is uncertain while its executions are claimed but neither running nor released, for example
because the response to its commit was lost. Before the next claim, and before the replica stops,
the loop releases the executions of an uncertain claim.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from tenantcron.core.requirements import requirement
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
    release_unrunnable,
    release_unstarted,
)
from tenantcron.scheduler.steps.definitions import DefinitionResult, UnreadableError
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.lease_thread import LeaseThread
from tenantcron.scheduler.steps.results import Results
from tenantcron.scheduler.steps.slot_shortage import RECLAIM_AFTER
from tenantcron.schedules.targets import HttpTarget
from tenantcron.store.steps import glances
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.tracing import Note, step

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
        default_target: HttpTarget | None = None,
    ) -> None:
        self._replica, self._executor = replica, executor
        self._results, self._leases = results, leases
        self._signals, self._stopping = signals, stopping
        # Runs sagas that have neither a target nor a handler here.
        self._default_target = default_target
        self._sweep = Sweep()
        self._batch = STARTS_A_BATCH
        self._claimed_at: datetime
        self._is_short = False
        # Whether the last step found nothing pending. Then the next step begins with a glance.
        self._is_idle = False
        # Whether claimed executions may exist that neither run here nor were released.
        self._is_uncertain = False
        # How many notifications of a cancellation have arrived.
        self._cancellations = 0

    def note_cancellation(self) -> None:
        """Renew leases now, which cancels executions, and again after a claim in progress."""
        self._cancellations += 1
        self._leases.renew_now()

    async def step(self) -> float:
        """Claim and start a batch; an idle replica first glances at pending executions."""
        longest_sleep = polling_loops.LONGEST_SLEEP
        if self._executor.load >= CAPACITY:
            return longest_sleep
        was_woken = self._signals.work_pending.was_set
        is_glance = self._is_idle and not was_woken and not self._is_uncertain
        if is_glance and not await self._is_anything_pending():
            return longest_sleep
        if await self.start_batch():
            return 0
        seconds = await seconds_left(self._next_pending)
        # None also if executions only wait for slots; the next glance distinguishes the two.
        self._is_idle = seconds is None
        # Results of other replicas free slots without waking this one.
        return min(sleep_time(seconds), RECLAIM_AFTER if self._is_short else longest_sleep)

    async def start_batch(self) -> bool:
        """Claim and start a batch; return whether another batch may find something."""
        await self.release_uncertain()
        with step(self._replica.tracing, "claim") as note:
            return await self._start_claimed(note)

    async def _start_claimed(self, note: Note) -> bool:
        batch = min(self._batch, CAPACITY - self._executor.load)
        cancellations = self._cancellations
        self._is_uncertain = True
        claim = await claim_batch(self._replica, batch, self._sweep.after)
        self._claimed_at, self._is_short = claim.at, claim.is_short
        self._replica.recent.note_claimed(claim.started)
        is_full = len(claim.started) >= batch
        self._batch = STARTS_A_LARGE_BATCH if is_full else STARTS_A_BATCH
        note(len(claim.started))
        if claim.started and self._stopping.is_set():
            await release(self._replica, claim.started)
            self._is_uncertain = False
            return False
        definitions = await self._definitions(claim.started)
        for claimed in await self._runnable(claim.started, definitions):
            self._start(claimed, definitions[claimed.definition_id])
        self._is_uncertain = False
        # An execution that was cancelled during the claim did not run yet when the lease thread
        # renewed its leases.
        if claim.must_replace or cancellations != self._cancellations:
            self._leases.renew_now()
        return self._sweep.advance(claim)

    async def _runnable(
        self, claimed: Sequence[Claimed], definitions: Mapping[UUID, DefinitionResult]
    ) -> Sequence[Claimed]:
        """Release executions that this replica cannot run, which were claimed by mistake."""
        own = self._replica.capabilities
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

    def _on_end(self, attempt: Attempt) -> None:
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
