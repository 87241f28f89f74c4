"""The state of the cluster as metrics: correct, cheap, and without a label per tenant."""

import asyncio
from dataclasses import asdict, replace
from datetime import timedelta

import psycopg
import pytest
from support.fleet import statements
from support.history import add_history
from support.scheduling import Scheduling
from support.scraping import Scraped, read
from support.services import answering
from support.webhooks import hooked

from tenantcron.core.settings import Settings
from tenantcron.scheduler.metrics import prometheus
from tenantcron.scheduler.metrics.prometheus import Metrics
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport
from tenantcron.store.steps import measuring
from tenantcron.store.steps.measuring import HistoryQuery
from tenantcron.store.steps.statements import statement


async def scrape(scheduling: Scheduling, **settings: object) -> Scraped:
    asked: Settings = replace(scheduling.settings, **settings)  # type: ignore[arg-type] # as given
    metrics = Metrics(scheduling.database, asked, clock=scheduling.clock)
    return read((await metrics.scrape()).decode())


async def test_an_empty_database_reports_zeros(scheduling: Scheduling) -> None:
    scraped = await scrape(scheduling)
    assert scraped.value("database_up") == 1
    assert scraped.value("executions_running") == 0
    assert scraped.value("executions_running_limit") == 20
    assert scraped.value("cursor_lag_seconds") == 0
    assert scraped.values("executions_pending", "priority") == {
        "critical": 0,
        "high": 0,
        "medium": 0,
        "low": 0,
    }


