"""Operations on schedules and executions, on a real database with a fake clock."""

import asyncio
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from support.fleet import Fleet
from support.patience import PATIENCE
from support.replicas import until
from support.scheduling import NOON, Row, Scheduling

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.errors import UsageError
from tenantcron.core.schedule_refs import ScheduleRef, schedule_ref
from tenantcron.core.settings import Settings
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.operate.operator import Operator, Triggered
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.connection.engine import Database

CORRELATION = UUID("00000000-0000-4000-8000-000000000002")
MARIA = Attribution(Actor("maria", ActorType.HUMAN, "cli"), CORRELATION)
NIGHTLY = ScheduleRef("acme", "nightly")  # type: ignore[arg-type] # a test's own id


def operator(scheduling: Scheduling) -> Operator:
    return Operator(scheduling.database, scheduling.settings, MARIA, scheduling.clock)


async def records(scheduling: Scheduling, entity_type: str) -> list[Row]:
    found = await scheduling.rows("audit_record", "id")
    return [row for row in found if row["entity_type"] == entity_type]


async def only_execution(scheduling: Scheduling) -> Row:
    (row,) = await scheduling.rows()
    return row


async def dead(scheduling: Scheduling) -> UUID:
    """Return an execution that has used up its only attempt."""
    await scheduling.schedule(retry={"max_attempts": 1, "backoff": "1s", "max_backoff": "1s"})
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed, AttemptOutcome.FAILED, "ValueError: no")
    return claimed.id


