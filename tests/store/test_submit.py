"""Submit: tasks exist if and only if their transaction commits, and bad ones with all problems."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from support.scheduling import NOON, Scheduling
from support.scheduling_fixtures import scheduling

from tenantcron.core.errors import UsageError
from tenantcron.core.names import Owner, TenantId
from tenantcron.core.targets import OtherTarget
from tenantcron.schedules.settings import Priority, RetryPolicy
from tenantcron.schedules.task_request import (
    MOST_IN_A_BATCH,
    TaskRequest,
    batch_json,
    task_settings,
)
from tenantcron.store.steps import submit
from tenantcron.store.steps.submit import Rejection, TasksRejectedError

__all__ = ["scheduling"]

ACME = TenantId("acme")
LATER = timedelta(hours=1)


@pytest.fixture(autouse=True)
async def acme(scheduling: Scheduling) -> None:
    await scheduling.tenant("acme")


async def refusal(
    scheduling: Scheduling, *requests: TaskRequest, tenant: str = "acme"
) -> TasksRejectedError:
    with pytest.raises(TasksRejectedError) as raised:
        await scheduling.submit(*requests, tenant=tenant)
    return raised.value


async def test_a_task_for_later_waits_without_an_execution(scheduling: Scheduling) -> None:
    (submitted,) = await scheduling.submit(
        saga="invoice",
        payload={"number": 7, "note": "{{fire_time}}"},
        delay=LATER,
        priority=Priority.HIGH,
        retry=RetryPolicy(5),
        timeout=timedelta(minutes=10),
        owner=Owner("user:maria"),
    )

    assert submitted._replace(id=UUID(int=0)) == (UUID(int=0), "WAITING", NOON + LATER, False)
    (row,) = await scheduling.rows("task", "id")
    assert (row["id"], row["tenant_id"], row["saga_name"]) == (submitted.id, "acme", "invoice")
    assert (row["execute_at"], row["submitted_at"]) == (NOON + LATER, NOON)
    assert (row["priority"], row["requires"], row["fired_at"]) == (1, "saga:invoice", None)
    assert row["payload"] == {"number": 7, "note": "{{fire_time}}"}
    settings = task_settings(row["definition"])
    assert (settings.retry.max_attempts, settings.timeout) == (5, timedelta(minutes=10))
    assert settings.owner == "user:maria"
    assert await scheduling.rows() == []


async def test_a_task_that_is_due_now_has_its_execution_at_once(scheduling: Scheduling) -> None:
    (submitted,) = await scheduling.submit(saga="invoice", payload={"n": 1})

    assert (submitted.state, submitted.execute_at) == ("PENDING", NOON)
    (row,) = await scheduling.rows()
    assert row["id"] == row["schedule_id"] == row["definition_id"] == submitted.id
    assert (row["state"], row["scheduled_for"], row["not_before"]) == ("PENDING", NOON, NOON)
    assert (row["schedule_name"], row["saga_name"]) == ("task:invoice", "invoice")
    assert (row["overlap"], row["attempts_allowed"], row["actor_source"]) == ("allow", 3, "task")
    assert row["requires"] == "saga:invoice"


async def test_a_time_in_the_past_means_now(scheduling: Scheduling) -> None:
    (submitted,) = await scheduling.submit(execute_at=NOON - timedelta(days=400))

    assert (submitted.state, submitted.execute_at) == ("PENDING", NOON)


async def test_ids_are_version_7_and_sort_by_submission(scheduling: Scheduling) -> None:
    submitted = await scheduling.submit(*(TaskRequest(f"s{number}") for number in range(300)))
    submitted += await scheduling.submit(saga="last")

    ids = [task.id for task in submitted]
    assert ids == sorted(ids)
    assert {(task.version, task.variant) for task in ids} == {(7, "specified in RFC 4122")}


async def test_the_settings_of_a_task_without_any_are_the_defaults(scheduling: Scheduling) -> None:
    await scheduling.submit()

    await scheduling.submit(delay=LATER)
    scheduling.clock.advance(hours=1)
    await scheduling.fire()

    assert [row["definition"] for row in await scheduling.rows("task", "id")] == [None, None]
    attempts = [row["attempts_allowed"] for row in await scheduling.rows()]
    assert attempts == [RetryPolicy().max_attempts] * 2


async def test_nothing_remains_of_a_transaction_that_is_rolled_back(scheduling: Scheduling) -> None:
    request = [TaskRequest("work", idempotency_key="once"), TaskRequest("work", delay=LATER)]
    async with scheduling.database.transaction() as connection:
        await submit.submit(connection, ACME, batch_json(request), NOON)
        await connection.rollback()

    assert await scheduling.rows("task", "id") == []
    assert await scheduling.rows() == []
    (again, _) = await scheduling.submit(*request)
    assert again.existed is False


async def test_the_same_key_returns_the_first_task(scheduling: Scheduling) -> None:
    request = TaskRequest("work", {"b": 1, "a": 2}, delay=LATER, idempotency_key="order-7")
    (first,) = await scheduling.submit(request)
    scheduling.clock.advance(minutes=5)

    same = TaskRequest("work", {"a": 2, "b": 1}, delay=LATER, idempotency_key="order-7")
    (second, other) = await scheduling.submit(same, TaskRequest("work"))

    assert second == first._replace(existed=True)
    assert (other.existed, other.state) == (False, "PENDING")
    assert len(await scheduling.rows("task", "id")) == 2


async def test_the_same_key_returns_the_state_of_the_execution(scheduling: Scheduling) -> None:
    (first,) = await scheduling.submit(idempotency_key="order-7")
    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed)

    (second,) = await scheduling.submit(idempotency_key="order-7")

    assert (second.id, second.state, second.existed) == (first.id, "SUCCEEDED", True)


async def test_the_same_key_with_another_request_is_a_conflict(scheduling: Scheduling) -> None:
    await scheduling.submit(idempotency_key="a", payload={"n": 1})
    await scheduling.submit(idempotency_key="b", payload={"n": 1})

    rejected = await refusal(
        scheduling,
        TaskRequest("new"),
        TaskRequest("work", {"n": 2}, idempotency_key="b"),
        TaskRequest("work", {"n": 1}, idempotency_key="a"),
        TaskRequest("other", {"n": 1}, idempotency_key="a"),
    )

    assert rejected.rejection is Rejection.CONFLICT
    assert [(p.index, p.code, p.field) for p in rejected.problems] == [
        (1, "idempotency_conflict", "idempotency_key"),
        (3, "idempotency_conflict", "idempotency_key"),
    ]
    assert len(await scheduling.rows("task", "id")) == 2


async def test_a_key_twice_in_one_batch_is_one_task(scheduling: Scheduling) -> None:
    request = TaskRequest("work", idempotency_key="once")

    first, second = await scheduling.submit(request, request)

    assert first.id == second.id
    assert {first.existed, second.existed} == {False, True}
    assert len(await scheduling.rows()) == 1


async def test_tenants_have_their_own_keys(scheduling: Scheduling) -> None:
    await scheduling.tenant("umbra")

    (first,) = await scheduling.submit(idempotency_key="once")
    (second,) = await scheduling.submit(idempotency_key="once", tenant="umbra")

    assert first.id != second.id


@pytest.mark.parametrize("is_same", [True, False])
async def test_concurrent_submissions_with_one_key_add_one_task(
    scheduling: Scheduling, is_same: bool
) -> None:
    async def one(number: int) -> object:
        payload = {"n": 0 if is_same else number}
        try:
            return (await scheduling.submit(idempotency_key="once", payload=payload))[0].existed
        except TasksRejectedError as error:
            return error.rejection

    ends = await asyncio.gather(*map(one, range(6)))

    other = True if is_same else Rejection.CONFLICT
    assert sorted(map(str, ends)) == sorted(["False", *[str(other)] * 5])
    assert len(await scheduling.rows()) == len(await scheduling.rows("task", "id")) == 1


async def test_all_problems_of_a_batch_are_reported_at_once(scheduling: Scheduling) -> None:
    rejected = await refusal(
        scheduling,
        TaskRequest("good"),
        TaskRequest("Bad name", priority=Priority.LOW, idempotency_key="two words"),
        TaskRequest("work", execute_at=NOON, delay=LATER),
        TaskRequest("work", delay=-LATER),
        TaskRequest("work", delay=timedelta(days=4000)),
        TaskRequest("work", {"text": "x" * 262_144}),
        TaskRequest("work", owner=Owner("maria")),
        TaskRequest("work", retry=RetryPolicy(21)),
        TaskRequest(None),
    )

    assert rejected.rejection is Rejection.INVALID
    assert [(p.index, p.code) for p in rejected.problems] == [
        (1, "invalid_key"),
        (1, "invalid_saga"),
        (2, "two_times"),
        (3, "invalid_delay"),
        (4, "too_far"),
        (5, "payload_bytes"),
        (6, "invalid_owner"),
        (7, "invalid_retry"),
        (8, "invalid_saga"),
    ]
    assert await scheduling.rows("task", "id") == []


async def test_a_payload_that_is_not_json_is_refused_before_it_is_sent(
    scheduling: Scheduling,
) -> None:
    with pytest.raises(UsageError, match="not JSON"):
        await scheduling.submit(payload={"price": float("nan")})
    with pytest.raises(UsageError, match="no time zone"):
        await scheduling.submit(execute_at=NOON.replace(tzinfo=None))


@pytest.mark.parametrize("number", [0, MOST_IN_A_BATCH + 1])
async def test_a_batch_has_a_thousand_tasks_at_most(scheduling: Scheduling, number: int) -> None:
    tasks = batch_json([TaskRequest("work")] * number)
    async with scheduling.database.transaction() as connection:
        with pytest.raises(TasksRejectedError, match="an array of 1 to 1000 tasks"):
            await submit.submit(connection, ACME, tasks, NOON)
        await connection.rollback()


@pytest.mark.parametrize(
    ("status", "rejection", "code"),
    [
        ("suspended", Rejection.CONFLICT, "tenant_inactive"),
        ("deprovisioned", Rejection.CONFLICT, "tenant_inactive"),
        (None, Rejection.UNKNOWN_TENANT, "unknown_tenant"),
    ],
)
async def test_only_active_tenants_accept_tasks(
    scheduling: Scheduling, status: str | None, rejection: Rejection, code: str
) -> None:
    if status is not None:
        await scheduling.tenant("umbra", status=status)

    rejected = await refusal(scheduling, TaskRequest("work"), tenant="umbra")

    assert rejected.rejection is rejection
    assert [problem.code for problem in rejected.problems] == [code]


async def test_a_target_decides_what_a_replica_needs(scheduling: Scheduling) -> None:
    target = OtherTarget("celery", {"task": "billing.charge", "queue": None})
    await scheduling.submit(saga=None, target=target)

    (row,) = await scheduling.rows("task", "id")
    assert (row["saga_name"], row["requires"]) == ("celery", "celery")
    assert row["definition"] == {"target": {"celery": {"task": "billing.charge", "queue": None}}}


async def test_the_quota_counts_waiting_and_pending_tasks(scheduling: Scheduling) -> None:
    await scheduling.execute("UPDATE tenantcron.limits SET quotas = '{\"pending_tasks\": 3}'")
    await scheduling.submit(TaskRequest("work"), TaskRequest("work", delay=LATER))
    await scheduling.waiting(5)

    rejected = await refusal(scheduling, TaskRequest("work"), TaskRequest("work", delay=LATER))

    assert rejected.rejection is Rejection.OVER_QUOTA
    assert [problem.code for problem in rejected.problems] == ["pending_tasks"]
    await scheduling.submit(idempotency_key="last")
    (again,) = await scheduling.submit(idempotency_key="last")
    assert again.existed
    await scheduling.limit(100)
    assert len((await scheduling.claim()).started) == 7
    assert len(await scheduling.submit(TaskRequest("work"), TaskRequest("work"))) == 2


async def test_a_tenant_can_have_its_own_quotas(scheduling: Scheduling) -> None:
    await scheduling.execute(
        'UPDATE tenantcron.tenant SET quotas = \'{"pending_tasks": 1, "payload_bytes": 20}\''
    )

    rejected = await refusal(scheduling, TaskRequest("work", {"text": "0123456789"}))
    assert [problem.code for problem in rejected.problems] == ["payload_bytes"]
    await scheduling.submit()
    assert (await refusal(scheduling, TaskRequest("work"))).rejection is Rejection.OVER_QUOTA
    records = await scheduling.rows("audit_record", "id")
    assert "pending_tasks" in str(records[-1]["after"])


async def test_one_task_can_be_submitted_with_plain_sql(scheduling: Scheduling) -> None:
    (found,) = await scheduling.query(
        "SELECT tenantcron.submit_task('acme', 'invoice', '{\"n\": 1}', delay => '1 hour',"
        " priority => 'low', idempotency_key => 'k', timeout => '90 s',"
        " retry => '{\"max_attempts\": 2}') AS id"
    )

    (row,) = await scheduling.rows("task", "id")
    assert (row["id"], row["payload"], row["priority"]) == (found["id"], {"n": 1}, 3)
    assert row["execute_at"] - row["submitted_at"] == LATER
    assert row["definition"] == {
        "timeout": "90s",
        "retry": {"max_attempts": 2, "backoff": "1s", "max_backoff": "1m"},
    }
    assert row["actor_source"] == "sql"


async def test_schedulers_are_notified_of_what_is_due_soon_only(scheduling: Scheduling) -> None:
    heard: list[str] = []
    async with scheduling.database.engine.connect() as connection:
        raw = await connection.get_raw_connection()
        driver = raw.driver_connection
        assert driver is not None
        driver.add_notify_handler(lambda notify: heard.append(notify.payload))
        await driver.execute("LISTEN tenantcron_work")
        await scheduling.submit(delay=timedelta(minutes=1))
        await scheduling.submit(
            TaskRequest("work"), TaskRequest("work", delay=timedelta(seconds=5))
        )
        await driver.execute("SELECT 1")
        await driver.execute("UNLISTEN *")

    assert heard == ["task", "task soon"]


async def test_no_task_is_fired_while_a_replica_of_the_release_before_runs(
    scheduling: Scheduling,
) -> None:
    await scheduling.execute(
        "INSERT INTO tenantcron.worker (id, service, started_at, seen_at)"
        " VALUES ('former', 'scheduler', statement_timestamp(), statement_timestamp())"
    )

    (held,) = await scheduling.submit()

    assert held.state == "WAITING"
    assert await scheduling.fire() == 0
    await scheduling.execute("DELETE FROM tenantcron.worker")
    assert await scheduling.fire() == 1
