"""An operator's pause of a cursor."""

from uuid import UUID

import pytest
from support.cursors import cursor, run, set_cursor, utc
from support.fleet import DEPLOYER, Fleet

from tenantcron.core.names import TenantId
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, schedule_cursors
from tenantcron.store.rows.schedule_cursors import CursorRow

ACME = TenantId("acme")
MONDAY, TUESDAY, FRIDAY = utc(2026, 3, 2), utc(2026, 3, 3), utc(2026, 3, 6)


@pytest.fixture
async def nightly(fleet: Fleet) -> CursorRow:
    """The cursor of a schedule."""
    fleet.write("acme", {"nightly": "cron: '0 2 * * *'"})
    await fleet.apply()
    await refresh(fleet.database, TenantScheduleProvider())
    async with fleet.database.transaction() as connection:
        found = await schedule_cursors.find(connection, ACME, "nightly")
    assert found is not None
    return found


def records(url: str) -> list[tuple[str, str]]:
    rows = run(
        url,
        "SELECT operation, changed_by FROM tenantcron.audit_record"
        " WHERE entity_type = 'pause' ORDER BY id",
    )
    return [(row["operation"], row["changed_by"]) for row in rows]


async def test_a_cursor_is_found_by_tenant_and_name(database: Database, nightly: CursorRow) -> None:
    async with database.transaction() as connection:
        assert await schedule_cursors.of_tenants(connection, [ACME]) == [nightly]
        assert await schedule_cursors.of_tenants(connection, [TenantId("beta")]) == []
        assert await schedule_cursors.find(connection, TenantId("beta"), "nightly") is None
        assert await schedule_cursors.find(connection, ACME, "other") is None


async def test_a_pause_can_be_changed_and_lifted_and_every_step_is_recorded(
    database: Database, database_url: str, nightly: CursorRow
) -> None:
    schedule_id, until = nightly.schedule_id, FRIDAY
    set_cursor(database_url, consecutive_failures=9)
    async with database.transaction() as connection:
        await audit_records.act(connection, DEPLOYER)
        (first,) = await schedule_cursors.pause(
            connection, [schedule_id], by="maria", reason="down", until=None, at=MONDAY
        )
        (again,) = await schedule_cursors.pause(
            connection, [schedule_id], by="ada", reason="still down", until=until, at=TUESDAY
        )
        (resumed,) = await schedule_cursors.resume(connection, [schedule_id])
        assert await schedule_cursors.resume(connection, [schedule_id]) == []

    assert (first.paused_at, first.paused_by, first.paused_until) == (MONDAY, "maria", None)
    assert (again.paused_at, again.paused_by) == (MONDAY, "ada"), "the pause continues"
    assert (again.paused_reason, again.paused_until) == ("still down", FRIDAY)
    assert resumed == nightly, "the next occurrence is unchanged"
    who = DEPLOYER.changed_by
    assert records(database_url) == [("pause", who), ("pause", who), ("resume", who)]


async def test_a_pause_after_an_expired_one_is_a_new_pause(
    database: Database, nightly: CursorRow
) -> None:
    words = {"by": "maria", "reason": "down"}
    async with database.transaction() as connection:
        schedule_id = nightly.schedule_id
        await schedule_cursors.pause(connection, [schedule_id], **words, until=TUESDAY, at=MONDAY)
        (again,) = await schedule_cursors.pause(
            connection, [schedule_id], **words, until=None, at=FRIDAY
        )

    assert (again.paused_at, again.paused_until) == (FRIDAY, None)


@pytest.mark.usefixtures("nightly")
async def test_without_a_moment_a_pause_begins_by_the_databases_clock(
    database: Database, database_url: str
) -> None:
    (before,) = run(database_url, "SELECT clock_timestamp() AS now")
    async with database.transaction() as connection:
        await schedule_cursors.pause(
            connection,
            [cursor(database_url)["schedule_id"]],
            by="maria",
            reason="down",
            until=None,
            at=None,
        )

    assert cursor(database_url)["paused_at"] > before["now"]


async def test_a_missing_schedule_cannot_be_paused(database: Database) -> None:
    async with database.transaction() as connection:
        paused = await schedule_cursors.pause(
            connection, [UUID(int=7)], by="maria", reason="down", until=None, at=None
        )
    assert paused == []
