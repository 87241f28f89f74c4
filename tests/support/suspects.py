"""Replicas that die with their executions, on rows and with a manual clock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from support.scheduling import Scheduling

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.store.steps.claiming import Claimed

# The outcome that its worker reports, or None if the attempt kills the worker.
Behaviour = Callable[[Claimed], AttemptOutcome | None]
LONGER_THAN_A_LEASE = 61.0


@dataclass(slots=True)
class Supervised:
    """A few replicas, each of which is restarted under a new name after a kill."""

    scheduling: Scheduling
    behaviour: Behaviour
    replicas: int = 2
    kills: int = 0
    # The suspicions of the suspects of each claim.
    together: list[list[int]] = field(default_factory=list)
    _names: "count[int]" = field(default_factory=count)

    async def run(self) -> None:
        """Work until no execution is pending or running."""
        for _ in range(200):
            if not await self._round():
                return
        raise AssertionError(f"the executions do not end: {await self.scheduling.states()}")

    async def _round(self) -> bool:
        """Let each replica start and finish what it may; False if there was nothing."""
        claims = [await self._claimed() for _ in range(self.replicas)]
        for claimed in claims:
            await self._end(claimed)
        self.scheduling.clock.advance(seconds=LONGER_THAN_A_LEASE)
        while await recover_lost(self.scheduling.replica("recovering")):
            pass
        return any(claims) or bool(await self.scheduling.count(state="RETRYING"))

    async def _claimed(self) -> list[Claimed]:
        name = f"worker {next(self._names)}"
        claimed = await self.scheduling.claim_all(self.scheduling.replica(name))
        self.together.append(
            sorted(execution.suspicion for execution in claimed if execution.suspicion)
        )
        return claimed

    async def _end(self, claimed: list[Claimed]) -> None:
        outcomes = {execution: self.behaviour(execution) for execution in claimed}
        if None in outcomes.values():
            self.kills += 1
            return
        for execution, outcome in outcomes.items():
            assert outcome is not None
            await self.scheduling.finish(execution, outcome)
