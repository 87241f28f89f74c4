"""Tasks by the API: submitted once, listed, shown, cancelled, retried and rescheduled."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx import AsyncClient, Response
from support.fleet import query
from support.serving import Api, executions

TASKS = "/v1/tenants/acme/tasks"
LATER = "2030-01-01T09:00:00+00:00"
SOME = "019a9c1e-7d1c-7b3e-9f0a-3f2a9c1e5d77"
_ROWS = "SELECT count(*) AS number FROM tenantcron.task"
_DEAD = (
    "UPDATE tenantcron.execution SET state = 'DEAD', finished_at = now() WHERE state = 'PENDING'"
)
_RUNNING = (
    "UPDATE tenantcron.execution SET state = 'RUNNING', attempt = 1, worker_id = 'w', "
    "lease_token = gen_random_uuid(), lease_until = now() + interval '1 h', started_at = now()"
)


@pytest.fixture(autouse=True)
async def acme(api: Api) -> None:
    await api.tenants("acme", "globex")


async def submit(client: AsyncClient, **fields: object) -> Response:
    return await client.post(TASKS, json={"saga": "send_invoice", **fields})


async def task(client: AsyncClient, **fields: object) -> dict[str, Any]:
    submitted = await submit(client, **fields)
    assert submitted.status_code == 202, submitted.text
    made: dict[str, Any] = submitted.json()
    return made


def rows(url: str) -> int:
    (row,) = query(url, _ROWS)
    return int(row["number"])


def errors(rejected: Response) -> dict[str, str]:
    """Return the code of each field."""
    assert rejected.status_code == 422, rejected.text
    return {error["name"]: error.get("code", "") for error in rejected.json()["errors"]}


async def test_a_submitted_task_waits_for_its_time(api: Api, database_url: str) -> None:
    async with await api.client("operator") as operator:
        submitted = await submit(operator, execute_at=LATER, payload={"invoice": 17})
        shown = await operator.get(submitted.headers["Location"])

    assert submitted.status_code == 202
    made = submitted.json()
    assert (made["state"], made["execute_at"], made["existed"]) == ("WAITING", LATER, False)
    assert shown.json()["payload"] == {"invoice": 17}
    assert (shown.json()["state"], shown.json()["attempts"]) == ("WAITING", [])
    assert query(database_url, "SELECT id FROM tenantcron.execution") == []


async def test_a_bound_caller_sees_why_its_task_waits(api: Api) -> None:
    async with await api.client("operator", "acme") as operator:
        made = await task(operator, execute_at=LATER)
        why = (await operator.get(f"{TASKS}/{made['id']}/why")).json()

    assert why.keys() == {"tenant", "task", "answer", "findings"}
    assert (why["tenant"], why["task"]) == ("acme", made["id"])
    codes = [finding["code"] for finding in why["findings"]]
    assert codes == ["waits-for-its-time", "no-replica"]
    assert why["answer"] == why["findings"][0]["message"]


async def test_a_task_without_a_time_has_its_execution_at_once(api: Api, database_url: str) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator)
        execution = await operator.get(f"/v1/executions/{made['id']}")

    assert made["state"] == execution.json()["state"] == "PENDING"
    assert execution.json()["saga"] == "send_invoice"
    assert rows(database_url) == 1


async def test_a_delay_counts_from_the_clock_of_the_database(api: Api) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator, delay="2h")

    ahead = datetime.fromisoformat(made["execute_at"]) - datetime.now(UTC)
    assert timedelta(hours=1, minutes=50) < ahead < timedelta(hours=2, minutes=10)


async def test_the_same_key_returns_the_first_task_and_another_request_conflicts(
    api: Api, database_url: str
) -> None:
    async with await api.client("operator") as operator:
        first = await submit(operator, idempotency_key="invoice-17", payload={"n": 1})
        again = await submit(operator, idempotency_key="invoice-17", payload={"n": 1})
        other = await submit(operator, idempotency_key="invoice-17", payload={"n": 2})

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == {**first.json(), "existed": True}
    assert (other.status_code, other.json()["code"]) == (409, "TC731")
    assert rows(database_url) == 1


async def test_a_key_of_one_tenant_is_free_in_another(api: Api) -> None:
    body = {"saga": "send_invoice", "idempotency_key": "k"}
    async with await api.client("operator") as operator:
        answers = [
            await operator.post(f"/v1/tenants/{tenant}/tasks", json=body)
            for tenant in ("acme", "globex")
        ]

    assert [answer.status_code for answer in answers] == [202, 202]


async def test_all_mistakes_of_a_submission_are_reported_with_their_fields(
    api: Api, database_url: str
) -> None:
    async with await api.client("operator") as operator:
        rejected = await submit(
            operator,
            saga="Send Invoice",
            priority="urgent",
            timeout="9d",
            retry={"max_attempts": 50},
            owner="maria",
            target={"http": {"url": "https://elsewhere.internal/run"}},
        )

    assert errors(rejected) == {
        "saga": "TC107",
        "priority": "TC106",
        "timeout": "TC305",
        "retry.max_attempts": "TC106",
        "owner": "TC116",
        "target.http.url": "TC402",
    }
    assert rows(database_url) == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "saga"),
        ({"saga": "a", "sagas": "b"}, "sagas"),
        ({"saga": "a", "execute_at": 5}, "execute_at"),
        ({"saga": "a", "execute_at": LATER, "delay": "1h"}, ""),
        ({"saga": "a", "delay": "soon"}, "delay"),
        ({"saga": "a", "payload": [1]}, "payload"),
        ({"saga": "a", "idempotency_key": "two words"}, "idempotency_key"),
        ({"saga": "a", "payload": {"text": "\u0000"}}, "payload"),
        ({"saga": "a", "payload": {"text\u0000": 1}}, "payload"),
        ({"saga": "a", "payload": {"text": ["\\u0000", "\u0000"]}}, "payload"),
    ],
    ids=str,
)
async def test_an_invalid_submission_is_rejected(
    api: Api, body: dict[str, object], field: str, database_url: str
) -> None:
    async with await api.client("operator") as operator:
        rejected = await operator.post(TASKS, json=body)

    assert field in errors(rejected)
    assert rows(database_url) == 0


async def test_a_backslash_before_u0000_is_text(api: Api) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator, payload={"path": "\\u0000"})
        shown = await operator.get(f"{TASKS}/{made['id']}")

    assert shown.json()["payload"] == {"path": "\\u0000"}


async def test_a_batch_is_submitted_as_a_whole_or_not_at_all(api: Api, database_url: str) -> None:
    good: list[dict[str, object]] = [{"saga": "a", "execute_at": LATER}, {"saga": "b"}]
    async with await api.client("operator") as operator:
        submitted = await operator.post(f"{TASKS}:batch", json={"tasks": good})
        before = rows(database_url)
        rejected = await operator.post(f"{TASKS}:batch", json={"tasks": [*good, {"saga": "B"}]})
        too_many = await operator.post(f"{TASKS}:batch", json={"tasks": good * 501})

    made = submitted.json()["tasks"]
    assert submitted.status_code == 202
    assert [(task["saga"], task["state"]) for task in made] == [("a", "WAITING"), ("b", "PENDING")]
    assert errors(rejected) == {"tasks.2.saga": "TC107"}
    assert too_many.status_code == 422
    assert rows(database_url) == before == 2


async def test_tasks_are_listed_newest_first_in_pages_and_by_filters(api: Api) -> None:
    async with await api.client("operator") as operator:
        ids = [(await task(operator, saga=saga, delay="1d"))["id"] for saga in ("a", "b", "a")]
        due = (await task(operator, saga="b"))["id"]
        first = (await operator.get(f"{TASKS}?limit=3")).json()
        second = (await operator.get(f"{TASKS}?limit=3&after={first['next']}")).json()
        of_saga = (await operator.get(f"{TASKS}?saga=a")).json()
        waiting = (await operator.get(f"{TASKS}?state=WAITING")).json()
        pending = (await operator.get(f"{TASKS}?state=PENDING")).json()
        unknown = await operator.get(f"{TASKS}?stat=PENDING")
        others = (await operator.get("/v1/tenants/globex/tasks")).json()

    def listed(page: dict[str, Any]) -> list[str]:
        return [task["id"] for task in page["tasks"]]

    assert [*listed(first), *listed(second)] == [due, *reversed(ids)]
    assert second["next"] is None
    assert listed(of_saga) == [ids[2], ids[0]]
    assert listed(waiting) == [*reversed(ids)]
    assert listed(pending) == [due]
    assert unknown.status_code == 422
    assert listed(others) == []


async def test_tasks_of_all_tenants_are_listed_for_those_who_see_them(api: Api) -> None:
    async with await api.client("operator") as operator:
        first = (await task(operator, saga="a", delay="1d"))["id"]
        other = (await operator.post("/v1/tenants/globex/tasks", json={"saga": "b"})).json()["id"]
        last = (await task(operator, saga="b"))["id"]
        found = [
            (await operator.get(f"/v1/tasks?{filters}")).json()
            for filters in ("", "saga=b", "tenant=globex", "state=WAITING", "limit=1")
        ]
        unknown = await operator.get("/v1/tasks?tenat=globex")
    async with await api.client("submitter", tenant="globex") as submitter:
        bound = (await submitter.get("/v1/tasks")).json()
        hidden = await submitter.get("/v1/tasks?tenant=acme")

    assert [[row["id"] for row in page["tasks"]] for page in found] == [
        [last, other, first], [last, other], [other], [first], [last]
    ]  # fmt: skip
    assert (found[0]["next"], found[4]["next"] is None) == (None, False)
    assert unknown.status_code == 422
    assert [row["id"] for row in bound["tasks"]] == [other]
    assert hidden.status_code == 404


async def test_a_waiting_task_is_cancelled_and_has_an_execution(
    api: Api, database_url: str
) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator, delay="1d")
        cancelled = await operator.post(f"{TASKS}/{made['id']}:cancel", json={"reason": "paid"})
        again = await operator.post(f"{TASKS}/{made['id']}:cancel")
        moved = await operator.post(f"{TASKS}/{made['id']}:reschedule", json={"delay": "2d"})

    assert (cancelled.json()["state"], cancelled.json()["reason"]) == ("CANCELLED", "paid")
    assert (again.status_code, again.json()["code"]) == (409, "TC704")
    assert (moved.status_code, moved.json()["code"]) == (409, "TC704")
    (execution,) = query(database_url, "SELECT id, state FROM tenantcron.execution")
    assert (str(execution["id"]), execution["state"]) == (made["id"], "CANCELLED")


async def test_a_running_task_is_cancelled_only_with_force(api: Api, database_url: str) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator)
        query(database_url, _RUNNING)
        refused = await operator.post(f"{TASKS}/{made['id']}:cancel")
        forced = await operator.post(f"{TASKS}/{made['id']}:cancel", json={"force": True})

    assert (refused.status_code, refused.json()["code"]) == (409, "TC704")
    assert forced.status_code == 200
    (execution,) = query(database_url, "SELECT cancel_requested_at FROM tenantcron.execution")
    assert execution["cancel_requested_at"] is not None


async def test_a_dead_task_is_retried(api: Api, database_url: str) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator)
        await executions(api, "globex", 1)
        query(database_url, _DEAD)
        retried = await operator.post(f"{TASKS}/{made['id']}:retry")

    assert (retried.status_code, retried.json()["state"]) == (200, "PENDING")


async def test_a_waiting_task_is_rescheduled(api: Api) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator, delay="1d")
        moved = await operator.post(f"{TASKS}/{made['id']}:reschedule", json={"execute_at": LATER})
        nothing = await operator.post(f"{TASKS}/{made['id']}:reschedule", json={})

    assert moved.json()["execute_at"] == LATER
    assert nothing.status_code == 422


async def test_a_task_is_rescheduled_by_ten_years_at_most(api: Api) -> None:
    async with await api.client("operator") as operator:
        made = await task(operator, delay="1d")
        path = f"{TASKS}/{made['id']}:reschedule"
        far = [await operator.post(path, json={"delay": days}) for days in ("3640d", "3660d")]
        beyond = await operator.post(path, json={"execute_at": "2126-01-01T00:00:00Z"})

    assert [answer.status_code for answer in (*far, beyond)] == [200, 422, 422]


async def test_a_caller_sees_only_tasks_of_its_tenant(api: Api) -> None:
    async with (
        await api.client("operator") as operator,
        await api.client("operator", "globex") as bound,
    ):
        made = await task(operator, delay="1d")
        answers = [
            await bound.get(TASKS),
            await bound.get(f"{TASKS}/{made['id']}"),
            await bound.get(f"/v1/tenants/globex/tasks/{made['id']}"),
            await bound.get(f"{TASKS}/{made['id']}/why"),
            await bound.get(f"/v1/tenants/globex/tasks/{made['id']}/why"),
            await bound.post(TASKS, json={"saga": "a"}),
            await bound.post(f"/v1/tenants/globex/tasks/{made['id']}:cancel"),
        ]
        after = (await operator.get(f"{TASKS}/{made['id']}")).json()

    assert [answer.json()["code"] for answer in answers] == ["TC703"] * 7
    assert after["state"] == "WAITING"


async def test_a_submitter_submits_reads_and_cancels_tasks_of_its_tenant(api: Api) -> None:
    async with await api.client("submitter", "acme") as submitter:
        made = await task(submitter, delay="1d")
        path = f"{TASKS}/{made['id']}"
        batch = await submitter.post(f"{TASKS}:batch", json={"tasks": [{"saga": "a"}]})
        reads = [await submitter.get(read) for read in (TASKS, path, f"{path}/why")]
        cancelled = await submitter.post(f"{path}:cancel")
        refused = [
            await submitter.post(f"{path}:retry"),
            await submitter.post(f"{path}:reschedule", json={"delay": "1h"}),
        ]
        other = await submitter.post("/v1/tenants/globex/tasks", json={"saga": "a"})

    assert batch.status_code == 202
    assert [answer.status_code for answer in reads] == [200] * 3
    assert cancelled.json()["state"] == "CANCELLED"
    assert [answer.json()["code"] for answer in refused] == ["TC702"] * 2
    assert other.json()["code"] == "TC703"


async def test_a_submitter_may_do_nothing_but_tasks(api: Api) -> None:
    names = {"tenant": "acme", "schedule": "nightly"}
    async with await api.client("submitter") as submitter:
        described = (await submitter.get("/openapi.json")).json()["paths"]
        answers = {
            (method, path): await submitter.request(
                method.upper(), re.sub(r"{(\w+)}", lambda m: names.get(m[1], SOME), path)
            )
            for path, methods in described.items()
            for method in methods
            if "/tasks" not in path
        }
    # Health, public keys, and requests about execution tokens, which this server does not sign.
    open_to_all = {
        "/healthz",
        "/readyz",
        "/.well-known/jwks.json",
        "/v1/tokens:introspect",
        "/v1/tokens:renew",
    }
    # The token of the attempt authorises these.
    of_remote_workers = (":heartbeat", ":complete", ":fail")
    refused = {
        place: answer.status_code
        for place, answer in answers.items()
        if place[1] not in open_to_all and not place[1].endswith(of_remote_workers)
    }
    assert len(refused) > 40
    assert {place: status for place, status in refused.items() if status != 403} == {}


async def test_submitting_needs_the_role_of_an_operator(api: Api, database_url: str) -> None:
    async with await api.client("viewer") as viewer, await api.client("deployer") as deployer:
        answers = [await submit(viewer), await submit(deployer)]

    assert [answer.json()["code"] for answer in answers] == ["TC702"] * 2
    assert rows(database_url) == 0


async def test_a_suspended_or_unknown_tenant_takes_no_tasks(api: Api, database_url: str) -> None:
    query(database_url, "UPDATE tenantcron.tenant SET status = 'suspended' WHERE id = 'acme'")
    async with await api.client("operator") as operator:
        suspended = await submit(operator)
        unknown = await operator.post("/v1/tenants/initech/tasks", json={"saga": "a"})

    assert (suspended.status_code, suspended.json()["code"]) == (409, "TC704")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "TC703")


async def test_a_full_quota_of_pending_tasks_is_429(api: Api, database_url: str) -> None:
    query(database_url, """UPDATE tenantcron.tenant SET quotas = '{{"pending_tasks": 2}}'""")
    async with await api.client("operator") as operator:
        answers = [await submit(operator, delay="1d") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [202, 202, 429]
    assert answers[2].json()["code"] == "TC732"
    assert [error["code"] for error in answers[2].json()["errors"]] == ["pending_tasks"]
    assert answers[2].headers["Retry-After"] == "5"
    assert rows(database_url) == 2


async def test_a_payload_over_its_quota_is_429_and_no_reason_to_retry(api: Api) -> None:
    large = {"saga": "a", "payload": {"text": "x" * 262_144}}
    async with await api.client("operator") as operator:
        rejected = await operator.post(f"{TASKS}:batch", json={"tasks": [{"saga": "a"}, large]})

    assert (rejected.status_code, rejected.json()["code"]) == (429, "TC732")
    (error,) = rejected.json()["errors"]
    assert (error["name"], error["code"]) == ("tasks.1.payload", "payload_bytes")
    assert "Retry-After" not in rejected.headers
