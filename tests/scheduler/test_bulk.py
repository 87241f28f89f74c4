"""Bulk operations in batches, on a real database with a fake clock."""

import re
from collections import Counter
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from support.explaining import explained
from support.history import add_history
from support.many_executions import add_executions
from support.scheduling import NOON, Row, Scheduling

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.names import TenantId
from tenantcron.scheduler.operate import bulk
from tenantcron.scheduler.operate.bulk import ExecutionBatch, ScheduleBatch
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.service.bulk import executions_page, preview_executions, schedules_page
from tenantcron.store.rows import bulk_executions, bulk_schedules
from tenantcron.store.rows.bulk_schedules import PauseFilter
from tenantcron.store.rows.execution_history import ExecutionFilter, HistoryPosition
from tenantcron.store.rows.executions import State

MARIA = Attribution(Actor("maria", ActorType.HUMAN, "cli"), UUID(int=2))
ACME = TenantId("acme")
DEAD = ExecutionFilter(states=(State.DEAD,))
PENDING = ExecutionFilter(states=(State.PENDING,))


def operator(scheduling: Scheduling) -> Operator:
    return Operator(scheduling.database, scheduling.settings, MARIA, scheduling.clock)


async def retry(
    scheduling: Scheduling, filters: ExecutionFilter = DEAD, after: str | None = None
) -> tuple[ExecutionBatch, str | None]:
    page = await executions_page(scheduling.database, filters, after)
    return await bulk.retry_executions(operator(scheduling), page.rows, filters), page.next


async def cancel(scheduling: Scheduling, filters: ExecutionFilter = PENDING) -> ExecutionBatch:
    page = await executions_page(scheduling.database, filters, None)
    return await bulk.cancel_executions(operator(scheduling), page.rows, filters, "wrong month")


async def pause(scheduling: Scheduling, filters: PauseFilter) -> ScheduleBatch:
    page = await schedules_page(scheduling.database, filters, None, scheduling.clock.now)
    return await bulk.pause_schedules(
        operator(scheduling), page.rows, filters, reason="migration", until=None,
        cancel_pending=True,
    )  # fmt: skip


async def resume(scheduling: Scheduling, filters: PauseFilter) -> ScheduleBatch:
    page = await schedules_page(scheduling.database, filters, None, scheduling.clock.now)
    return await bulk.resume_schedules(operator(scheduling), page.rows, filters, "done")


async def records(scheduling: Scheduling, operation: str) -> list[Row]:
    found = await scheduling.rows("audit_record", "id")
    return [row for row in found if row["operation"] == operation]


async def states(scheduling: Scheduling) -> Counter[str]:
    return Counter(str(row["state"]) for row in await scheduling.rows())