class TestPause:
    async def test_a_pause_has_an_actor_a_reason_and_an_end_and_is_recorded(
        self, scheduling: Scheduling
    ) -> None:
        schedule = await scheduling.schedule()
        until = NOON + timedelta(days=1)

        paused = await operator(scheduling).pause(NIGHTLY, "partner is down", until)

        cursor = await scheduling.cursor(schedule)
        assert paused.cursor.paused_reason == "partner is down"
        assert (cursor["paused_at"], cursor["paused_by"], cursor["paused_until"]) == (
            NOON,
            "maria",
            until,
        )
        (record,) = await records(scheduling, "pause")
        assert (record["operation"], record["changed_by"], record["entity_id"]) == (
            "pause",
            "maria",
            "acme/nightly",
        )

    async def test_pending_executions_still_run(self, scheduling: Scheduling) -> None:
        await scheduling.schedule(start_within="1h")
        scheduling.clock.advance(hours=1)
        await scheduling.fire()

        paused = await operator(scheduling).pause(NIGHTLY, "x", None)

        assert (paused.ended, paused.pending) == (0, 1)
        assert len((await scheduling.claim()).started) == 1

    async def test_a_pause_ends_pending_executions_on_request_except_manual_ones(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(start_within="1h")
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
        await operator(scheduling).trigger(NIGHTLY, None)

        paused = await operator(scheduling).pause(NIGHTLY, "x", None, cancel_pending=True)

        assert (paused.ended, paused.pending) == (1, 1)
        assert sorted(await scheduling.states(), key=str) == [
            ("PENDING", None),
            ("SKIPPED", "paused: x"),
        ]

    async def test_a_second_pause_replaces_reason_and_end(self, scheduling: Scheduling) -> None:
        schedule = await scheduling.schedule()
        await operator(scheduling).pause(NIGHTLY, "first", NOON + timedelta(days=1))
        scheduling.clock.advance(minutes=1)

        await operator(scheduling).pause(NIGHTLY, "second", None)

        cursor = await scheduling.cursor(schedule)
        assert (cursor["paused_at"], cursor["paused_reason"], cursor["paused_until"]) == (
            NOON,
            "second",
            None,
        )
        assert len(await records(scheduling, "pause")) == 2

    @pytest.mark.parametrize("ahead", [timedelta(0), timedelta(seconds=-1)])
    async def test_an_end_in_the_past_is_a_usage_error(
        self, scheduling: Scheduling, ahead: timedelta
    ) -> None:
        schedule = await scheduling.schedule()
        with pytest.raises(UsageError, match="is in the past"):
            await operator(scheduling).pause(NIGHTLY, "x", NOON + ahead)
        assert (await scheduling.cursor(schedule))["paused_at"] is None


class TestResume:
    async def test_resume_never_fires_occurrences_of_the_pause(
        self, scheduling: Scheduling
    ) -> None:
        schedule = await scheduling.schedule(catch_up="all", catch_up_window="24h")
        await operator(scheduling).pause(NIGHTLY, "x", None)
        scheduling.clock.advance(hours=3, minutes=30)

        resumed = await operator(scheduling).resume(NIGHTLY, None)
        await scheduling.fire()

        cursor = await scheduling.cursor(schedule)
        assert resumed.skipped_occurrences == 3
        assert cursor["paused_at"] is None
        assert cursor["last_run_at"] == NOON + timedelta(hours=3)
        assert cursor["next_run_at"] == NOON + timedelta(hours=4)
        row = await only_execution(scheduling)
        assert (row["state"], row["reason"], row["missed_count"], row["covers_from"]) == (
            "SKIPPED",
            "paused: x",
            2,
            NOON + timedelta(hours=1),
        )

    async def test_occurrences_after_the_end_of_a_pause_are_still_fired(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(catch_up="all", catch_up_window="24h")
        await operator(scheduling).pause(NIGHTLY, "x", NOON + timedelta(hours=2))
        scheduling.clock.advance(hours=3, minutes=30)

        resumed = await operator(scheduling).resume(NIGHTLY, None)
        await scheduling.fire()

        assert resumed.skipped_occurrences == 1
        assert await scheduling.states() == [
            ("SKIPPED", "paused: x"),
            ("PENDING", None),
            ("PENDING", None),
        ]

    async def test_resume_resets_the_failures_and_is_recorded_with_its_reason(
        self, scheduling: Scheduling
    ) -> None:
        schedule = await scheduling.schedule(columns={"consecutive_failures": 9})
        await operator(scheduling).pause(NIGHTLY, "x", None)

        await operator(scheduling).resume(NIGHTLY, "fixed")

        assert (await scheduling.cursor(schedule))["consecutive_failures"] == 0
        _, resume, reason = await records(scheduling, "pause")
        assert (resume["operation"], resume["changed_by"]) == ("resume", "maria")
        assert (reason["after"], reason["correlation_id"]) == ({"reason": "fixed"}, CORRELATION)

    async def test_a_schedule_that_is_not_paused_cannot_be_resumed(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        with pytest.raises(OperationError, match="is not paused"):
            await operator(scheduling).resume(NIGHTLY, None)

    async def test_a_schedule_with_an_unreadable_definition_can_be_resumed(
        self, scheduling: Scheduling
    ) -> None:
        schedule = await scheduling.schedule(overlap="nonsense")
        await operator(scheduling).pause(NIGHTLY, "x", None)
        scheduling.clock.advance(hours=2)

        resumed = await operator(scheduling).resume(NIGHTLY, None)

        assert resumed.skipped_occurrences == 0
        assert (await scheduling.cursor(schedule))["paused_at"] is None


class TestTrigger:
    async def test_a_trigger_creates_an_execution_of_the_caller(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(priority="critical", overlap="queue")

        made = await operator(scheduling).trigger(NIGHTLY, "rerun")

        row = await only_execution(scheduling)
        assert (row["id"], row["scheduled_for"], row["not_before"]) == (made.id, NOON, NOON)
        assert (row["state"], row["start_deadline"]) == ("PENDING", None)
        assert (row["actor_id"], row["actor_type"], row["actor_source"]) == (
            "maria",
            "human",
            "manual",
        )
        assert (row["priority"], row["overlap"], row["attempts_allowed"]) == (0, "queue", 3)
        (record,) = await records(scheduling, "execution")
        assert (record["operation"], record["entity_id"], record["changed_by"]) == (
            "trigger",
            str(made.id),
            "maria",
        )
        assert record["after"] == {"schedule": "acme/nightly", "reason": "rerun"}

    @pytest.mark.parametrize(
        "columns",
        [
            {"enabled": False, "next_run_at": None},
            {"paused_at": NOON, "paused_by": "x", "paused_reason": "x"},
        ],
        ids=["disabled", "paused"],
    )
    async def test_a_paused_or_disabled_schedule_can_be_triggered(
        self, scheduling: Scheduling, columns: dict[str, object]
    ) -> None:
        await scheduling.schedule(columns=columns)
        await operator(scheduling).trigger(NIGHTLY, None)
        assert len((await scheduling.claim()).started) == 1

    async def test_a_trigger_waits_for_a_slot_and_for_the_previous_execution(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        await scheduling.limit(0)
        await operator(scheduling).trigger(NIGHTLY, None)
        assert (await scheduling.claim()).started == ()
        await scheduling.limit(10)
        (first,) = (await scheduling.claim()).started
        await operator(scheduling).trigger(NIGHTLY, None)
        assert (await scheduling.claim()).started == ()
        assert sorted(await scheduling.states(), key=str) == [("PENDING", None), ("RUNNING", None)]
        await scheduling.finish(first)
        assert len((await scheduling.claim()).started) == 1

    async def test_triggers_do_not_replace_each_other(self, scheduling: Scheduling) -> None:
        await scheduling.schedule(overlap="cancel_running")
        made = [await operator(scheduling).trigger(NIGHTLY, None) for _ in range(2)]

        ran = []
        while started := await scheduling.claim_all():
            (execution,) = started
            ran.append(execution.id)
            await scheduling.finish(execution)

        assert sorted(ran) == sorted(trigger.id for trigger in made)

    @pytest.mark.parametrize("status", ["suspended", "deprovisioned"])
    async def test_a_schedule_of_an_inactive_tenant_cannot_be_triggered(
        self, scheduling: Scheduling, status: str
    ) -> None:
        await scheduling.tenant(status=status, status_reason="unpaid")
        await scheduling.schedule()
        with pytest.raises(OperationError, match=r"unpaid.*tenant resume acme"):
            await operator(scheduling).trigger(NIGHTLY, None)
        assert await scheduling.rows() == []

    async def test_a_trigger_creates_the_history_partition_it_needs(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        scheduling.clock.advance(days=400)
        await operator(scheduling).trigger(NIGHTLY, None)
        assert (await only_execution(scheduling))["state"] == "PENDING"

    async def test_two_triggers_at_the_same_time_create_two_executions(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        for _ in range(2):
            await operator(scheduling).trigger(NIGHTLY, None)
        assert len(await scheduling.rows()) == 2

    async def test_a_schedule_with_an_unreadable_definition_cannot_be_triggered(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(overlap="nonsense")
        with pytest.raises(OperationError, match="apply its manifest again"):
            await operator(scheduling).trigger(NIGHTLY, None)


class TestRetry:
    async def test_a_retried_dead_execution_gets_its_full_number_of_attempts(
        self, scheduling: Scheduling
    ) -> None:
        execution = await dead(scheduling)
        scheduling.clock.advance(minutes=5)

        row = await operator(scheduling).retry(str(execution)[:8])

        assert (row.state, row.reason, row.finished_at) == ("PENDING", None, None)
        assert (row.attempt, row.attempts_allowed, row.start_deadline) == (1, 2, None)
        assert row.not_before == scheduling.clock.now
        (again,) = (await scheduling.claim()).started
        assert (again.id, again.attempt) == (execution, 2)
        await scheduling.finish(again)
        assert await scheduling.states() == [("SUCCEEDED", None)]
        (record,) = await records(scheduling, "execution")
        assert (record["operation"], record["before"]) == (
            "retry",
            {
                "schedule": "acme/nightly",
                "state": "DEAD",
                "reason": "ValueError: no",
                "attempt": 1,
            },
        )

    async def test_a_retried_skipped_execution_waits_for_the_running_one(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
        (running,) = (await scheduling.claim()).started
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
        (skipped,) = (await scheduling.claim()).skipped

        await operator(scheduling).retry(str(skipped.id))
        assert (await scheduling.claim()).skipped == ()
        await scheduling.finish(running)

        assert [execution.id for execution in (await scheduling.claim()).started] == [skipped.id]

    async def test_a_retry_of_an_unstarted_execution_replaces_no_other(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule(overlap="cancel_running")
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
        skipped = await operator(scheduling).cancel(
            str((await only_execution(scheduling))["id"]), None
        )
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
        (running,) = await scheduling.claim_all()

        await operator(scheduling).retry(str(skipped.id))

        assert await scheduling.claim_all() == []
        assert await scheduling.count(state="RUNNING", cancel_requested_at=None) == 1
        await scheduling.finish(running)
        assert [execution.id for execution in await scheduling.claim_all()] == [skipped.id]

    async def test_a_retried_cancelled_execution_is_not_cancelled_again(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        made = await operator(scheduling).trigger(NIGHTLY, None)
        await operator(scheduling).cancel(str(made.id), "x")

        row = await operator(scheduling).retry(str(made.id))

        assert (row.state, row.cancel_requested_at, row.cancel_reason) == ("PENDING", None, None)

    @pytest.mark.parametrize(
        ("state", "hint"),
        [
            ("SUCCEEDED", "schedule trigger acme/work"),
            ("PENDING", "it is already queued"),
            ("RETRYING", "retried by itself"),
        ],
    )
    async def test_an_execution_that_succeeded_or_has_not_ended_cannot_be_retried(
        self, scheduling: Scheduling, state: str, hint: str
    ) -> None:
        await scheduling.waiting(state=state)
        row = await only_execution(scheduling)
        with pytest.raises(OperationError, match=hint):
            await operator(scheduling).retry(str(row["id"]))
        assert await only_execution(scheduling) == row

    async def test_a_running_execution_cannot_be_retried(self, scheduling: Scheduling) -> None:
        await scheduling.waiting()
        (running,) = (await scheduling.claim()).started
        with pytest.raises(OperationError, match="cancel it first"):
            await operator(scheduling).retry(str(running.id))

    async def test_an_execution_of_an_inactive_tenant_or_deleted_schedule_cannot_be_retried(
        self, scheduling: Scheduling
    ) -> None:
        execution = await dead(scheduling)
        await scheduling.execute("UPDATE tenantcron.tenant SET status = 'suspended'")
        with pytest.raises(OperationError, match="tenant resume"):
            await operator(scheduling).retry(str(execution))
        await scheduling.execute("UPDATE tenantcron.tenant SET status = 'active'")
        await scheduling.execute("DELETE FROM tenantcron.schedule_cursor")
        with pytest.raises(OperationError, match="has been deleted"):
            await operator(scheduling).retry(str(execution))

    async def test_an_execution_of_a_disabled_schedule_cannot_be_retried(
        self, scheduling: Scheduling
    ) -> None:
        execution = await dead(scheduling)
        await scheduling.execute("UPDATE tenantcron.schedule_cursor SET enabled = false")

        with pytest.raises(OperationError, match="schedule trigger acme/nightly"):
            await operator(scheduling).retry(str(execution))

        assert await scheduling.count(state="DEAD") == 1

    async def test_an_execution_of_a_paused_schedule_can_be_retried(
        self, scheduling: Scheduling
    ) -> None:
        execution = await dead(scheduling)
        await operator(scheduling).pause(NIGHTLY, "x", None)

        await operator(scheduling).retry(str(execution))

        (started,) = (await scheduling.claim()).started
        assert started.id == execution


class TestCancel:
    @pytest.mark.parametrize("state", ["PENDING", "RETRYING"])
    async def test_a_pending_execution_is_cancelled_at_once(
        self, scheduling: Scheduling, state: str
    ) -> None:
        await scheduling.waiting(state=state)
        row = await only_execution(scheduling)

        cancelled = await operator(scheduling).cancel(str(row["id"]), "wrong month")

        assert (cancelled.state, cancelled.reason) == ("CANCELLED", "wrong month")
        assert cancelled.finished_at == NOON
        (record,) = await records(scheduling, "execution")
        assert (record["operation"], record["after"]) == ("cancel", {"reason": "wrong month"})

    async def test_a_running_execution_is_asked_to_stop_and_keeps_its_lease(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.waiting()
        (running,) = (await scheduling.claim()).started

        row = await operator(scheduling).cancel(str(running.id), None)

        assert (row.state, row.finished_at) == ("RUNNING", None)
        assert (await only_execution(scheduling))["lease_token"] == running.lease_token
        assert (row.cancel_requested_at, row.cancel_reason) == (NOON, "cancelled by maria")
        with pytest.raises(OperationError, match="already asked to stop"):
            await operator(scheduling).cancel(str(running.id), None)

    @pytest.mark.parametrize("state", ["SUCCEEDED", "DEAD", "SKIPPED", "MISSED", "CANCELLED"])
    async def test_an_ended_execution_cannot_be_cancelled(
        self, scheduling: Scheduling, state: str
    ) -> None:
        await scheduling.waiting(state=state)
        row = await only_execution(scheduling)
        with pytest.raises(OperationError, match="has ended"):
            await operator(scheduling).cancel(str(row["id"]), None)


async def test_operations_notify_schedulers(scheduling: Scheduling, database_url: str) -> None:
    await scheduling.schedule()
    acting = operator(scheduling)
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute("LISTEN tenantcron_work")
        made = await acting.trigger(NIGHTLY, None)
        await acting.cancel(str(made.id), None)
        await acting.retry(str(made.id))
        await acting.set_limits({"operator": 3}, None)
        payloads = [
            notification.payload
            for notification in listener.notifies(timeout=PATIENCE, stop_after=4)
        ]
    assert payloads == ["trigger", "cancel", "retry", "limits"]


async def test_an_operation_waits_for_a_scheduler_that_syncs_the_tenant(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    fleet = Fleet(database, tmp_path)
    fleet.write("acme", {"nightly": 'cron: "0 2 * * *"'})
    await fleet.apply()
    acting = Operator(database, Settings(folder=tmp_path), MARIA)
    with psycopg.connect(database_url) as scheduler:
        scheduler.execute("SELECT FROM tenantcron.tenant FOR NO KEY UPDATE")
        triggering = asyncio.create_task(acting.trigger(NIGHTLY, None))
        await until(lambda: _waits_or_is_done(database, triggering))

    assert (await triggering).cursor.schedule_name == "nightly"


async def _waits_or_is_done(database: Database, task: asyncio.Task[Triggered]) -> bool:
    async with database.transaction() as connection:
        waiting = await connection.exec_driver_sql(
            "SELECT FROM pg_catalog.pg_locks WHERE NOT granted"
        )
        return task.done() or waiting.first() is not None


class TestNames:
    async def test_an_unknown_name_is_reported_with_the_closest_one(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedule()
        with pytest.raises(UnknownError, match="did you mean `acme`"):
            await operator(scheduling).pause(schedule_ref("acne/nightly"), "x", None)
        with pytest.raises(UnknownError, match="did you mean `acme/nightly`"):
            await operator(scheduling).pause(schedule_ref("acme/nighly"), "x", None)
        with pytest.raises(UnknownError, match="schedule list acme"):
            await operator(scheduling).trigger(schedule_ref("acme/other"), None)

    async def test_a_prefix_must_identify_one_execution(self, scheduling: Scheduling) -> None:
        ids = [UUID(f"0123456789ab4000800000000000000{n}") for n in range(5)]
        for execution_id in ids:
            await scheduling.waiting(id=execution_id)
        with pytest.raises(UnknownError, match=r"ids begin with 01234567.*and others"):
            await operator(scheduling).cancel("01234567", None)
        with pytest.raises(UnknownError, match="no execution id begins"):
            await operator(scheduling).cancel("fffffffff", None)
        row = await operator(scheduling).cancel(str(ids[3]).upper(), None)
        assert row.id == ids[3]

    @pytest.mark.parametrize("text", ["0123456", "nothex00", "", "0" * 33, "%", "'; drop"])
    async def test_an_invalid_execution_id_is_a_usage_error(
        self, scheduling: Scheduling, text: str
    ) -> None:
        with pytest.raises(UsageError, match="is not an execution id"):
            await operator(scheduling).cancel(text, None)

    @pytest.mark.parametrize(
        "text", ["acme", "acme/", "/x", "Acme/x", "acme/X", "acme/a/b", "a b/c"]
    )
    def test_an_invalid_schedule_reference_is_a_usage_error(self, text: str) -> None:
        with pytest.raises(UsageError):
            schedule_ref(text)
