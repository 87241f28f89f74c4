"""Each finding of `health`, from the state of the database."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.inspect.cluster_status import ClusterStatus, read_cluster_status
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.scheduler.inspect.health import examine
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport

LEASE = timedelta(seconds=60)
PAUSED = {"paused_at": NOON, "paused_by": "system:scheduler:scheduler"}


async def cluster_status(scheduling: Scheduling) -> ClusterStatus:
    async with scheduling.database.transaction() as connection:
        return await read_cluster_status(connection, LEASE, scheduling.clock())


async def findings(scheduling: Scheduling) -> dict[str, Finding]:
    return {finding.code: finding for finding in examine(await cluster_status(scheduling))}


async def replica(scheduling: Scheduling, abandoned: int = 0) -> None:
    report = WorkerReport("one", "scheduler", running=0, abandoned=abandoned, draining=False)
    async with scheduling.database.transaction() as connection:
        await workers.report(connection, report, scheduling.clock())


async def test_an_empty_database_is_healthy_without_a_replica(scheduling: Scheduling) -> None:
    assert await findings(scheduling) == {}


async def test_schedules_with_a_replica_are_healthy(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    await replica(scheduling)
    assert await findings(scheduling) == {}


async def test_a_replica_counts_as_live_for_two_leases(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    await replica(scheduling)
    scheduling.clock.advance(seconds=120)
    assert "no-replica" not in await findings(scheduling)
    scheduling.clock.advance(seconds=1)
    found = await findings(scheduling)
    assert found["no-replica"].severity is FindingSeverity.ERROR
    assert "tenantcron run" in found["no-replica"].hint


async def test_an_occurrence_may_be_late_for_five_minutes(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    scheduling.clock.advance(hours=1, minutes=5)
    assert "schedule-overdue" not in await findings(scheduling)
    scheduling.clock.advance(seconds=1)
    late = (await findings(scheduling))["schedule-overdue"]
    assert (late.severity, late.subjects) == (FindingSeverity.WARNING, ("acme/nightly",))
    scheduling.clock.advance(hours=2)
    assert (await findings(scheduling))["schedule-overdue"].severity is FindingSeverity.ERROR


async def test_a_finding_counts_all_subjects_and_names_only_some(scheduling: Scheduling) -> None:
    await scheduling.schedules(25)
    scheduling.clock.advance(hours=2)
    late = (await findings(scheduling))["schedule-overdue"]
    assert (late.count, len(late.subjects)) == (25, 10)


@dataclass(frozen=True)
class Trouble:
    """A problem, and the expected finding."""

    code: str
    severity: FindingSeverity
    subject: str
    happen: Callable[[Scheduling], Awaitable[object]]


async def _not_synced(scheduling: Scheduling) -> None:
    await scheduling.tenant("beta", sync_fault="relation does not exist")


async def _not_followed(scheduling: Scheduling) -> None:
    await scheduling.tenant("beta", schedule_revision=2, synced_revision=1)
    scheduling.clock.advance(minutes=2, seconds=1)


async def _dead_lease(scheduling: Scheduling) -> None:
    await scheduling.waiting(id="00000000-0000-4000-8000-000000000001")
    await scheduling.claim()
    scheduling.clock.advance(seconds=121)


async def _no_month(scheduling: Scheduling) -> None:
    await replica(scheduling)
    await scheduling.execute("DROP TABLE tenantcron.execution_attempt_2026_12")


async def _no_next_month(scheduling: Scheduling) -> None:
    await replica(scheduling)
    await scheduling.execute("DROP TABLE tenantcron.execution_past_2027_01")


async def _always_skipped(scheduling: Scheduling) -> None:
    for ago in range(5):
        at = scheduling.clock.now - timedelta(hours=ago + 1)
        await scheduling.waiting(1, state="SKIPPED", reason_code="tenant_limit", scheduled_for=at)


async def _long_wait(scheduling: Scheduling) -> None:
    await scheduling.waiting(2)
    scheduling.clock.advance(minutes=5, seconds=1)


WEBHOOK = (
    "INSERT INTO tenantcron.webhook (name, url, event_types, created_by, created_at"
    ", disabled_at, disabled_reason, dropped, dropped_at)"
    " VALUES ('ops', 'https://ops.internal', '{}', 'maria', :now, :disabled_at, :reason"
    ", :dropped, :dropped_at)"
)


async def webhook(scheduling: Scheduling, **columns: object) -> None:
    values = {"disabled_at": None, "reason": None, "dropped": 0, "dropped_at": None, **columns}
    await scheduling.execute(WEBHOOK, now=scheduling.clock.now, **values)


async def _webhook_behind(scheduling: Scheduling) -> None:
    await webhook(scheduling)
    await scheduling.execute(
        "INSERT INTO tenantcron.webhook_lane (webhook_name, tenant_id, last_placed, due_at)"
        " VALUES ('ops', 'acme', 7, :now)",
        now=scheduling.clock.now,
    )
    await scheduling.execute(
        "INSERT INTO tenantcron.webhook_event VALUES"
        " ('ops', 'acme', 7, gen_random_uuid(), 't', 's', :now, '{}', :now)",
        now=scheduling.clock.now,
    )
    scheduling.clock.advance(minutes=15)
    assert "webhook-behind" not in await findings(scheduling)
    scheduling.clock.advance(seconds=1)


BUS = (
    "INSERT INTO tenantcron.event_bus (name, declared_at, seen_at, last_published, due_at"
    ", dropped, dropped_at) VALUES ('nats/EVENTS', :now, :now, 3, :now, :dropped, :dropped_at)"
)


async def bus(scheduling: Scheduling, **columns: object) -> None:
    values = {"dropped": 0, "dropped_at": None, **columns}
    await scheduling.execute(BUS, now=scheduling.clock.now, **values)


async def _bus_behind(scheduling: Scheduling) -> None:
    await bus(scheduling)
    await scheduling.execute(
        "INSERT INTO tenantcron.bus_event VALUES"
        " (7, 'acme', gen_random_uuid(), 't', 's', :now, '{}', :now)",
        now=scheduling.clock.now,
    )
    scheduling.clock.advance(minutes=15)
    assert "event-bus-behind" not in await findings(scheduling)
    scheduling.clock.advance(seconds=1)


TROUBLES = [
    Trouble("event-bus-behind", FindingSeverity.WARNING, "nats/EVENTS", _bus_behind),
    Trouble(
        "event-bus-events-dropped",
        FindingSeverity.ERROR,
        "nats/EVENTS",
        lambda s: bus(s, dropped=3, dropped_at=s.clock.now),
    ),
    Trouble("webhook-behind", FindingSeverity.WARNING, "ops", _webhook_behind),
    Trouble(
        "webhook-events-dropped",
        FindingSeverity.ERROR,
        "ops",
        lambda s: webhook(s, dropped=3, dropped_at=s.clock.now),
    ),
    Trouble(
        "webhook-gone",
        FindingSeverity.WARNING,
        "ops",
        lambda s: webhook(s, disabled_at=s.clock.now, reason="the receiver answered 410 Gone"),
    ),
    Trouble(
        "cursor-set-aside",
        FindingSeverity.ERROR,
        "acme/nightly",
        lambda s: s.schedule(columns={"fault": "cron_expr: nonsense"}),
    ),
    Trouble("tenant-left-out", FindingSeverity.ERROR, "beta", _not_synced),
    Trouble("tenant-not-followed", FindingSeverity.WARNING, "beta", _not_followed),
    Trouble(
        "lease-expired", FindingSeverity.ERROR, "00000000-0000-4000-8000-000000000001", _dead_lease
    ),
    Trouble(
        "handlers-abandoned", FindingSeverity.WARNING, "one", lambda s: replica(s, abandoned=2)
    ),
    Trouble(
        "schedule-auto-paused",
        FindingSeverity.WARNING,
        "acme/nightly",
        lambda s: s.schedule(columns={**PAUSED, "paused_reason": "auto:consecutive_failures"}),
    ),
    Trouble("schedule-always-skipped", FindingSeverity.WARNING, "acme/work", _always_skipped),
    Trouble("history-missing", FindingSeverity.ERROR, "2026-12", _no_month),
    Trouble("history-missing", FindingSeverity.WARNING, "2027-01", _no_next_month),
    Trouble("long-wait", FindingSeverity.WARNING, "", _long_wait),
    Trouble("limit-zero", FindingSeverity.WARNING, "--max-concurrent", lambda s: s.limit(0)),
]


@pytest.mark.parametrize(
    "trouble", TROUBLES, ids=lambda trouble: f"{trouble.code} {trouble.severity}"
)
async def test_each_problem_is_a_finding_with_a_hint(
    scheduling: Scheduling, trouble: Trouble
) -> None:
    await trouble.happen(scheduling)

    found = (await findings(scheduling))[trouble.code]

    assert found.severity is trouble.severity
    assert trouble.subject in ("", *found.subjects)
    assert found.hint


async def test_a_manual_pause_and_a_short_wait_give_no_finding(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(columns={**PAUSED, "paused_reason": "partner is down"})
    await scheduling.tenant("beta", schedule_revision=2, synced_revision=1)
    await scheduling.waiting()
    scheduling.clock.advance(minutes=2)
    await replica(scheduling)

    assert await findings(scheduling) == {}
    read = await cluster_status(scheduling)
    assert (read.queue.number, read.lag) == (1, timedelta(minutes=2))


async def test_a_webhook_disabled_by_an_operator_gives_no_finding(
    scheduling: Scheduling,
) -> None:
    await _webhook_behind(scheduling)
    await scheduling.execute("UPDATE tenantcron.webhook SET disabled_at = now()")
    long_ago = scheduling.clock.now - timedelta(days=2)
    await scheduling.execute("UPDATE tenantcron.webhook SET dropped_at = :at", at=long_ago)
    assert await findings(scheduling) == {}


async def test_errors_come_first(scheduling: Scheduling) -> None:
    await scheduling.limit(0)
    await scheduling.schedule(columns={"fault": "x"})
    found = [finding.severity for finding in examine(await cluster_status(scheduling))]
    assert found == sorted(found, key=[FindingSeverity.ERROR, FindingSeverity.WARNING].index)
    assert set(found) == {FindingSeverity.ERROR, FindingSeverity.WARNING}


@pytest.mark.parametrize(("state", "reason"), [("SUCCEEDED", None), ("SKIPPED", "paused")])
async def test_a_schedule_that_is_skipped_sometimes_or_paused_is_no_finding(
    scheduling: Scheduling, state: str, reason: str | None
) -> None:
    await _always_skipped(scheduling)
    await scheduling.waiting(1, state=state, reason_code=reason)

    assert "schedule-always-skipped" not in await findings(scheduling)
