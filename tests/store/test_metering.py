"""The metering view: the usage of each tenant per month, computed from the rows."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from support.scheduling import Row, Scheduling

from tenantcron.core.settings import Settings
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.connection.engine import Database
from tenantcron.store.steps.submit import TasksRejectedError

DECEMBER = date(2026, 12, 1)


@pytest.fixture
async def scheduling(database: Database, tmp_path: Path) -> Scheduling:
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.prepare()
    return scheduling


async def metered(scheduling: Scheduling) -> dict[tuple[object, object], Row]:
    rows = await scheduling.query("SELECT * FROM tenantcron.metering")
    return {(row["tenant_id"], row["month"]): row for row in rows}


def used(row: Row) -> dict[str, object]:
    """Return the columns that are not zero."""
    return {name: row[name] for name in row if name not in ("tenant_id", "month") and row[name]}


async def test_executions_count_by_state_and_attempts_by_duration(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(1, attempts_allowed=2)
    await scheduling.waiting(1, tenant="other")
    for outcome in (AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED):
        started = await scheduling.claim_all()
        scheduling.clock.advance(seconds=30)
        for claimed in started:
            fails = claimed.tenant_id == "acme"
            await scheduling.finish(claimed, outcome if fails else AttemptOutcome.SUCCEEDED, "no")
        scheduling.clock.advance(hours=1)
    await scheduling.waiting(3, state="SKIPPED")
    await scheduling.waiting(2, state="MISSED")
    await scheduling.waiting(1)

    found = await metered(scheduling)

    assert used(found["acme", DECEMBER]) == {
        "succeeded": 1,
        "skipped": 3,
        "missed": 2,
        "unfinished": 1,
        "attempts": 2,
        "run_seconds": 60.0,
    }
    assert used(found["other", DECEMBER]) == {"succeeded": 1, "attempts": 1, "run_seconds": 30.0}


async def test_a_refused_attempt_does_not_count(scheduling: Scheduling) -> None:
    await scheduling.waiting()
    (claimed,) = await scheduling.claim_all()
    scheduling.clock.advance(seconds=5)
    await scheduling.finish(claimed, AttemptOutcome.REFUSED, "ada has left")
    found = await metered(scheduling)
    assert used(found["acme", DECEMBER]) == {"skipped": 1}


async def test_an_execution_counts_in_the_utc_month_of_its_occurrence(
    scheduling: Scheduling,
) -> None:
    last = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
    await scheduling.waiting(1, state="DEAD", scheduled_for=last, finished_at=scheduling.clock.now)
    await scheduling.waiting(1, state="CANCELLED", scheduled_for=last + timedelta(seconds=1))
    async with scheduling.database.transaction() as connection:
        # The session may have any time zone.
        await connection.exec_driver_sql("SET LOCAL timezone TO 'Pacific/Auckland'")
        rows = await connection.exec_driver_sql(
            "SELECT month, dead, cancelled FROM tenantcron.metering ORDER BY month"
        )
        assert [tuple(row) for row in rows] == [(date(2026, 11, 1), 1, 0), (DECEMBER, 0, 1)]


async def test_a_tenant_without_usage_has_no_row(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    assert await metered(scheduling) == {}


async def test_submitted_tasks_count_with_their_bytes_in_the_month_of_their_submission(
    scheduling: Scheduling,
) -> None:
    await scheduling.task(payload={"order": 7}, delay=timedelta(days=45))
    await scheduling.task(payload={"name": "é"})
    await scheduling.task("other", payload={})
    rejected = "UPDATE tenantcron.tenant SET quotas = '{\"pending_tasks\": 0}'"
    await scheduling.execute(rejected.replace(":", "\\:"))
    with pytest.raises(TasksRejectedError):
        await scheduling.submit()

    found = await metered(scheduling)

    # Only the task that is due has an execution.
    assert used(found["acme", DECEMBER]) == {
        "unfinished": 1,
        "tasks_submitted": 2,
        "payload_bytes": len('{"order": 7}') + len('{"name": "é"}'.encode()),
    }
    assert used(found["other", DECEMBER])["payload_bytes"] == 2
    scheduling.clock.advance(days=46)
    await scheduling.fire()
    later = (await metered(scheduling))["acme", date(2027, 1, 1)]
    assert used(later) == {"unfinished": 1}