class TestRetry:
    async def test_batches_retry_every_match_once_and_record_each_row(
        self, scheduling: Scheduling, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tenantcron.service.bulk.EXECUTIONS_A_BATCH", 4)
        await scheduling.schedule(retry={"max_attempts": 5, "backoff": "1s", "max_backoff": "1s"})
        add_executions(database_url, 9, at=NOON)
        add_executions(database_url, 2, state="SKIPPED", at=NOON)

        sizes, after = list[int](), None
        while not sizes or after:
            batch, after = await retry(scheduling, after=after)
            sizes.append(batch.changed)

        assert sizes == [4, 4, 1]
        assert await states(scheduling) == {"PENDING": 9, "SKIPPED": 2}
        retried = [row for row in await scheduling.rows() if row["state"] == "PENDING"]
        assert {row["attempts_allowed"] for row in retried} == {6}
        audited = await records(scheduling, "retry")
        assert sorted(row["entity_id"] for row in audited) == sorted(
            str(row["id"]) for row in retried
        )
        assert {(row["changed_by"], row["before"]["state"]) for row in audited} == {
            ("maria", "DEAD")
        }

    async def test_an_interrupted_run_is_finished_by_the_same_call(
        self, scheduling: Scheduling, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tenantcron.service.bulk.EXECUTIONS_A_BATCH", 4)
        await scheduling.schedule()
        add_executions(database_url, 6, at=NOON)
        await retry(scheduling)

        batch, after = await retry(scheduling)

        assert (batch.changed, after) == (2, None)
        assert await states(scheduling) == {"PENDING": 6}

    async def test_an_execution_that_fails_again_meanwhile_is_not_retried_twice_in_a_run(
        self, scheduling: Scheduling, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tenantcron.service.bulk.EXECUTIONS_A_BATCH", 3)
        await scheduling.schedule()
        add_executions(database_url, 4, at=NOON)
        _, after = await retry(scheduling)
        await scheduling.execute(
            "UPDATE tenantcron.execution SET state = 'DEAD' WHERE state = 'PENDING'"
        )

        batch, after = await retry(scheduling, after=after)

        assert (batch.changed, after) == (1, None)

    async def test_refused_executions_have_their_reason_and_do_not_stop_the_others(
        self, scheduling: Scheduling, database_url: str
    ) -> None:
        await scheduling.schedule()
        await scheduling.schedule("gone")
        await scheduling.tenant("beta", status="suspended", status_reason="unpaid")
        await scheduling.schedule(tenant="beta")
        for tenant, schedule in (("acme", "nightly"), ("acme", "gone"), ("beta", "nightly")):
            add_executions(database_url, 1, tenant=tenant, schedule=schedule, at=NOON)
        await scheduling.execute(
            "DELETE FROM tenantcron.schedule_cursor WHERE schedule_name = 'gone'"
        )

        batch, _ = await retry(scheduling)

        assert batch.changed == 1
        reasons = {refused.row.schedule_name + refused.row.tenant_id: refused.detail
                   for refused in batch.refused}  # fmt: skip
        assert "has been deleted" in reasons["goneacme"]
        assert "is suspended (unpaid)" in reasons["nightlybeta"]
        assert len(await records(scheduling, "retry")) == 1

    async def test_executions_of_a_deleted_tenant_are_refused_alone(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.task("gone")
        await scheduling.task()
        await scheduling.execute("UPDATE tenantcron.execution SET state = 'DEAD'")
        await scheduling.execute("DELETE FROM tenantcron.tenant WHERE id = 'gone'")

        batch, _ = await retry(scheduling)

        assert batch.changed == 1
        (refused,) = batch.refused
        assert "the row of tenant `gone` was deleted" in refused.detail
        with pytest.raises(OperationError, match="the row of tenant `gone` was deleted"):
            await operator(scheduling).retry(str(refused.row.id))

    async def test_executions_that_are_locked_are_skipped_instead_of_waited_for(
        self, scheduling: Scheduling, database_url: str
    ) -> None:
        await scheduling.schedule()
        add_executions(database_url, 3, at=NOON)
        with psycopg.connect(database_url) as other:
            other.execute("SELECT 1 FROM tenantcron.execution LIMIT 1 FOR UPDATE")
            batch, _ = await retry(scheduling)

        assert (batch.changed, batch.skipped) == (2, 1)

    async def test_an_execution_whose_state_changed_since_the_page_is_skipped(
        self, scheduling: Scheduling, database_url: str
    ) -> None:
        await scheduling.schedule()
        add_executions(database_url, 2, at=NOON)
        page = await executions_page(scheduling.database, DEAD, None)
        await scheduling.execute(
            "UPDATE tenantcron.execution SET state = 'CANCELLED' WHERE id = :id",
            id=page.rows[0].id,
        )

        batch = await bulk.retry_executions(operator(scheduling), page.rows, DEAD)

        assert (batch.changed, batch.skipped, batch.refused) == (1, 1, [])
        assert await states(scheduling) == {"CANCELLED": 1, "PENDING": 1}

    async def test_filters_select_tenant_saga_and_time(
        self, scheduling: Scheduling, database_url: str
    ) -> None:
        for tenant in ("acme", "beta"):
            for schedule in ("nightly", "weekly"):
                await scheduling.schedule(schedule, tenant=tenant)
                add_executions(database_url, 4, tenant=tenant, schedule=schedule, at=NOON)
        since = NOON - timedelta(seconds=2)
        filters = ExecutionFilter(ACME, states=(State.DEAD,), since=since, saga="weekly")

        batch, _ = await retry(scheduling, filters)

        assert batch.changed == 2
        changed = [row for row in await scheduling.rows() if row["state"] == "PENDING"]
        assert {(row["tenant_id"], row["saga_name"]) for row in changed} == {("acme", "weekly")}

    async def test_a_dry_run_counts_by_tenant_and_saga_and_changes_nothing(
        self, scheduling: Scheduling, database_url: str
    ) -> None:
        for tenant, count in (("acme", 12), ("beta", 3)):
            await scheduling.schedule(tenant=tenant)
            add_executions(database_url, count, tenant=tenant, at=NOON)

        preview = (await preview_executions(scheduling.database, DEAD))["preview"]

        assert preview is not None
        assert (preview["matched"], preview["complete"]) == (15, True)
        assert preview["groups"] == [
            {"tenant": "acme", "saga": "nightly", "number": 12},
            {"tenant": "beta", "saga": "nightly", "number": 3},
        ]
        assert len(preview["executions"]) == 10
        assert await states(scheduling) == {"DEAD": 15}


class TestCancel:
    async def test_pending_ones_end_and_running_ones_are_asked_to_stop(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.waiting(3)
        await scheduling.limit(1)
        await scheduling.claim_all()

        live = ExecutionFilter(ACME, states=(State.PENDING, State.RUNNING))
        first, second = await cancel(scheduling, live), await cancel(scheduling, live)

        assert (first.changed, second.changed) == (3, 0)
        assert "was already asked to stop" in second.refused[0].detail
        assert await states(scheduling) == {"CANCELLED": 2, "RUNNING": 1}
        audited = await records(scheduling, "cancel")
        assert len(audited) == 3
        assert {row["after"]["reason"] for row in audited} == {"wrong month"}

    async def test_it_does_not_touch_an_execution_that_a_claim_has_started(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.waiting(1)
        page = await executions_page(scheduling.database, PENDING, None)
        await scheduling.claim()

        batch = await bulk.cancel_executions(operator(scheduling), page.rows, PENDING, None)

        assert (batch.changed, batch.skipped, batch.refused) == (0, 1, [])
        (row,) = await scheduling.rows()
        assert (row["state"], row["cancel_requested_at"]) == ("RUNNING", None)


class TestSchedules:
    async def test_a_bulk_pause_leaves_other_pauses_alone_and_records_each(
        self, scheduling: Scheduling
    ) -> None:
        for name in ("a", "b", "c"):
            await scheduling.schedule(name, start_within="1h")
        await scheduling.schedule("a", tenant="beta")
        paused = "UPDATE tenantcron.schedule_cursor SET paused_at = :now, paused_reason = 'other'"
        await scheduling.execute(f"{paused} WHERE schedule_name = 'c'", now=NOON)
        scheduling.clock.advance(hours=1)
        await scheduling.fire()

        done = await pause(scheduling, PauseFilter(paused=False, tenant=ACME))
        again = await pause(scheduling, PauseFilter(paused=False, tenant=ACME))

        assert (done.changed, done.ended, again.changed) == (2, 2, 0)
        cursors = await scheduling.rows("schedule_cursor", "tenant_id, schedule_name")
        assert [row["paused_reason"] for row in cursors] == [
            "migration",
            "migration",
            "other",
            None,
        ]
        by_maria = [
            row for row in await records(scheduling, "pause") if row["changed_by"] == "maria"
        ]
        assert {row["entity_id"] for row in by_maria} == {"acme/a", "acme/b"}

    async def test_a_bulk_resume_lifts_the_pauses_with_the_reason_and_fires_nothing(
        self, scheduling: Scheduling
    ) -> None:
        for name in ("a", "b", "c"):
            await scheduling.schedule(name, catch_up="all", catch_up_window="24h")
        paused = "UPDATE tenantcron.schedule_cursor SET paused_at = :now, paused_reason = :reason"
        await scheduling.execute(paused, now=NOON, reason="migration")
        await scheduling.execute(f"{paused} WHERE schedule_name = 'c'", now=NOON, reason="other")
        scheduling.clock.advance(hours=2, minutes=30)

        filters = PauseFilter(paused=True, paused_reason="migration")
        done = await resume(scheduling, filters)
        await scheduling.fire()

        assert (done.changed, done.skipped_occurrences) == (2, 4)
        assert await states(scheduling) == {"SKIPPED": 3}, "one row each covers both occurrences"
        assert len(await records(scheduling, "resume")) == 2
        explained_ones = await records(scheduling, "reason")
        assert {row["entity_id"] for row in explained_ones} == {"acme/a", "acme/b"}


class TestPlans:
    @pytest.mark.parametrize(
        ("filters", "index"),
        [
            (DEAD, "scheduled_for_id_idx1"),
            (
                ExecutionFilter(TenantId("t1"), states=(State.DEAD,), saga="work"),
                "(tenant_id_)?scheduled_for_id_idx1",
            ),
            (
                ExecutionFilter(states=(State.SKIPPED,), since=NOON - timedelta(days=9)),
                "scheduled_for_id_idx",
            ),
        ],
        ids=["dead", "dead of a tenant", "skipped since"],
    )
    async def test_ended_executions_are_read_with_an_index(
        self, scheduling: Scheduling, filters: ExecutionFilter, index: str
    ) -> None:
        await add_history(scheduling, 20_000)
        after = HistoryPosition(NOON - timedelta(days=5), UUID(int=1))

        async def page(connection: AsyncConnection) -> None:
            await bulk_executions.page(connection, filters, after=None, limit=500)
            await bulk_executions.page(connection, filters, after=after, limit=500)
            await bulk_executions.counts(connection, filters, most=1000)

        plan = await explained(scheduling.database, page)

        assert len(re.findall(f'"execution_past_2026_11_{index}"', plan)) == 3

    async def test_live_executions_are_read_by_id(self, scheduling: Scheduling) -> None:
        await scheduling.waiting(3000)
        await scheduling.execute("ANALYZE tenantcron.execution")
        plan = await explained(
            scheduling.database,
            lambda connection: bulk_executions.page(
                connection, PENDING, after=HistoryPosition(NOON, UUID(int=1)), limit=500
            ),
        )
        assert "execution_live_pkey" in plan
        assert "Sort" not in plan

    async def test_schedules_are_read_in_the_order_of_their_index(
        self, scheduling: Scheduling
    ) -> None:
        await scheduling.schedules(3000)
        await scheduling.execute("ANALYZE tenantcron.schedule_cursor")
        plan = await explained(
            scheduling.database,
            lambda connection: bulk_schedules.page(
                connection, PauseFilter(paused=False, saga="s1"), NOON, after=None, limit=200
            ),
        )
        assert "schedule_cursor_tenant_id_schedule_name" in plan
        assert "Sort" not in plan
