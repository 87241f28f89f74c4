"""Overlap: occurrences that are due before the previous execution has ended."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.steps import finishing
from tenantcron.store.steps.claiming import Claimed

REPLACED = "replaced by the next occurrence"
HOUR = timedelta(hours=1)


async def occur(scheduling: Scheduling) -> list[Claimed]:
    """Advance the clock by an hour, and return the executions that start."""
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    return await scheduling.claim_all()


async def outcomes(scheduling: Scheduling) -> list[tuple[object, object]]:
    return await scheduling.states()


async def test_skip_ends_the_next_while_one_is_running(scheduling: Scheduling) -> None:
    await scheduling.schedule(overlap="skip", start_within="30m")
    (first,) = await occur(scheduling)

    assert await occur(scheduling) == []
    await scheduling.finish(first)
    assert len(await occur(scheduling)) == 1

    assert await outcomes(scheduling) == [
        ("SUCCEEDED", None),
        ("SKIPPED", "still running"),
        ("RUNNING", None),
    ]


async def test_skip_ends_the_next_while_one_is_retrying(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(overlap="skip")
    (first,) = await occur(scheduling)
    await scheduling.finish(first, AttemptOutcome.FAILED, "broke", retry_after=timedelta(hours=3))

    assert await occur(scheduling) == []

    assert await outcomes(scheduling) == [("RETRYING", "broke"), ("SKIPPED", "still running")]


async def test_of_two_simultaneous_occurrences_the_second_ends_only_if_the_first_starts(
    scheduling: Scheduling,
) -> None:
    """A claim considers both, because of the tenant's weight, but another tenant gets the slot."""
    await scheduling.limit(1)
    await scheduling.tenant("heavy", weight=2)
    schedule_id, later = uuid4(), NOON + HOUR
    for number in (1, 2):
        await scheduling.waiting(
            1,
            tenant="heavy",
            schedule_id=schedule_id,
            scheduled_for=NOON + timedelta(minutes=number),
            start_deadline=later,
        )
    await scheduling.waiting(1, tenant="first", priority=0)

    (started,) = (await scheduling.claim()).started

    assert started.tenant_id == "first"
    assert await scheduling.count(state="PENDING", tenant_id="heavy") == 2
    await scheduling.finish(started)
    await scheduling.claim_all()
    assert await scheduling.count(state="RUNNING", tenant_id="heavy") == 1
    assert await scheduling.count(state="SKIPPED", reason="still running") == 1


async def test_queue_runs_them_one_after_the_other(scheduling: Scheduling) -> None:
    await scheduling.schedule(overlap="queue")
    (first,) = await occur(scheduling)
    assert await occur(scheduling) == []
    assert await occur(scheduling) == []
    assert await outcomes(scheduling) == [("RUNNING", None), ("PENDING", None), ("PENDING", None)]

    await scheduling.finish(first)
    (second,) = await scheduling.claim_all()
    assert second.scheduled_for == first.scheduled_for + HOUR
    await scheduling.finish(second)
    (third,) = await scheduling.claim_all()
    assert third.scheduled_for == first.scheduled_for + 2 * HOUR


