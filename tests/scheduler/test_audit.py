"""Audit: finds lost and duplicated occurrences and unexpected rows, and nothing else."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.cursors import cursor, run, set_cursor, set_schedule
from support.fleet import Fleet, statements
from support.scheduling import NOON, Scheduling

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.provider.refresh import refresh
from tenantcron.provider.rezoning import recompute_for_new_zones
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.plan import Rules
from tenantcron.scheduler.inspect.audit import AuditReport, audit
from tenantcron.scheduler.inspect.audit_occurrences import compare_occurrences
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.executions import execution_id
from tenantcron.store.rows.recorded_occurrences import Recorded
from tenantcron.store.rows.schedule_cursors import CursorRow

RETENTION = timedelta(days=90)
SCHEDULE = UUID("00000000-0000-4000-8000-000000000007")
HOUR = timedelta(hours=1)


def hour(number: float) -> datetime:
    return NOON + number * HOUR


def row(number: float, covers_from: float | None = None, **columns: object) -> Recorded:
    """The row of an hour, as fire writes it."""
    values = {
        "tenant_id": TenantId("acme"),
        "schedule_name": "nightly",
        "schedule_id": SCHEDULE,
        "id": execution_id(SCHEDULE, hour(number)),
        "scheduled_for": hour(number),
        "covers_from": None if covers_from is None else hour(covers_from),
        **columns,
    }
    return Recorded(**values)  # type: ignore[arg-type] # as given


def judged(*rows: Recorded, last: float = 4) -> list[tuple[str, int, datetime | None]]:
    """Audit an hourly schedule that has fired four times since noon."""
    cursor = CursorRow(
        schedule_id=SCHEDULE,
        tenant_id=TenantId("acme"),
        schedule_name="nightly",
        saga_name="x",
        provider="tenant",
        cron_expr="0 * * * *",
        timezone="UTC",
        tz_version="2026a",
        enabled=True,
        definition_id=uuid4(),
        effective_from=NOON,
        next_run_at=hour(last + 1),
        last_run_at=hour(last),
    )
    expected = [hour(number) for number in range(1, int(last) + 1)]
    found = compare_occurrences(cursor, expected, NOON, rows)
    return [(finding.code.value, finding.count, finding.since) for finding in found]


def test_one_row_per_occurrence_gives_no_finding() -> None:
    assert judged(row(1), row(2), row(3), row(4)) == []


def test_a_row_covers_all_occurrences_in_its_range() -> None:
    assert judged(row(3, covers_from=1), row(4)) == []
    assert judged(row(4, covers_from=1)) == []


def test_neighbouring_lost_occurrences_are_one_finding() -> None:
    assert judged(row(1), row(4)) == [("lost", 2, hour(2))]
    assert judged(row(2), row(4)) == [("lost", 1, hour(1)), ("lost", 1, hour(3))]
    assert judged() == [("lost", 4, hour(1))]


def test_two_covers_of_one_occurrence_are_a_finding() -> None:
    assert judged(row(1), row(2), row(4, covers_from=2)) == [("doubled", 1, hour(2))]


def test_a_row_between_two_occurrences_is_unexpected() -> None:
    rows = [row(1), row(1.5), row(2), row(3), row(4)]
    assert judged(*rows) == [("unexpected", 1, hour(1.5))]
    rows = [row(1), row(1.5), row(1.6), row(2), row(2.5), row(3), row(4)]
    assert judged(*rows) == [("unexpected", 2, hour(1.5)), ("unexpected", 1, hour(2.5))]


def test_a_row_of_an_occurrence_with_another_id_is_unexpected_and_doubles() -> None:
    rows = (row(1), row(1, id=uuid4()), row(2), row(3), row(4))
    assert judged(*rows) == [("doubled", 1, hour(1)), ("unexpected", 1, hour(1))]


def test_occurrences_outside_the_audited_period_are_ignored() -> None:
    rows = (row(-0.5), row(0), row(1), row(2), row(3), row(4), row(5), row(5.5))
    assert judged(*rows) == []


def test_rows_of_a_deleted_schedule_with_the_same_name_are_ignored() -> None:
    other = uuid4()
    rows = (row(1), row(2), row(3), row(4), row(1.5, schedule_id=other))
    assert judged(*rows) == []
    assert judged(*rows[1:], row(1, schedule_id=other)) == [("lost", 1, hour(1))]


async def audited(scheduling: Scheduling, **options: object) -> AuditReport:
    return await audit(scheduling.database, RETENTION, at=scheduling.clock(), **options)  # type: ignore[arg-type] # as given


def found(result: AuditReport, *, but: str = "unreadable") -> list[tuple[str, str | None]]:
    """Return the findings, except that the tenants of these tests have no schema."""
    return [
        (finding.code.value, finding.schedule) for finding in result.findings if finding.code != but
    ]


@pytest.mark.parametrize("catch_up", ["once", "all", "none"])
async def test_the_scheduler_itself_causes_no_findings(
    scheduling: Scheduling, catch_up: str
) -> None:
    await scheduling.schedule(catch_up=catch_up, catch_up_window="2h")
    await scheduling.schedule("often", "*/15 * * * *", catch_up=catch_up)
    await scheduling.schedule("paused", columns={"paused_at": NOON, "paused_reason": "x"})
    for hours in (0.5, 0.5, 7, 1, 30):
        scheduling.clock.advance(hours=hours)
        await scheduling.fire()
        await scheduling.claim()

    result = await audited(scheduling)

    assert found(result) == []
    assert (result.tenants, result.schedules, result.occurrences) == (1, 3, 39 + 39 + 156)


async def test_manually_deleted_rows_are_found(scheduling: Scheduling) -> None:
    await scheduling.schedule(catch_up="all", catch_up_window="24h")
    await scheduling.schedule("other", catch_up="all", catch_up_window="24h")
    scheduling.clock.advance(hours=5)
    await scheduling.fire()
    await scheduling.execute(
        "DELETE FROM tenantcron.execution WHERE schedule_name = 'nightly' AND scheduled_for = :at",
        at=hour(2),
    )

    assert found(await audited(scheduling)) == [("lost", "nightly")]
    assert found(await audited(scheduling, tenant=TenantId("acme"))) == [("lost", "nightly")]
    assert found(await audited(scheduling, since=hour(2))) == [("lost", "nightly")]
    assert found(await audited(scheduling, since=hour(2.5))) == []


async def test_all_occurrences_of_a_schedule_without_rows_are_lost(scheduling: Scheduling) -> None:
    await scheduling.schedule(columns={"last_run_at": hour(3), "next_run_at": hour(4)})
    scheduling.clock.advance(hours=3)
    (lost,) = [finding for finding in (await audited(scheduling)).findings if finding.schedule]
    assert (lost.count, lost.since, lost.until) == (3, hour(1), hour(3))


async def test_manual_triggers_and_due_occurrences_are_ignored(scheduling: Scheduling) -> None:
    schedule = await scheduling.schedule()
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    of_nightly: dict[str, Any] = {
        "schedule_id": schedule,
        "schedule_name": "nightly",
        "scheduled_for": hour(0.5),
    }
    await scheduling.waiting(**of_nightly, actor_source="manual")
    scheduling.clock.advance(hours=5)
    assert found(await audited(scheduling)) == []
    await scheduling.waiting(**of_nightly)
    assert found(await audited(scheduling)) == [("unexpected", "nightly")]


async def test_the_number_of_statements_does_not_grow_with_the_schedules(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule("first", "0 * * * *")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    with statements(scheduling.database) as sent_for_one:
        assert (await audited(scheduling)).occurrences == 1
    await scheduling.schedules(40)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    with statements(scheduling.database) as sent_for_more:
        assert (await audited(scheduling)).occurrences == 42
    assert len(sent_for_more) == len(sent_for_one)


@pytest.fixture
async def fleet(database: Database, tmp_path: Path) -> Fleet:
    """Two schedules in sync with their cursors."""
    fleet = Fleet(database, tmp_path)
    fleet.write("acme", {"nightly": "cron: '0 2 * * *'", "weekly": "cron: '0 3 * * 1'"})
    await fleet.apply()
    await refresh(database, TenantScheduleProvider())
    return fleet


async def compared(fleet: Fleet) -> list[tuple[str, str | None]]:
    return found(await audit(fleet.database, RETENTION), but="")


async def test_cursors_in_sync_with_their_schedules_give_no_finding(fleet: Fleet) -> None:
    assert await compared(fleet) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("cron_expr", "0 4 * * *"),
        ("timezone", "Europe/London"),
        ("enabled", False),
        ("saga_name", "other"),
        ("effective_from", NOON),
        ("definition_id", uuid4()),
    ],
)
async def test_a_cursor_that_differs_is_found(
    fleet: Fleet, database_url: str, column: str, value: object
) -> None:
    set_cursor(database_url, "nightly", **{column: value})
    assert await compared(fleet) == [("different-cursor", "nightly")]


async def test_missing_and_orphaned_cursors_are_found(fleet: Fleet, database_url: str) -> None:
    run(database_url, "DELETE FROM tenantcron.schedule_cursor WHERE schedule_name = 'nightly'")
    run(
        database_url,
        "UPDATE tenantcron.schedule_cursor SET schedule_id = gen_random_uuid()"
        " WHERE schedule_name = 'weekly'",
    )
    assert sorted(await compared(fleet)) == [
        ("missing-cursor", "nightly"),
        ("missing-cursor", "weekly"),
        ("orphaned-cursor", "weekly"),
    ]


async def test_a_tenant_between_a_change_and_its_refresh_is_not_compared(fleet: Fleet) -> None:
    fleet.write("acme", {"nightly": "cron: '0 5 * * *'", "new": "cron: '0 3 * * 1'"})
    await fleet.apply()
    assert await compared(fleet) == []


async def test_occurrences_of_the_previous_timetable_until_the_refresh_give_no_finding(
    fleet: Fleet, database_url: str
) -> None:
    scheduling = Scheduling(fleet.database, Settings(folder=fleet.folder))
    fleet.write("acme", {"nightly": "cron: '10 * * * *'"})
    await fleet.apply(Rules(max_deletes=100))
    scheduling.clock.now = cursor(database_url, "nightly")["next_run_at"]
    await scheduling.prepare()
    assert await scheduling.fire() == 1, "at two, by the timetable before"

    await refresh(fleet.database, TenantScheduleProvider(), at=scheduling.clock.now)

    assert (await audit(fleet.database, RETENTION, at=scheduling.clock.now)).findings == []
    scheduling.clock.advance(minutes=70)
    assert await scheduling.fire() == 1, "the later of two, which covers both"
    result = await audit(fleet.database, RETENTION, at=scheduling.clock.now)
    assert (result.findings, result.occurrences) == ([], 2)
    run(database_url, "DELETE FROM tenantcron.execution WHERE missed_count > 0")
    result = await audit(fleet.database, RETENTION, at=scheduling.clock.now)
    assert [(finding.code, finding.count) for finding in result.findings] == [("lost", 2)]


async def test_a_reactivated_tenant_is_audited_from_its_reactivation(
    fleet: Fleet, database_url: str
) -> None:
    run(database_url, "UPDATE tenantcron.tenant SET status = 'deprovisioned'")
    run(database_url, "UPDATE tenantcron.tenant SET status = 'active'")
    # As if the apply was days ago, and the first occurrence since the reactivation was just fired.
    ago = "now() - interval '3 days'"
    run(database_url, f"UPDATE tenantcron.schedule_cursor SET effective_from = {ago}")  # noqa: S608 -- the test's own words
    run(database_url, f"UPDATE tenant_acme.tenant_schedule SET effective_from = {ago}")  # noqa: S608 -- as above
    run(database_url, "UPDATE tenantcron.schedule_cursor SET last_run_at = now()")
    result = await audit(fleet.database, RETENTION)
    assert [finding.code for finding in result.findings if finding.code == "lost"] == []


async def test_a_manually_changed_timetable_is_audited_from_the_change(
    fleet: Fleet, database_url: str
) -> None:
    ago = "now() - interval '3 days'"
    for table in ("tenantcron.schedule_cursor", "tenant_acme.tenant_schedule"):
        run(database_url, f"UPDATE {table} SET effective_from = {ago}")  # noqa: S608 -- as above
    run(database_url, "UPDATE tenantcron.schedule_cursor SET last_run_at = now()")
    lost = [finding.schedule for finding in (await audit(fleet.database, RETENTION)).findings]
    assert "nightly" in lost
    set_schedule(database_url, cron_expr="*/20 * * * *")
    await refresh(fleet.database, TenantScheduleProvider())
    lost = [finding.schedule for finding in (await audit(fleet.database, RETENTION)).findings]
    assert "nightly" not in lost


async def test_a_tenant_that_cannot_be_read_is_named(fleet: Fleet, database_url: str) -> None:
    run(database_url, "DROP TABLE tenant_acme.tenant_schedule")
    assert await compared(fleet) == [("unreadable", None)]


async def test_occurrences_computed_with_older_time_zones_give_no_finding(
    scheduling: Scheduling,
) -> None:
    daily = await scheduling.schedule(cron="0 2 * * *", timezone="Europe/Berlin")
    one_off = {"tz_version": "2020a", "next_run_at": NOON + timedelta(hours=14)}
    await scheduling.set_cursor(daily, **one_off)
    scheduling.clock.advance(hours=15)
    await scheduling.fire()
    await scheduling.set_cursor(daily, tz_version="2020a", next_run_at=NOON + timedelta(hours=38))

    before = found(await audited(scheduling))
    await recompute_for_new_zones(scheduling.database, scheduling.clock.now)
    after = found(await audited(scheduling))
    scheduling.clock.advance(days=2)
    await scheduling.fire()

    assert before == [("lost", "nightly"), ("unexpected", "nightly")]
    assert after == []
    assert found(await audited(scheduling)) == []
