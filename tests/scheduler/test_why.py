"""Why: each thing that keeps a schedule from running is the answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.core.schedule_refs import schedule_ref
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleStatus,
    UnknownError,
    read_schedule_status,
)
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.inspect.why_waiting import Reason
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport

LEASE = timedelta(seconds=60)
PAUSED: dict[str, object] = {
    "paused_at": NOON,
    "paused_by": "maria",
    "paused_reason": "partner is down",
}


async def replica(scheduling: Scheduling) -> None:
    report = WorkerReport("one", "scheduler", running=0, abandoned=0, draining=False)
    async with scheduling.database.transaction() as connection:
        await workers.report(connection, report, scheduling.clock())


async def status(scheduling: Scheduling, ref: str = "acme/nightly") -> ScheduleStatus:
    async with scheduling.database.transaction() as connection:
        return await read_schedule_status(connection, schedule_ref(ref), LEASE, scheduling.clock())


async def reasons(scheduling: Scheduling) -> list[Reason]:
    await replica(scheduling)
    return explain(await status(scheduling))


async def _nothing(scheduling: Scheduling) -> None:
    await scheduling.schedule()


async def _suspended(scheduling: Scheduling) -> None:
    await scheduling.tenant(status="suspended", status_reason="unpaid")
    await scheduling.schedule(columns=PAUSED)


async def _not_synced(scheduling: Scheduling) -> None:
    await scheduling.tenant(sync_fault="relation does not exist")
    await scheduling.schedule()


async def _not_followed(scheduling: Scheduling) -> None:
    await scheduling.tenant(schedule_revision=2, synced_revision=1)
    await scheduling.schedule()


async def _fired(scheduling: Scheduling, **definition: Any) -> None:
    await scheduling.schedule(**definition)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()


async def _running(scheduling: Scheduling) -> None:
    await _fired(scheduling)
    await scheduling.claim()


async def _overlap(scheduling: Scheduling) -> None:
    await _fired(scheduling, overlap="queue")
    await scheduling.claim()
    scheduling.clock.advance(hours=1)
    await scheduling.fire()


async def _retry(scheduling: Scheduling) -> None:
    await _fired(scheduling)
    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed, AttemptOutcome.FAILED, "ValueError: no", retry_after=LEASE)


async def _lost(scheduling: Scheduling, times: int) -> None:
    await _fired(scheduling)
    for _ in range(times):
        await scheduling.claim(scheduling.replica("lost"))
        scheduling.clock.advance(seconds=61)
        await recover_lost(scheduling.replica())
    # Its next occurrence is not due yet.
    assert scheduling.clock.now < NOON + timedelta(hours=2)


async def _cluster_limit(scheduling: Scheduling) -> None:
    await _fired(scheduling, start_within="1h")
    await scheduling.limit(0)


async def _tenant_limit(scheduling: Scheduling) -> None:
    await _fired(scheduling, start_within="1h")
    await scheduling.execute("UPDATE tenantcron.tenant SET max_concurrent = 1")
    await scheduling.waiting(priority=0)
    await scheduling.claim()


async def _kept_slots(scheduling: Scheduling) -> None:
    await scheduling.limit(4)
    await _fired(scheduling, start_within="1h")
    await scheduling.tenant("idle")
    # They are older, so they start first.
    older = scheduling.clock.now - timedelta(minutes=1)
    await scheduling.waiting(3, not_before=older, scheduled_for=older)
    await scheduling.claim()


async def _skipped(scheduling: Scheduling) -> None:
    await scheduling.limit(0)
    await _fired(scheduling)
    await scheduling.claim()


async def _missed(scheduling: Scheduling) -> None:
    await scheduling.schedule(catch_up="none")
    scheduling.clock.advance(hours=1, minutes=10)
    await scheduling.fire()


async def _dead(scheduling: Scheduling) -> None:
    await _fired(scheduling)
    (claimed,) = (await scheduling.claim()).started
    error = "ValueError: no\n  in line 3"
    await scheduling.finish(claimed, AttemptOutcome.FAILED, error, final=True)


async def _succeeded(scheduling: Scheduling) -> None:
    await _fired(scheduling)
    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed)


async def _overdue(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    scheduling.clock.advance(hours=1, minutes=6)


@dataclass(frozen=True)
class Case:
    """An event, and the code and text of the expected answer."""

    code: str
    says: str
    happen: Callable[[Scheduling], Awaitable[object]]


CASES = [
    Case("tenant-suspended", "unpaid", _suspended),
    Case("tenant-left-out", "relation does not exist", _not_synced),
    Case("not-followed", "still uses revision 1", _not_followed),
    Case("disabled", "disabled", lambda s: s.schedule(columns={"enabled": False})),
    Case("set-aside", "nonsense", lambda s: s.schedule(columns={"fault": "cron_expr: nonsense"})),
    Case("paused", "by maria: partner is down", lambda s: s.schedule(columns=PAUSED)),
    Case(
        "paused",
        "until 2026-12-02 12:00:00 UTC",
        lambda s: s.schedule(columns={**PAUSED, "paused_until": NOON + timedelta(days=1)}),
    ),
    Case(
        "auto-paused",
        "failed 10 times in a row",
        lambda s: s.schedule(
            columns={
                **PAUSED,
                "paused_reason": "auto:consecutive_failures",
                "consecutive_failures": 10,
            }
        ),
    ),
    Case("running", "on one", _running),
    Case("waits-for-its-time", "attempt 1 failed: ValueError: no", _retry),
    Case("waits-for-cluster-limit", "0 of 0 executions", _cluster_limit),
    Case("waits-for-tenant-limit", "1 of 1 are running", _tenant_limit),
    Case(
        "waits-for-kept-slots",
        "the last 1 are reserved",
        _kept_slots,
    ),
    Case("waits-as-suspect", "its turn to run beside a few", lambda s: _lost(s, 1)),
    Case("waits-as-suspect", "waits for its turn to run alone", lambda s: _lost(s, 2)),
    Case("waits-for-claim", "may start", lambda s: _fired(s, start_within="1h")),
    Case("overdue", "2026-12-01 13:00:00 UTC", _overdue),
    Case("last-skipped", "concurrency limit reached", _skipped),
    Case("last-missed", "catch_up is none", _missed),
    Case("last-dead", "ValueError: no.", _dead),
    Case("last-succeeded", "It did run", _succeeded),
    Case("next", "UTC is at 2026-12-01 13:00:00 UTC", _nothing),
    Case(
        "no-occurrence",
        "no future occurrence. It ended on Sun 2026-11-01 09:00 UTC.",
        lambda s: s.schedule(cron="@at 2026-11-01T09:00:00Z"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
async def test_the_most_important_reason_is_the_answer(scheduling: Scheduling, case: Case) -> None:
    await case.happen(scheduling)

    answer = (await reasons(scheduling))[0]

    assert answer.code == case.code
    assert case.says in answer.message
    assert answer.hint


async def test_a_second_execution_waits_for_the_running_one(scheduling: Scheduling) -> None:
    await _overlap(scheduling)
    found = {reason.code: reason for reason in await reasons(scheduling)}
    assert list(found)[:2] == ["running", "waits-for-overlap"]
    assert "RUNNING and must end first" in found["waits-for-overlap"].message


async def test_without_a_replica_no_replica_is_the_answer(scheduling: Scheduling) -> None:
    await _overdue(scheduling)
    found = [reason.code for reason in explain(await status(scheduling))]
    assert found[:2] == ["no-replica", "overdue"]


async def test_why_does_not_suggest_a_retry_for_a_disabled_schedule(
    scheduling: Scheduling,
) -> None:
    schedule = await scheduling.schedule(columns=PAUSED)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    await scheduling.set_cursor(schedule, enabled=False)

    (last,) = [reason for reason in await reasons(scheduling) if reason.code == "last-skipped"]

    assert "execution retry" not in last.hint
    assert "`tenantcron schedule trigger acme/nightly` runs it anyway" in last.hint


async def test_an_expired_pause_is_not_a_reason(scheduling: Scheduling) -> None:
    await scheduling.schedule(columns={**PAUSED, "paused_until": NOON + timedelta(minutes=1)})
    scheduling.clock.advance(minutes=1)
    assert [reason.code for reason in await reasons(scheduling)] == ["next"]


async def test_an_unknown_schedule_is_reported_with_the_closest_name(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule()
    with pytest.raises(UnknownError, match="did you mean `acme/nightly`"):
        await status(scheduling, "acme/nightly1")


async def test_an_occurrence_at_the_end_of_a_pause_is_the_next_one(scheduling: Scheduling) -> None:
    until = NOON + timedelta(hours=2)
    await scheduling.schedule(columns={**PAUSED, "paused_until": until})
    assert (await status(scheduling)).next_executions(1) == (until,)
