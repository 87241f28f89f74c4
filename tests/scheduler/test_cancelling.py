"""A cancelled execution stops at once, at any stage."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.replicas import Works, at_work, due, until, until_state
from support.scheduling import Scheduling

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.replica import claim_loop
from tenantcron.scheduler.steps.claim import claim_batch

MARIA = Attribution(Actor("maria", ActorType.HUMAN, "cli"))
# Heartbeats are 20 minutes apart, so the test passes only if a notification wakes the thread.
LEASE = timedelta(hours=1)


async def test_a_cancel_between_claim_and_start_does_not_wait_for_the_next_heartbeat(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Works()
    await due(real, "slow", start_within="1m")

    async def claim_and_be_cancelled(*arguments: object) -> object:
        claim = await claim_batch(*arguments)  # type: ignore[arg-type] # as given
        for execution in claim.started:
            before = await seen_at(real)
            await Operator(real.database, real.settings, MARIA).cancel(
                str(execution.id), "wrong month"
            )

            async def looked(since: object = before) -> bool:
                return await seen_at(real) != since

            await until(looked)
        return claim

    monkeypatch.setattr(claim_loop, "claim_batch", claim_and_be_cancelled)
    async with at_work(real, works, replace(real.settings, lease=LEASE)):
        await until_state(real, "CANCELLED")
        works.go.set()

    assert await real.states() == [("CANCELLED", "wrong month")]


async def seen_at(real: Scheduling) -> object:
    """Return the time of the last heartbeat."""
    (worker,) = await real.rows("worker", "id")
    return worker["seen_at"]