async def test_pending_executions_are_reported_by_priority_and_running_ones_with_the_limits(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(3, 2)
    await scheduling.waiting(4)
    assert len(await scheduling.claim_all()) == 2
    await scheduling.waiting(3, priority=0)
    await scheduling.waiting(1, state="RETRYING", attempt=1, priority=3)
    scheduling.clock.advance(seconds=90)
    scraped = await scrape(scheduling)
    assert scraped.values("executions_pending", "priority") == {
        "critical": 3,
        "high": 0,
        "medium": 2,
        "low": 1,
    }
    assert scraped.value("executions_running") == 2
    assert scraped.value("executions_running_limit") == 3
    assert scraped.value("tenants_at_limit") == 1
    assert scraped.value("executions_longest_wait_seconds") == 90


async def test_executions_that_may_not_start_yet_do_not_count_as_waiting(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(not_before=scheduling.clock.now + timedelta(hours=1))
    scraped = await scrape(scheduling)
    assert scraped.value("executions_pending", priority="medium") == 1
    assert scraped.value("executions_longest_wait_seconds") == 0


async def test_the_lag_is_that_of_the_most_overdue_cursor_that_can_fire(
    scheduling: Scheduling,
) -> None:
    now = scheduling.clock.now
    await scheduling.schedule("late", columns={"next_run_at": now - timedelta(seconds=40)})
    await scheduling.schedule("later", columns={"next_run_at": now - timedelta(seconds=30)})
    off = {"next_run_at": now - timedelta(days=2), "enabled": False}
    await scheduling.schedule("off", columns=off)
    assert (await scrape(scheduling)).value("cursor_lag_seconds") == 40


async def test_schedules_that_should_fire_and_do_not_are_counted_by_cause(
    scheduling: Scheduling,
) -> None:
    now = scheduling.clock.now
    await scheduling.schedule("fine")
    await scheduling.schedule("late", columns={"next_run_at": now - timedelta(minutes=6)})
    await scheduling.schedule("broken", columns={"fault": "cannot be evaluated"})
    paused = {"paused_at": now, "paused_reason": "auto:consecutive_failures"}
    await scheduling.schedule("failed", columns=paused)
    await scheduling.schedule("by_hand", columns={"paused_at": now, "paused_reason": "holidays"})
    scraped = await scrape(scheduling)
    assert scraped.values("schedules_quiet", "cause") == {
        "overdue": 1,
        "set_aside": 1,
        "auto_paused": 1,
    }


async def test_replicas_and_unsynced_tenants_are_counted(
    scheduling: Scheduling,
) -> None:
    await scheduling.tenant("acme", schedule_revision=2, synced_revision=1)
    await scheduling.tenant("other", schedule_revision=2, synced_revision=2)
    for name, silent in (("here", 0), ("gone", 121)):
        report = WorkerReport(id=name, service="scheduler", running=0, abandoned=0, draining=False)
        async with scheduling.database.transaction() as connection:
            at = scheduling.clock.now - timedelta(seconds=silent)
            await workers.report(connection, report, at)
    scraped = await scrape(scheduling)
    assert scraped.value("tenants_not_followed") == 1
    assert scraped.value("replicas") == 1


async def test_no_label_grows_with_the_tenants_unless_configured(
    scheduling: Scheduling,
) -> None:
    for number in range(5):
        await scheduling.waiting(number + 1, tenant=f"tenant{number}")
    without = await scrape(scheduling)
    labels = {name for _, pairs in without.samples for name, _ in pairs}
    assert labels == {"priority", "cause", "when", "state"}

    asked = await scrape(scheduling, metrics_busiest_tenants=2)
    assert asked.values("tenant_executions_pending", "tenant") == {"tenant4": 5, "tenant3": 4}
    assert asked.values("tenant_executions_running", "tenant") == {"tenant4": 0, "tenant3": 0}


async def test_concurrent_scrapes_query_the_database_once(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics(scheduling.database, scheduling.settings, clock=scheduling.clock)
    with statements(scheduling.database) as sent:
        first = await metrics.scrape()
        await scheduling.waiting()
        assert await metrics.scrape() == first
    assert sum("tenants_at_limit" in statement for statement in sent) == 1

    monkeypatch.setattr(prometheus, "FRESH_SECONDS", -1.0)
    later = read((await metrics.scrape()).decode())
    assert later.value("executions_pending", priority="medium") == 1


async def test_metrics_that_cannot_be_read_are_omitted_and_database_up_is_0(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "FRESH_SECONDS", -1.0)
    metrics = Metrics(scheduling.database, scheduling.settings, clock=scheduling.clock)
    assert read((await metrics.scrape()).decode()).value("executions_running") == 0
    await scheduling.execute("ALTER TABLE tenantcron.limits RENAME TO away")
    scraped = read((await metrics.scrape()).decode())
    assert scraped.value("database_up") == 0
    of_cluster = {name for name in scraped.names if "connections" not in name}
    assert of_cluster == {"tenantcron_database_up"}
    await scheduling.execute("ALTER TABLE tenantcron.away RENAME TO limits")
    assert read((await metrics.scrape()).decode()).value("database_up") == 1


async def test_a_scrape_does_not_wait_for_an_unresponsive_database(
    scheduling: Scheduling, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_LONGEST", "SET LOCAL statement_timeout TO '50ms'")
    with psycopg.connect(database_url) as held:
        held.execute("LOCK TABLE tenantcron.limits")
        assert (await scrape(scheduling)).value("database_up") == 0


async def test_enabled_webhooks_report_their_lag_and_dropped_events(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        hooks.receiver.behaviour = answering(503)
        await hooks.add("ops")
        await hooks.add("idle", event_types=())
        await hooks.add("off")
        await scheduling.execute("UPDATE tenantcron.webhook SET dropped = 4 WHERE name = 'ops'")
        await hooks.happen("one")
        await hooks.deliver()
    await scheduling.execute("UPDATE tenantcron.webhook SET disabled_at = now() WHERE name = 'off'")
    scheduling.clock.advance(seconds=70)
    scraped = await scrape(scheduling)
    assert scraped.values("webhook_lag_seconds", "webhook") == {"idle": 0, "ops": 70}
    assert scraped.values("webhook_events_dropped_total", "webhook") == {"idle": 0, "ops": 4}


async def test_executions_are_counted_by_labels_up_to_a_bound(scheduling: Scheduling) -> None:
    for number, tier in enumerate(("gold", "gold", "silver", "trial", "free")):
        await scheduling.tenant(f"t{number}", labels={"tier": tier, "region": "eu"})
        await scheduling.waiting(5 - number, tenant=f"t{number}")
    await scheduling.waiting(1, tenant="plain")

    unasked = await scrape(scheduling)
    assert "tenantcron_label_executions_pending" not in unasked.names
    asked = await scrape(scheduling, metrics_labels=("tier",), metrics_label_values=2)
    assert asked.values("label_executions_pending", "value") == {"gold": 9, "silver": 3, "other": 3}
    assert asked.values("label_executions_pending", "key").keys() == {"tier"}


async def test_the_queue_distinguishes_what_may_start_now_and_later(scheduling: Scheduling) -> None:
    await scheduling.waiting(3)
    await scheduling.waiting(2, not_before=scheduling.clock.now + timedelta(hours=1))
    scraped = await scrape(scheduling)
    assert scraped.values("executions_queued", "when") == {"now": 3, "later": 2}


async def test_schedules_are_counted_by_state(scheduling: Scheduling) -> None:
    now = scheduling.clock.now
    paused: dict[str, object] = {"paused_at": now, "paused_reason": "holidays"}
    cases: dict[str, dict[str, object]] = {
        "fine": {},
        "paused": paused,
        "over": {**paused, "paused_until": now - timedelta(seconds=1)},
        "failed": {**paused, "paused_reason": "auto:consecutive_failures"},
        "broken": {"fault": "cannot be evaluated"},
        "off": {"enabled": False},
        "once": {"next_run_at": None},
    }
    for name, columns in cases.items():
        await scheduling.schedule(name, columns=columns)
    assert (await scrape(scheduling)).values("schedules", "state") == {
        "active": 2,
        "paused": 1,
        "auto_paused": 1,
        "quarantined": 1,
        "disabled": 1,
        "ended": 1,
    }


async def test_dead_executions_of_the_last_week_are_counted_by_saga_up_to_a_bound(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "MOST_SAGAS", 2)
    for saga, number in (("invoice", 3), ("sync", 2), ("mail", 1), ("export", 1)):
        await scheduling.waiting(number, state="DEAD", saga_name=saga)
    long_ago = scheduling.clock.now - timedelta(days=8)
    await scheduling.waiting(5, state="DEAD", saga_name="old", scheduled_for=long_ago)
    scraped = await scrape(scheduling)
    assert scraped.values("executions_dead", "saga") == {"invoice": 3, "sync": 2, "other": 2}


async def test_what_is_expensive_is_read_once_a_minute(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "FRESH_SECONDS", -1.0)
    metrics = Metrics(scheduling.database, scheduling.settings, clock=scheduling.clock)
    with statements(scheduling.database) as sent:
        await metrics.scrape()
        await metrics.scrape()
    assert sum("standby_lag" in statement for statement in sent) == 1
    assert sum("tenants_at_limit" in statement for statement in sent) == 2


async def test_sessions_that_wait_for_a_lock_are_counted(
    scheduling: Scheduling, database_url: str
) -> None:
    with psycopg.connect(database_url) as held, psycopg.connect(database_url) as waiting:
        held.execute("LOCK TABLE tenantcron.webhook")
        waiting.execute("SET statement_timeout TO '20s'")
        blocked = asyncio.create_task(
            asyncio.to_thread(waiting.execute, "LOCK TABLE tenantcron.webhook")
        )
        found: float | None = 0.0
        while not found:
            found = (await scrape_without_webhooks(scheduling)).value("database_lock_waits")
        held.rollback()
        await blocked
    assert found == 1


async def scrape_without_webhooks(scheduling: Scheduling) -> Scraped:
    """Scrape only what does not read the locked table."""
    metrics = Metrics(scheduling.database, scheduling.settings, clock=scheduling.clock)
    measured = await metrics._read_history()
    families = prometheus._history_metrics(measured)
    return read(
        "".join(f"{s.name} {s.value}\n" for f in families for s in f.samples if not s.labels)
    )


async def test_connections_in_use_are_reported_with_their_limit(scheduling: Scheduling) -> None:
    async with scheduling.database.transaction() as connection:
        await connection.exec_driver_sql("SELECT 1")
        scraped = await scrape(scheduling)
    assert scraped.value("database_connections_in_use") == 1
    assert (scraped.value("database_connections_limit") or 0) >= 1


async def test_dead_executions_are_counted_with_their_index(scheduling: Scheduling) -> None:
    await add_history(scheduling, 20_000)
    async with scheduling.database.transaction() as connection:
        query = HistoryQuery(timedelta(days=7), 10_000, 10_000, 20, "auto:consecutive_failures")
        parameters = {**asdict(query), "at": scheduling.clock.now}
        text = f"EXPLAIN {statement('measure_history')}"
        plan = [row[0] for row in await connection.exec_driver_sql(text, parameters)]
    scans = [line for line in plan if "execution_past_2026_11" in line or "2026_12" in line]
    assert scans
    assert [line for line in scans if "Seq Scan" in line] == []
