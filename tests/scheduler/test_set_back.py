"""A cursor that somebody has set back: nothing is fired again, and no second row stands for it."""

from datetime import timedelta

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.inspect.audit import audit

HOUR = timedelta(hours=1)


async def findings(scheduling: Scheduling) -> list[str]:
    audited = await audit(scheduling.database, timedelta(days=90), at=scheduling.clock.now)
    # The tenant is a row only, without a schema that could be read.
    return [one.code for one in audited.findings if one.code != "unreadable"]


@pytest.mark.parametrize("catch_up", ["once", "none", "all"])
@pytest.mark.parametrize("back", [1, 2, 4])
async def test_past_a_cover_it_makes_no_second_one(
    scheduling: Scheduling, back: int, catch_up: str
) -> None:
    schedule = await scheduling.schedule(catch_up=catch_up, catch_up_window="1d")
    scheduling.clock.go_on(hours=4)
    await scheduling.fire()
    await scheduling.set_cursor(schedule, next_run_at=NOON + back * HOUR)
    scheduling.clock.go_on(hours=1, minutes=10)

    await scheduling.fire()

    assert (await scheduling.rows())[-1]["scheduled_for"] == NOON + 5 * HOUR
    assert (await scheduling.rows())[-1]["covers_from"] is None
    assert await findings(scheduling) == []
    cursor = await scheduling.cursor(schedule)
    assert (cursor["last_run_at"], cursor["next_run_at"]) == (NOON + 5 * HOUR, NOON + 6 * HOUR)


async def test_with_nothing_new_due_it_only_moves_to_where_it_was(scheduling: Scheduling) -> None:
    schedule = await scheduling.schedule(catch_up_window="1d")
    scheduling.clock.go_on(hours=4)
    await scheduling.fire()
    before = await scheduling.cursor(schedule)
    await scheduling.set_cursor(schedule, next_run_at=NOON + 2 * HOUR)

    assert await scheduling.fire() == 0

    assert await scheduling.cursor(schedule) == before


async def test_under_a_pause_what_was_fired_is_not_skipped_as_well(scheduling: Scheduling) -> None:
    schedule = await scheduling.schedule(catch_up_window="1d")
    scheduling.clock.go_on(hours=4)
    await scheduling.fire()
    await scheduling.set_cursor(
        schedule, next_run_at=NOON + HOUR, paused_at=NOON, paused_reason="partner is down"
    )
    scheduling.clock.go_on(hours=1)

    await scheduling.fire()

    (_, skipped) = await scheduling.rows()
    assert (skipped["state"], skipped["covers_from"]) == ("SKIPPED", None)
    assert await findings(scheduling) == []


async def test_behind_an_edit_it_does_not_fire_what_the_new_timetable_has_from_before(
    scheduling: Scheduling,
) -> None:
    schedule = await scheduling.schedule(catch_up="all", catch_up_window="1d")
    scheduling.clock.go_on(hours=1)
    await scheduling.fire()
    edited_at = scheduling.clock.go_on(minutes=50)
    await scheduling.set_cursor(
        schedule, cron_expr="*/15 * * * *", effective_from=edited_at, next_run_at=NOON + HOUR
    )
    scheduling.clock.go_on(minutes=10)

    await scheduling.fire()

    fired = [row["scheduled_for"] for row in await scheduling.rows()]
    assert fired == [NOON + HOUR, NOON + 2 * HOUR]
