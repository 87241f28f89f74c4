"""Claim executions whose host has a rate limit, one host after the other.

`store/steps/rate_limits.py` has the protocol. A replica glances at its hosts with a limit, and
claims for those that have pending executions and calls left. Without limits it does nothing.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from tenantcron.core.rates import Rate
from tenantcron.core.requirements import limited_host
from tenantcron.scheduler.replica.polling_loops import LONGEST_SLEEP
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.claim import Sweep, complete, report
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.steps import claiming, rate_limits
from tenantcron.store.steps.claiming import Claim
from tenantcron.store.steps.rate_limits import Turn

# The sleep if a host has calls left, but its executions wait for slots or for each other.
_BLOCKED: Final = 0.5


class LimitedWait(NamedTuple):
    """The seconds until executions at hosts with a rate limit may start."""

    # Until the next claim, also of executions that wait for something else.
    seconds: float = LONGEST_SLEEP
    # Until a rate limit allows the next call.
    rate: float = float("inf")

    def until(self, wait: float) -> "LimitedWait":
        """Consider one more host, which may be called after so many seconds."""
        return LimitedWait(min(self.seconds, wait), min(self.rate, wait))

    def blocked(self) -> "LimitedWait":
        """Consider one more host, whose executions wait for something else."""
        return self._replace(seconds=min(self.seconds, _BLOCKED))


class LimitedHosts:
    """The hosts with a rate limit that one replica calls, and what it knows about them."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._sweeps = {required: Sweep() for required in replica.capabilities.limited}
        # The number of the last claim that started something, by requirement.
        self._claimed_at: dict[str, int] = {}
        self._claims = 0

    @property
    def requires(self) -> tuple[str, ...]:
        """The requirements that this replica claims here."""
        return tuple(self._sweeps)

    async def waits(self) -> dict[str, float]:
        """Return the seconds until executions may start, by requirement.

        Kinds of targets at the same host take turns: the one that was claimed last comes last.
        """
        if not self._sweeps:
            return {}
        replica = self._replica
        pending = await rate_limits.glance(replica.database, self.requires, replica.clock())
        pending.sort(key=lambda waiting: self._claimed_at.get(waiting.requires, 0))
        return {waiting.requires: waiting.wait(self._rate(waiting.requires)) for waiting in pending}

    async def claim(self, required: str, batch: int) -> tuple[Claim | None, bool]:
        """Start what may call a host now; return whether another claim may find something.

        The claim is None if the host has no calls left.
        """
        replica, rate = self._replica, self._rate(required)
        async with replica.database.transaction(by_key=True) as connection:
            turn = await rate_limits.take_turn(connection, required, rate, replica.clock())
            if not turn.calls:
                return None, False
            claim = await claiming.claim(
                connection,
                replica.worker_id,
                batch=min(turn.batch, batch),
                lease=replica.settings.lease,
                at=turn.at,
                requires=[required],
                after=turn.after,
                pairs=None if turn.considers_all else turn.tenants,
                too_late=ReasonCode.RATE_LIMIT if turn.is_busy else ReasonCode.NO_SCHEDULER,
                # The plain form would start nothing while slots are scarce.
                shares=True,
            )
            claim = _without_kept_slots(claim)
            await rate_limits.spend(connection, required, rate, turn, claim)
            claim = await complete(connection, replica, claim, [required])
        await report(replica, claim)
        return claim, self._advance(required, turn, claim)

    def _advance(self, required: str, turn: Turn, claim: Claim) -> bool:
        """Return whether calls are left and a tenant might make them."""
        sweep = self._sweeps[required]
        self._claims += 1
        if claim.started:
            self._claimed_at[required] = self._claims
        # Other replicas take turns as well.
        sweep.after = turn.after
        return sweep.advance(claim) and len(claim.started) < turn.calls

    def _rate(self, required: str) -> Rate:
        _, host = limited_host(required) or ("", "")
        return self._replica.rate_limits[host]


def _without_kept_slots(claim: Claim) -> Claim:
    """Ignore that slots are kept: what did not start may as well wait for the rate limit."""
    full_up = tuple(full for full in claim.full_up if full.reason_code != ReasonCode.LIMIT)
    return replace(claim, full_up=full_up)
