"""A cursor that was moved back manually: nothing is fired or covered twice."""

from datetime import timedelta

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.inspect.audit import audit

HOUR = timedelta(hours=1)


async def findings(scheduling: Scheduling) -> list[str]:
    audited = await audit(scheduling.database, timedelta(days=90), at=scheduling.clock.now)
    # The tenant has only a row and no schema.
    return [finding.code for finding in audited.findings if finding.code != "unreadable"]


@pytest.mark.parametrize("catch_up", ["once", "none", "all"])
@pytest.mark.parametrize("back", [1, 2, 4])
async def test_a_cursor_moved_back_before_a_cover_creates_no_second_cover(
    scheduling: Scheduling, back: int, catch_up: str
) -> None:
    schedule = await scheduling.schedule(catch_up=catch_up, catch_up_window="1d")
    scheduling.clock.advance(hours=4)
    await scheduling.fire()
    await scheduling.set_cursor(schedule, next_run_at=NOON + back * HOUR)
    scheduling.clock.advance(hours=1, minutes=10)

    await scheduling.fire()

    assert (await scheduling.rows())[-1]["scheduled_for"] == NOON + 5 * HOUR
    assert (await scheduling.rows())[-1]["covers_from"] is None
    assert await findings(scheduling) == []
    cursor = await scheduling.cursor(schedule)
    assert (cursor["last_run_at"], cursor["next_run_at"]) == (NOON + 5 * HOUR, NOON + 6 * HOUR)


async def test_a_cursor_moved_back_without_new_occurrences_only_moves_forward_again(
    scheduling: Scheduling,
) -> None:
    schedule = await scheduling.schedule(catch_up_window="1d")
    scheduling.clock.advance(hours=4)
    await scheduling.fire()
    before = await scheduling.cursor(schedule)
    await scheduling.set_cursor(schedule, next_run_at=NOON + 2 * HOUR)

    assert await scheduling.fire() == 0

    assert await scheduling.cursor(schedule) == before


async def test_fired_occurrences_are_not_also_skipped_under_a_pause(scheduling: Scheduling) -> None:
    schedule = await scheduling.schedule(catch_up_window="1d")
    scheduling.clock.advance(hours=4)
    await scheduling.fire()
    await scheduling.set_cursor(
        schedule, next_run_at=NOON + HOUR, paused_at=NOON, paused_reason="partner is down"
    )
    scheduling.clock.advance(hours=1)

    await scheduling.fire()

    (_, skipped) = await scheduling.rows()
    assert (skipped["state"], skipped["covers_from"]) == ("SKIPPED", None)
    assert await findings(scheduling) == []


async def test_a_cursor_moved_back_before_an_edit_does_not_fire_earlier_occurrences(
    scheduling: Scheduling,
) -> None:
    schedule = await scheduling.schedule(catch_up="all", catch_up_window="1d")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    edited_at = scheduling.clock.advance(minutes=50)
    await scheduling.set_cursor(
        schedule, cron_expr="*/15 * * * *", effective_from=edited_at, next_run_at=NOON + HOUR
    )
    scheduling.clock.advance(minutes=10)

    await scheduling.fire()

    fired = [row["scheduled_for"] for row in await scheduling.rows()]
    assert fired == [NOON + HOUR, NOON + 2 * HOUR]
