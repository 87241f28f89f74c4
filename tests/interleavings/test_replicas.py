"""Every order of two replicas that fire, claim, finish and recover at the same time."""

from datetime import timedelta
from pathlib import Path

import pytest
from interleavings.conftest import Theatre
from support.interleaving import Ran
from support.scheduling import NOON
from support.stages import HOURLY, lock_as_the_release_of_the_session

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.fire import Fired
from tenantcron.store.steps import claiming
from tenantcron.store.steps.claiming import Claim
from tenantcron.store.steps.finishing import Finished


async def test_two_replicas_fire_an_occurrence_once(theatre: Theatre, tmp_path: Path) -> None:
    stage = theatre.stage
    await stage.declare({"hourly": HOURLY}, tmp_path / "m")

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        assert (execution["scheduled_for"], execution["state"]) == (NOON, "PENDING")
        fired = [end.executions for end in ran.results.values() if isinstance(end, Fired)]
        assert sorted(fired) == [0, 1]

    assert await theatre.every_order({"a": stage.fire(), "b": stage.fire()}, check) > 1


@pytest.mark.parametrize("limit", [1, 2])
async def test_two_replicas_never_start_more_than_the_limit(theatre: Theatre, limit: int) -> None:
    stage = theatre.stage
    await stage.limit(limit)
    await stage.scheduling.waiting(3)

    async def check(ran: Ran) -> None:
        claims = [end for end in ran.results.values() if isinstance(end, Claim)]
        started = [claimed.id for claim in claims for claimed in claim.started]
        running = {row["id"] for row in await stage.executions() if row["state"] == "RUNNING"}
        assert len(started) == limit
        assert set(started) == running

    # With the limit of 1, both find out that slots are scarce; with 2, one of them knows it.
    second = stage.claim("b") if limit == 1 else stage.claim_while_scarce("b")
    assert await theatre.every_order({"a": stage.claim("a"), "b": second}, check) > 1


async def test_a_replica_of_the_previous_release_never_claims_concurrently(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other replica starts during a claim of this release."""
    monkeypatch.setattr(claiming, "take_lock", lock_as_the_release_of_the_session)
    stage = theatre.stage
    await stage.limit(1)
    await stage.scheduling.waiting(2)

    async def check(ran: Ran) -> None:
        claims = [end for end in ran.results.values() if isinstance(end, Claim)]
        assert sum(len(claim.started) for claim in claims) == 1

    programs = {
        "new": stage.claim_while_scarce("new"),
        "before": stage.register_and_claim_as_before("before"),
    }
    assert await theatre.every_order(programs, check) > 1


async def test_a_slot_is_free_only_after_its_result_is_committed(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.limit(1)
    await stage.scheduling.waiting(1)
    claimed = await stage.start()
    await stage.scheduling.waiting(1)
    programs = {
        "finish": stage.finish(claimed, AttemptOutcome.SUCCEEDED),
        "claim": stage.claim(),
    }

    async def check(ran: Ran) -> None:
        states = sorted(str(row["state"]) for row in await stage.executions())
        freed = ran.committed_before_first_step("finish", "claim")
        assert states in (["PENDING", "SUCCEEDED"], ["RUNNING", "SUCCEEDED"])
        assert states == ["RUNNING", "SUCCEEDED"] or not freed

    assert await theatre.every_order(programs, check) > 1


async def test_a_lease_is_either_renewed_or_recovered(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.scheduling.waiting(1)
    claimed = await stage.start()
    stage.scheduling.clock.advance(seconds=61)
    programs = {"heartbeat": stage.heartbeat([claimed]), "recover": stage.recover()}

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        if execution["state"] == "RUNNING":
            assert ran.results["recover"] == 0
            assert execution["lease_token"] == claimed.lease_token
        else:
            assert ran.results["recover"] == 1

    assert await theatre.every_order(programs, check) > 1


async def test_a_result_counts_or_the_execution_is_recovered(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.scheduling.waiting(1)
    claimed = await stage.start()
    stage.scheduling.clock.advance(seconds=61)
    programs = {
        "finish": stage.finish(claimed, AttemptOutcome.SUCCEEDED),
        "recover": stage.recover(),
    }

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        finished = ran.results["finish"]
        assert isinstance(finished, Finished), finished
        succeeded = execution["state"] == "SUCCEEDED"
        assert succeeded == (not finished.refused)
        assert succeeded == (ran.results["recover"] == 0)

    assert await theatre.every_order(programs, check) > 1


async def test_two_replicas_recover_a_lost_execution_once(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.scheduling.waiting(2)
    await stage.scheduling.claim()
    stage.scheduling.clock.now = NOON + timedelta(seconds=61)
    programs = {"a": stage.recover("a"), "b": stage.recover("b")}

    async def check(ran: Ran) -> None:
        assert sum(int(str(end)) for end in ran.results.values()) == 2
        rows = await stage.executions()
        assert {(row["attempt"], row["losses"], row["suspicion"]) for row in rows} == {(1, 1, 1)}

    assert await theatre.every_order(programs, check) > 1


async def test_a_slot_is_released_once_while_its_execution_ends_and_expires(
    theatre: Theatre,
) -> None:
    stage = theatre.stage
    await stage.limit(1)
    await stage.scheduling.waiting(1)
    claimed = await stage.start()
    await stage.scheduling.waiting(1)
    stage.scheduling.clock.advance(seconds=61)
    programs = {
        "finish": stage.finish(claimed, AttemptOutcome.SUCCEEDED),
        "recover": stage.recover(),
        "claim": stage.claim_while_scarce(),
    }

    async def check(ran: Ran) -> None:
        finished = ran.results["finish"]
        assert isinstance(finished, Finished), finished
        (execution,) = (row for row in await stage.executions() if row["id"] == claimed.id)
        assert (execution["state"] == "SUCCEEDED") == (not finished.refused)
        assert (execution["state"] == "SUCCEEDED") == (ran.results["recover"] == 0)

    assert await theatre.every_order(programs, check) > 1


async def test_two_replicas_run_one_repeated_suspect_each(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.scheduling.waiting(3, attempt=2, attempts_allowed=5, losses=2, suspicion=2)
    await stage.scheduling.waiting(1)

    async def check(ran: Ran) -> None:
        claims = [end for end in ran.results.values() if isinstance(end, Claim)]
        suspects = [sum(each.suspicion > 0 for each in claim.started) for claim in claims]
        assert suspects == [1, 1]
        assert sum(len(claim.started) for claim in claims) == 3

    assert await theatre.every_order({"a": stage.claim("a"), "b": stage.claim("b")}, check) > 1