async def test_queue_waits_for_the_retries_of_the_previous_execution(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(overlap="queue")
    (first,) = await occur(scheduling)
    await scheduling.finish(first, AttemptOutcome.FAILED, "broke", retry_after=2 * HOUR)
    assert await occur(scheduling) == []

    scheduling.clock.advance(hours=1)
    (again,) = await scheduling.claim_all()

    assert (again.id, again.attempt) == (first.id, 2)
    await scheduling.finish(again)
    assert len(await scheduling.claim_all()) == 1


async def test_queue_with_start_within_ends_at_the_deadline(scheduling: Scheduling) -> None:
    await scheduling.schedule(overlap="queue", start_within="10m")
    await occur(scheduling)
    assert await occur(scheduling) == []
    scheduling.clock.advance(minutes=9)
    assert await scheduling.claim_all() == []
    assert await scheduling.count(state="PENDING") == 1

    scheduling.clock.advance(minutes=1)
    assert await scheduling.claim_all() == []

    assert await outcomes(scheduling) == [("RUNNING", None), ("SKIPPED", "still running")]


async def test_allow_runs_them_at_the_same_time(scheduling: Scheduling) -> None:
    await scheduling.schedule(overlap="allow")

    for _ in range(3):
        assert len(await occur(scheduling)) == 1

    assert await outcomes(scheduling) == [("RUNNING", None)] * 3


async def test_cancel_running_stops_the_previous_execution_and_starts_after_it(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(overlap="cancel_running")
    (first,) = await occur(scheduling)

    assert await occur(scheduling) == []
    rows = await scheduling.rows()
    assert [row["state"] for row in rows] == ["RUNNING", "PENDING"]
    assert (rows[0]["cancel_requested_at"], rows[0]["cancel_reason"]) == (
        scheduling.clock.now,
        REPLACED,
    )
    async with scheduling.database.transaction() as connection:
        (held,) = await finishing.heartbeat(
            connection, [first], lease=HOUR, at=scheduling.clock.now
        )
    assert held.cancel_reason == REPLACED

    await scheduling.finish(first, AttemptOutcome.CANCELLED, REPLACED)
    (second,) = await scheduling.claim_all()
    assert second.scheduled_for == first.scheduled_for + HOUR
    assert await outcomes(scheduling) == [("CANCELLED", REPLACED), ("RUNNING", None)]
    assert (await scheduling.rows())[1]["cancel_requested_at"] is None


async def test_a_replaced_execution_that_still_succeeds_has_succeeded(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(overlap="cancel_running")
    (first,) = await occur(scheduling)
    await occur(scheduling)

    await scheduling.finish(first)

    assert len(await scheduling.claim_all()) == 1
    assert await outcomes(scheduling) == [("SUCCEEDED", None), ("RUNNING", None)]


async def test_cancel_running_ends_a_retrying_execution_at_once(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(overlap="cancel_running")
    (first,) = await occur(scheduling)
    await scheduling.finish(first, AttemptOutcome.FAILED, "broke", retry_after=timedelta(hours=5))

    (second,) = await occur(scheduling)

    assert second.scheduled_for == first.scheduled_for + HOUR
    assert await outcomes(scheduling) == [("CANCELLED", REPLACED), ("RUNNING", None)]
    assert (await scheduling.rows())[0]["finished_at"] == scheduling.clock.now


@pytest.mark.parametrize("asked", [True, False], ids=["asked to stop before", "not asked yet"])
async def test_cancel_running_does_not_wait_for_retries(
    scheduling: Scheduling, *, asked: bool
) -> None:
    await scheduling.schedule(overlap="cancel_running")
    (first,) = await occur(scheduling)
    if asked:
        assert await occur(scheduling) == []
    await scheduling.finish(first, AttemptOutcome.FAILED, "broke", retry_after=5 * HOUR)

    started = await scheduling.claim_all() if asked else await occur(scheduling)

    assert [execution.scheduled_for for execution in started] == [first.scheduled_for + HOUR]
    assert (await outcomes(scheduling))[0] == ("CANCELLED", REPLACED)


async def test_cancel_running_starts_the_latest_pending_execution(scheduling: Scheduling) -> None:
    await scheduling.schedule(overlap="cancel_running")
    (first,) = await occur(scheduling)
    await occur(scheduling)
    await occur(scheduling)

    await scheduling.finish(first, AttemptOutcome.CANCELLED, REPLACED)
    (started,) = await scheduling.claim_all()

    assert started.scheduled_for == first.scheduled_for + 2 * HOUR
    assert await outcomes(scheduling) == [
        ("CANCELLED", REPLACED),
        ("SKIPPED", REPLACED),
        ("RUNNING", None),
    ]


@pytest.mark.parametrize("overlap", ["queue", "cancel_running"])
async def test_an_execution_that_waits_for_overlap_does_not_delay_other_schedules(
    scheduling: Scheduling, overlap: str
) -> None:
    await scheduling.limit(10, per_tenant=2)
    await scheduling.schedule("slow", overlap=overlap, priority="critical")
    await occur(scheduling)
    for _ in range(3):
        assert await occur(scheduling) == []
    await scheduling.waiting(
        1, schedule_name="other", priority=3, start_deadline=scheduling.clock.now
    )

    (started,) = await scheduling.claim_all()

    assert started.schedule_name == "other"


async def test_a_manual_trigger_waits_for_the_running_execution(scheduling: Scheduling) -> None:
    schedule_id: UUID = await scheduling.schedule(overlap="skip")
    (first,) = await occur(scheduling)
    await scheduling.waiting(1, schedule_id=schedule_id, actor_source="manual", overlap="skip")

    assert await scheduling.claim_all() == []
    assert await scheduling.count(state="PENDING", actor_source="manual") == 1

    await scheduling.finish(first)
    assert len(await scheduling.claim_all()) == 1


async def test_executions_of_different_schedules_do_not_overlap(scheduling: Scheduling) -> None:
    await scheduling.schedule("one", overlap="skip")
    await scheduling.schedule("two", overlap="skip")
    await scheduling.schedule("one", overlap="skip", tenant="other")

    assert len(await occur(scheduling)) == 3


async def test_cancel_running_frees_a_slot_at_the_tenant_limit(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(20, per_tenant=1)
    await scheduling.schedule(overlap="cancel_running")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    await scheduling.claim()
    scheduling.clock.advance(hours=1)
    await scheduling.fire()

    await scheduling.claim()

    (before, after) = await scheduling.rows()
    assert (before["state"], before["cancel_reason"]) == (
        "RUNNING",
        "replaced by the next occurrence",
    )
    assert after["state"] == "PENDING"


async def test_a_manual_retry_replaces_no_execution(scheduling: Scheduling) -> None:
    schedule_id = await scheduling.schedule(overlap="cancel_running")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    await scheduling.claim()
    await scheduling.waiting(
        1, schedule_id=schedule_id, overlap="cancel_running", attempt=2, scheduled_for=NOON
    )

    await scheduling.claim()

    running = await scheduling.query(
        "SELECT cancel_requested_at FROM tenantcron.execution WHERE state = 'RUNNING'"
    )
    assert [row["cancel_requested_at"] for row in running] == [None]


@pytest.mark.parametrize(
    "by_hand", [{"actor_source": "manual"}, {"attempt": 2}], ids=["triggered", "tried again"]
)
async def test_a_manual_trigger_with_cancel_running_waits_without_busy_claims(
    scheduling: Scheduling, by_hand: dict[str, Any]
) -> None:
    schedule_id = await scheduling.schedule(overlap="cancel_running")
    (first,) = await occur(scheduling)
    await scheduling.waiting(1, schedule_id=schedule_id, overlap="cancel_running", **by_hand)

    # The loop ends: a claim that could do nothing must not request another one.
    assert await scheduling.claim_all() == []
    assert await scheduling.count(cancel_requested_at=None) == 2

    await scheduling.finish(first)
    assert len(await scheduling.claim_all()) == 1
