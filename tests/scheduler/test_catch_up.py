"""Catch-up after a downtime: missed occurrences start once, each, or not at all."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.finish import finish_batch

HOUR = timedelta(hours=1)
RUNNING = "SELECT count(*) AS number FROM tenantcron.execution WHERE state = 'RUNNING'"


async def after_downtime(scheduling: Scheduling, hours: float, **definition: str) -> None:
    await scheduling.schedule(**definition)  # type: ignore[arg-type] # the rest is the definition
    scheduling.clock.advance(hours=hours)
    await scheduling.fire()


async def run_all(scheduling: Scheduling) -> list[object]:
    """Start and end pending executions one by one; return their nominal times."""
    ran: list[object] = []
    while started := await scheduling.claim_all():
        for execution in started:
            ran.append(execution.scheduled_for)
            await scheduling.finish(execution)
    return ran


async def test_once_starts_the_latest_and_records_what_it_covers(scheduling: Scheduling) -> None:
    await after_downtime(scheduling, 5.5, catch_up_window="1d")

    assert await run_all(scheduling) == [NOON + 5 * HOUR]

    (row,) = await scheduling.rows()
    assert (row["covers_from"], row["missed_count"]) == (NOON + HOUR, 4)


async def test_none_starts_nothing_and_records_one_row(scheduling: Scheduling) -> None:
    await after_downtime(scheduling, 5.5, catch_up="none")

    assert await run_all(scheduling) == []

    (row,) = await scheduling.rows()
    assert (row["state"], row["covers_from"], row["missed_count"]) == ("MISSED", NOON + HOUR, 4)
    assert row["finished_at"] == scheduling.clock.now


@pytest.mark.parametrize("overlap", ["queue", "allow"])
async def test_all_starts_each_occurrence_in_order(scheduling: Scheduling, overlap: str) -> None:
    await after_downtime(scheduling, 5.5, catch_up="all", catch_up_window="1d", overlap=overlap)

    assert await run_all(scheduling) == [NOON + number * HOUR for number in range(1, 6)]


async def test_a_catch_up_waits_for_a_slot_as_long_as_its_window(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(1, tenant="busy")
    await scheduling.claim_all()
    await after_downtime(scheduling, 1.5)

    scheduling.clock.advance(minutes=59)
    await scheduling.claim_all()
    assert await scheduling.count(state="PENDING") == 1

    scheduling.clock.advance(minutes=1)
    await scheduling.claim_all()
    assert await scheduling.count(state="SKIPPED", reason="concurrency limit reached") == 1


async def test_after_a_day_thousands_of_schedules_start_once_within_the_limits(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100, per_tenant=1000)
    await scheduling.schedules(5000)
    await scheduling.execute(
        """UPDATE tenantcron.tenant SET quotas = '{"starts_per_minute": 5000}'"""
    )
    scheduling.clock.advance(hours=24, minutes=10)
    await scheduling.fire()

    at_once, starts = set[object](), Counter[UUID]()
    while started := await scheduling.claim_all():
        (row,) = await scheduling.query(RUNNING)
        at_once.add(row["number"])
        starts.update(execution.schedule_id for execution in started)
        ended = [Attempt(execution, AttemptOutcome.SUCCEEDED) for execution in started]
        await finish_batch(scheduling.replica(), ended)

    assert at_once == {100}
    assert (len(starts), set(starts.values())) == (5000, {1})
    assert Counter(state for state, _ in await scheduling.states()) == {
        "SUCCEEDED": 5000,
        "MISSED": 5000,
    }


async def test_limits_hold_back_a_storm_of_catch_ups_and_lose_none(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(3, per_tenant=2)
    for tenant in ("a", "b", "c"):
        for number in range(4):
            await scheduling.schedule(f"s{number}", tenant=tenant)
    scheduling.clock.advance(hours=1, minutes=30)
    await scheduling.fire()

    first = await scheduling.claim_all()
    assert len(first) == 3
    for execution in first:
        await scheduling.finish(execution)
    await run_all(scheduling)

    assert await scheduling.count(state="SUCCEEDED") == 12


async def test_a_schedule_continues_after_a_hundred_missed_occurrences(
    scheduling: Scheduling,
) -> None:
    await after_downtime(scheduling, 24 * 30)
    await run_all(scheduling)

    scheduling.clock.advance(hours=1)
    await scheduling.fire()

    assert len(await run_all(scheduling)) == 1


async def test_two_downtimes_cover_each_occurrence_once(scheduling: Scheduling) -> None:
    await after_downtime(scheduling, 10.5)
    scheduling.clock.advance(hours=7)
    await scheduling.fire()
    scheduling.clock.advance(minutes=30)
    await scheduling.fire()

    covered = [
        (row["covers_from"] or row["scheduled_for"], row["scheduled_for"], row["missed_count"])
        for row in await scheduling.rows()
    ]
    times = [NOON + number * HOUR for number in range(1, 19)]
    found = [time for since, until, _ in covered for time in times if since <= time <= until]
    assert found == times
    assert sum(int(str(missed)) + 1 for _, _, missed in covered) == len(times)
