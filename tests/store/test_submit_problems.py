"""Tasks that the database rejects: every problem with its index, field and code."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import text
from support.scheduling import NOON, Scheduling
from support.scheduling_fixtures import scheduling

from tenantcron.core.names import TenantId
from tenantcron.schedules.settings import RetryPolicy
from tenantcron.schedules.task_request import TaskRequest, task_settings
from tenantcron.store.steps import submit
from tenantcron.store.steps.submit import Rejection, TaskProblem, TasksRejectedError

__all__ = ["scheduling"]

ACME = TenantId("acme")
WORK = '"saga": "work"'


@pytest.fixture(autouse=True)
async def acme(scheduling: Scheduling) -> None:
    await scheduling.tenant("acme")


async def send(
    scheduling: Scheduling, *tasks: str, style: str = "postgres"
) -> list[submit.Submitted]:
    """Submit tasks as a program in another language does: in JSON, with any session."""
    async with scheduling.database.transaction() as connection:
        await connection.execute(text(f"SET LOCAL intervalstyle TO {style}"))
        return await submit.submit(connection, ACME, f"[{','.join(tasks)}]", NOON)


async def problems(scheduling: Scheduling, *tasks: str) -> list[TaskProblem]:
    with pytest.raises(TasksRejectedError) as raised:
        await send(scheduling, *tasks)
    assert raised.value.rejection is Rejection.INVALID
    return list(raised.value.problems)


@pytest.mark.parametrize(
    ("task", "field", "code"),
    [
        ("7", None, "invalid_task"),
        ("null", None, "invalid_task"),
        ("[]", None, "invalid_task"),
        ("{}", "saga", "invalid_saga"),
        ('{"saga": true}', "saga", "invalid_saga"),
        ('{"saga": "Work"}', "saga", "invalid_saga"),
        (f'{{"saga": "{"w" * 129}"}}', "saga", "invalid_saga"),
        (f'{{{WORK}, "execut_at": "2027-01-01T00:00:00Z"}}', "execut_at", "unknown_field"),
        (f'{{{WORK}, "execute_at": "soon"}}', "execute_at", "invalid_time"),
        (f'{{{WORK}, "execute_at": "2027-02-30T00:00:00Z"}}', "execute_at", "invalid_time"),
        (f'{{{WORK}, "execute_at": 1796118000}}', "execute_at", "invalid_time"),
        (f'{{{WORK}, "execute_at": "infinity"}}', "execute_at", "too_far"),
        (f'{{{WORK}, "delay": "a while"}}', "delay", "invalid_delay"),
        (f'{{{WORK}, "delay": "-1 s"}}', "delay", "invalid_delay"),
        (f'{{{WORK}, "delay": "170000000 years"}}', "execute_at", "too_far"),
        (f'{{{WORK}, "priority": "urgent"}}', "priority", "invalid_priority"),
        (f'{{{WORK}, "priority": 1}}', "priority", "invalid_priority"),
        (f'{{{WORK}, "payload": [1]}}', "payload", "invalid_payload"),
        (f'{{{WORK}, "payload": "{{}}"}}', "payload", "invalid_payload"),
        (f'{{{WORK}, "payload": {{"a": "\\u0000"}}}}', "payload", "not_storable"),
        (f'{{{WORK}, "payload": {{"a": "\\ud800"}}}}', "payload", "not_storable"),
        (f'{{{WORK}, "payload": {{"a": 1e200000}}}}', "payload", "not_storable"),
        (f'{{{WORK}, "idempotency_key": 7}}', "idempotency_key", "invalid_key"),
        (f'{{{WORK}, "idempotency_key": ""}}', "idempotency_key", "invalid_key"),
        (f'{{{WORK}, "timeout": "0s"}}', "timeout", "invalid_timeout"),
        (f'{{{WORK}, "timeout": "25h"}}', "timeout", "invalid_timeout"),
        (f'{{{WORK}, "timeout": "0.3s"}}', "timeout", "invalid_timeout"),
        (f'{{{WORK}, "timeout": 60}}', "timeout", "invalid_timeout"),
        (f'{{{WORK}, "owner": "maria"}}', "owner", "invalid_owner"),
        (f'{{{WORK}, "retry": 3}}', "retry", "invalid_retry"),
        (f'{{{WORK}, "retry": {{"max_attempts": "3"}}}}', "retry", "invalid_retry"),
        (f'{{{WORK}, "retry": {{"max_attempts": 0}}}}', "retry", "invalid_retry"),
        (f'{{{WORK}, "retry": {{"attempts": 3}}}}', "retry", "invalid_retry"),
        (f'{{{WORK}, "retry": {{"backoff": "2d"}}}}', "retry", "invalid_retry"),
        (
            f'{{{WORK}, "retry": {{"backoff": "5m", "max_backoff": "1m"}}}}',
            "retry",
            "invalid_retry",
        ),
        ('{"target": {"nonsense": {}}}', "target", "unknown_target_kind"),
        ('{"target": {"http": {}, "grpc": {}}}', "target", "invalid_target"),
        ('{"target": {"celery": 7}}', "target", "invalid_target"),
        ('{"target": {}}', "target", "invalid_target"),
        ('{"target": "http"}', "target", "invalid_target"),
    ],
)
async def test_a_problem_has_its_field_and_code(
    scheduling: Scheduling, task: str, field: str | None, code: str
) -> None:
    (problem,) = await problems(scheduling, f"{{{WORK}}}", task)

    assert (problem.index, problem.field, problem.code) == (1, field, code)
    assert await scheduling.rows("task", "id") == []


async def test_all_problems_are_reported_even_if_some_values_cannot_be_read(
    scheduling: Scheduling,
) -> None:
    found = await problems(
        scheduling,
        '{"saga": "W", "execute_at": "soon", "delay": "x", "payload": {"a": "\\u0000"}}',
        f'{{{WORK}, "payload": 7, "execut_at": 1, "timeout": "2d"}}',
    )

    assert [(problem.index, problem.code) for problem in found] == [
        (0, "invalid_delay"),
        (0, "invalid_time"),
        (0, "not_storable"),
        (0, "invalid_saga"),
        (1, "unknown_field"),
        (1, "invalid_payload"),
        (1, "invalid_timeout"),
    ]


async def test_null_is_the_same_as_an_absent_field(scheduling: Scheduling) -> None:
    fields = ("execute_at", "delay", "priority", "payload", "idempotency_key", "retry", "timeout")
    nulls = dict.fromkeys((*fields, "owner", "target"))
    await send(scheduling, json.dumps({"saga": "work", **nulls}))
    await send(scheduling, '{"saga": "work", "retry": {"max_attempts": 5, "backoff": null}}')

    first, second = await scheduling.rows("task", "id")
    assert (first["definition"], first["payload"], first["priority"]) == (None, {}, 2)
    assert task_settings(second["definition"]).retry == RetryPolicy(5)


async def test_a_long_backoff_extends_a_longest_one_that_is_not_given(
    scheduling: Scheduling,
) -> None:
    await send(scheduling, f'{{{WORK}, "retry": {{"backoff": "5m"}}}}')

    (row,) = await scheduling.rows("task", "id")
    five = timedelta(minutes=5)
    assert task_settings(row["definition"]).retry == RetryPolicy(3, five, five)


async def test_the_policy_can_allow_other_kinds_of_targets(scheduling: Scheduling) -> None:
    await scheduling.execute("UPDATE tenantcron.limits SET target_kinds = '{nonsense}'")

    await send(scheduling, '{"target": {"nonsense": {}}}')

    (row,) = await scheduling.rows("task", "id")
    assert (row["saga_name"], row["requires"]) == ("nonsense", "nonsense")


async def test_a_key_does_not_depend_on_the_settings_of_the_session(
    scheduling: Scheduling,
) -> None:
    task = f'{{{WORK}, "delay": "1 day 90 min", "idempotency_key": "once"}}'
    (first,) = await send(scheduling, task)

    for style in ("iso_8601", "sql_standard", "postgres_verbose"):
        (again,) = await send(scheduling, task, style=style)
        assert again == first._replace(existed=True)


@pytest.mark.parametrize("timeout", [timedelta(milliseconds=300), timedelta(days=2)])
async def test_a_timeout_from_python_is_not_changed(
    scheduling: Scheduling, timeout: timedelta
) -> None:
    with pytest.raises(TasksRejectedError) as raised:
        await scheduling.submit(timeout=timeout)

    assert [problem.code for problem in raised.value.problems] == ["invalid_timeout"]


async def test_a_timeout_of_less_than_a_second_is_rejected_in_sql(scheduling: Scheduling) -> None:
    with pytest.raises(Exception, match="from 1s to 1d"):
        await scheduling.query("SELECT tenantcron.submit_task('acme', 'work', timeout => '0.3 s')")


async def test_a_fraction_of_a_backoff_is_not_dropped(scheduling: Scheduling) -> None:
    with pytest.raises(TasksRejectedError) as raised:
        await scheduling.submit(TaskRequest("work", retry=RetryPolicy(3, timedelta(seconds=0.5))))

    assert [problem.code for problem in raised.value.problems] == ["invalid_retry"]


async def test_a_payload_has_its_size_in_utf8_whatever_was_sent(scheduling: Scheduling) -> None:
    await scheduling.execute("UPDATE tenantcron.tenant SET quotas = '{\"payload_bytes\": 22}'")

    await scheduling.submit(payload={"name": "ééééé"})
    await send(scheduling, '{"saga": "work", "payload": {"name":"\\u00e9\\u00e9"}}')

    sizes = [row["payload_bytes"] for row in await scheduling.rows("task", "id")]
    assert sizes == [len('{"name": "ééééé"}'.encode()), len('{"name": "éé"}'.encode())]


async def test_only_large_payloads_are_over_a_quota_not_invalid(scheduling: Scheduling) -> None:
    large = '{"saga": "work", "payload": {"t": "%s"}}' % ("x" * 262_144)
    with pytest.raises(TasksRejectedError) as raised:
        await send(scheduling, large, f"{{{WORK}}}")

    assert raised.value.rejection is Rejection.OVER_QUOTA
    (problem,) = raised.value.problems
    assert (problem.index, problem.field, problem.code) == (0, "payload", "payload_bytes")
    assert len(await problems(scheduling, large, "{}")) == 2


async def test_unpaired_surrogates_from_python_are_reported_with_their_place(
    scheduling: Scheduling,
) -> None:
    with pytest.raises(TasksRejectedError) as raised:
        await scheduling.submit(TaskRequest("work"), TaskRequest("work", {"é": "\ud800"}))

    (problem,) = raised.value.problems
    assert (problem.index, problem.field, problem.code) == (1, "payload", "not_storable")
