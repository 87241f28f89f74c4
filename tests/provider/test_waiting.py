"""The refresh ends pending executions of a removed or disabled schedule."""

from datetime import timedelta

import pytest
from support.cursors import cursor
from support.fleet import Fleet, query
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.reconciler.plan import Rules

PROVIDER = TenantScheduleProvider()
NIGHTLY, OTHER = {"nightly": "cron: '0 2 * * *'"}, {"other": "cron: '0 2 * * *'"}
DISABLED = {"nightly": "cron: '0 2 * * *', enabled: false"}


async def applied(fleet: Fleet, words: dict[str, str]) -> None:
    fleet.write("acme", words)
    await fleet.apply(Rules(create_tenants=True, max_deletes=100))
    await refresh(fleet.database, PROVIDER)


@pytest.fixture
async def fired(fleet: Fleet, database_url: str) -> Fleet:
    """Two schedules, each with a pending execution."""
    await applied(fleet, NIGHTLY | OTHER)
    scheduling = Scheduling(fleet.database, Settings(folder=fleet.folder))
    due = cursor(database_url, "nightly")["next_run_at"]
    scheduling.clock.now = due + timedelta(seconds=1)
    await scheduling.prepare()
    assert await scheduling.fire() == 2
    return fleet


@pytest.mark.parametrize(("becomes", "code"), [(OTHER, "removed"), (DISABLED | OTHER, "disabled")])
async def test_it_is_skipped_with_the_reason_and_the_others_stay_pending(
    fired: Fleet, database_url: str, becomes: dict[str, str], code: str
) -> None:
    await applied(fired, becomes)

    rows = query(database_url, "SELECT * FROM tenantcron.execution ORDER BY schedule_name")
    assert [(row["schedule_name"], row["state"], row["reason_code"]) for row in rows] == [
        ("nightly", "SKIPPED", code),
        ("other", "PENDING", None),
    ]
    assert rows[0]["finished_at"] is not None


async def test_another_edit_keeps_it_pending(fired: Fleet, database_url: str) -> None:
    await applied(fired, {"nightly": "cron: '0 3 * * *'"} | OTHER)

    rows = query(database_url, "SELECT state FROM tenantcron.execution")
    assert [row["state"] for row in rows] == ["PENDING", "PENDING"]
