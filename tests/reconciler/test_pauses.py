"""An apply does not change pauses, which belong to operators."""

from datetime import UTC, datetime, timedelta

import pytest
from support.fleet import Fleet, numbered, query, schedules

from tenantcron.reconciler.outcome import Registered, Status, registered

NOW = datetime(2026, 11, 16, tzinfo=UTC)
PAUSE = (
    "INSERT INTO tenantcron.schedule_cursor (schedule_id, tenant_id, schedule_name, saga_name,"
    " cron_expr, timezone, tz_version, enabled, provider, definition_id, effective_from, paused_at,"
    " paused_by, paused_reason, paused_until) SELECT id, 'acme', schedule_name, saga_name,"
    " cron_expr, timezone, '2026a', enabled, 'tenant', gen_random_uuid(), effective_from, now(),"
    " 'maria', 'partner is down', {} FROM tenant_acme.tenant_schedule"
    " WHERE schedule_name = 's001'"
)


async def paused(fleet: Fleet, url: str, until: str) -> None:
    fleet.write("acme", numbered(3))
    await fleet.apply()
    query(url, PAUSE.replace("{}", until))


async def edited(fleet: Fleet) -> Registered:
    """Edit the paused schedule, apply it, and return it from the response."""
    fleet.write("acme", numbered(3, "cron: '0 4 * * *'"))
    (outcome,) = await fleet.apply()
    assert outcome.status is Status.APPLIED
    assert outcome.plan is not None
    return registered(outcome.plan, NOW)[1]


@pytest.mark.parametrize("until", ["NULL", "'2026-12-01T12:00:00Z'"])
async def test_apply_neither_removes_nor_changes_a_pause(
    fleet: Fleet, database_url: str, until: str
) -> None:
    await paused(fleet, database_url, until)
    before = query(database_url, "SELECT *, xmin::text FROM tenantcron.schedule_cursor")

    await edited(fleet)

    assert query(database_url, "SELECT *, xmin::text FROM tenantcron.schedule_cursor") == before
    assert schedules(database_url, "acme")[1]["cron_expr"] == "0 4 * * *"


async def test_apply_sets_no_pause(fleet: Fleet, database_url: str) -> None:
    fleet.write("acme", numbered(3))
    await fleet.apply()

    assert query(database_url, "SELECT * FROM tenantcron.schedule_cursor") == []


async def test_a_pause_without_an_end_leaves_no_next_execution(
    fleet: Fleet, database_url: str
) -> None:
    await paused(fleet, database_url, "NULL")

    schedule = await edited(fleet)

    assert schedule.pause is not None
    assert (schedule.pause.by, schedule.pause.reason) == ("maria", "partner is down")
    assert schedule.next_executions == ()


@pytest.mark.parametrize(
    ("until", "first"),
    [
        ("2026-12-01T12:00:00Z", datetime(2026, 12, 2, 4, tzinfo=UTC)),
        ("2026-12-01T04:00:00Z", datetime(2026, 12, 1, 4, tzinfo=UTC)),
        ("2026-12-01T04:00:01Z", datetime(2026, 12, 2, 4, tzinfo=UTC)),
    ],
    ids=["between two occurrences", "at an occurrence, which fires", "just after an occurrence"],
)
async def test_the_next_executions_are_those_from_the_end_of_the_pause(
    fleet: Fleet, database_url: str, until: str, first: datetime
) -> None:
    await paused(fleet, database_url, f"'{until}'")

    schedule = await edited(fleet)

    assert schedule.next_executions == tuple(first + timedelta(days=day) for day in range(3))


@pytest.mark.parametrize("until", ["2026-11-01T12:00:00Z", "2026-11-16T00:00:00Z"])
async def test_an_ended_pause_is_not_shown_and_has_no_effect(
    fleet: Fleet, database_url: str, until: str
) -> None:
    await paused(fleet, database_url, f"'{until}'")

    schedule = await edited(fleet)

    assert schedule.pause is None
    assert schedule.next_executions[0] == datetime(2026, 11, 16, 4, tzinfo=UTC)


async def test_the_pause_of_another_schedule_is_not_shown(fleet: Fleet, database_url: str) -> None:
    await paused(fleet, database_url, "NULL")
    (outcome,) = await fleet.plan()

    assert outcome.plan is not None
    shown = [schedule.pause is not None for schedule in registered(outcome.plan, NOW)]
    assert shown == [False, True, False]
