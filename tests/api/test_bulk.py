"""Bulk operations through the API: batches, filters, tenants, repeated requests."""

from collections import Counter

import pytest
from support.fleet import query
from support.many_executions import add_executions
from support.serving import Api, Json, apply, executions

from tenantcron.client import AsyncClient, bulk
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider

SCHEDULES = {"nightly": 'cron: "0 2 * * *"', "weekly": 'cron: "0 3 * * 1"'}
RETRY, CANCEL = "/v1/executions:retry", "/v1/executions:cancel"
PAUSE, RESUME = "/v1/schedules:pause", "/v1/schedules:resume"


@pytest.fixture
async def fleet(api: Api, database_url: str) -> Api:
    """Two tenants with two schedules each, and dead executions of one of them."""
    await api.tenants("acme", "beta")
    for tenant in ("acme", "beta"):
        await apply(api, tenant, SCHEDULES)
    await refresh(api.database, TenantScheduleProvider())
    await executions(api, "acme", 0)  # creates the partitions of the history
    for tenant in ("acme", "beta"):
        add_executions(database_url, 3, tenant=tenant)
    return api


def states(url: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for row in query(url, "SELECT tenant_id, state FROM tenantcron.execution"):
        found.setdefault(row["tenant_id"], Counter())[row["state"]] += 1
    return found


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        (RETRY, {}, "`tenant`, `schedule`, `saga`, `states`, `since`, `until`"),
        (RETRY, {"dry_run": True}, "`tenant`"),
        (RETRY, {"error": "timed out"}, "`since`"),
        (CANCEL, {"reason": "wrong month"}, "`states`"),
        (PAUSE, {"reason": "migration"}, "`tenant`, `saga`"),
        (RESUME, {}, "`paused_reason`"),
    ],
)
async def test_a_request_without_a_filter_is_an_error(
    fleet: Api, database_url: str, path: str, body: Json, names: str
) -> None:
    async with await fleet.client("operator") as operator:
        answer = await operator.post(path, json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "TC707")
    assert "set at least one filter: " in answer.json()["errors"][0]["message"]
    assert names in answer.json()["errors"][0]["message"]
    assert states(database_url)["acme"] == {"DEAD": 3}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (RETRY, {"states": ["RUNNING"]}),
        (RETRY, {"states": []}),
        (CANCEL, {"states": ["DEAD"]}),
        (RETRY, {"tenant": "acme", "after": "nowhere"}),
        (RETRY, {"tenant": "acme", "error": ""}),
        (RETRY, {"tenant": "acme", "after": "2026-01-01/00000000-0000-4000-8000-000000000001"}),
        (PAUSE, {"tenant": "acme", "reason": "x", "after": "nowhere"}),
        (PAUSE, {"tenant": "acme", "reason": "x", "until": "2020-01-01T00:00:00Z"}),
        (PAUSE, {"tenant": "acme"}),
        (RETRY, {"tenat": "acme", "saga": "x"}),
    ],
    ids=str,
)
async def test_invalid_values_are_errors(fleet: Api, path: str, body: Json) -> None:
    async with await fleet.client("operator") as operator:
        answer = await operator.post(path, json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "TC707")


async def test_a_caller_of_one_tenant_changes_nothing_of_others(
    fleet: Api, database_url: str
) -> None:
    async with await fleet.client("operator", "acme") as operator:
        previewed = await operator.post(RETRY, json={"states": ["DEAD"], "dry_run": True})
        retried = await operator.post(RETRY, json={"states": ["DEAD"]})
        other = await operator.post(RETRY, json={"tenant": "beta"})
        paused = await operator.post(PAUSE, json={"saga": "nightly", "reason": "x"})

    assert previewed.json()["preview"]["matched"] == 3
    assert (retried.json()["changed"], retried.json()["next"]) == (3, None)
    assert (other.status_code, other.json()["code"]) == (404, "TC703")
    assert paused.json()["changed"] == 1
    assert states(database_url) == {"acme": {"PENDING": 3}, "beta": {"DEAD": 3}}


async def test_a_viewer_may_not(fleet: Api) -> None:
    async with await fleet.client("viewer") as viewer:
        answer = await viewer.post(RETRY, json={"states": ["DEAD"]})

    assert answer.status_code == 403


async def test_a_repeated_request_runs_once(fleet: Api, database_url: str) -> None:
    headers = {"Idempotency-Key": "once"}
    async with await fleet.client("operator") as operator:
        first = await operator.post(CANCEL, json={"tenant": "acme"}, headers=headers)
        add_executions(database_url, 2, state="PENDING")
        again = await operator.post(CANCEL, json={"tenant": "acme"}, headers=headers)

    assert first.json()["changed"] == 0
    assert again.json() == first.json()
    assert states(database_url)["acme"] == {"DEAD": 3, "PENDING": 2}


async def test_the_client_runs_all_batches(
    fleet: Api, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.service.bulk.EXECUTIONS_A_BATCH", 2)
    monkeypatch.setattr("tenantcron.service.bulk.SCHEDULES_A_BATCH", 3)
    token = (await fleet.client("operator")).headers["authorization"].removeprefix("Bearer ")
    async with AsyncClient(fleet.url, token) as cron:
        wanted = bulk.ExecutionSelection(saga="nightly", states=["DEAD"])
        changed, after = list[int](), None
        while not changed or after:
            done = await cron.send(bulk.retry_executions(wanted, after=after))
            changed, after = [*changed, done["changed"]], done["next"]
        every = bulk.ScheduleSelection(saga="nightly")
        paused = await cron.send(bulk.pause_schedules(every, "migration"))
        resumed = await cron.send(bulk.resume_schedules(every, paused_reason="migration"))

    assert changed == [2, 2, 2, 0]
    assert (paused["changed"], resumed["changed"]) == (2, 2)
    assert states(database_url) == {"acme": {"PENDING": 3}, "beta": {"PENDING": 3}}
    audited = query(
        database_url,
        "SELECT operation, changed_by, authenticated FROM tenantcron.audit_record"
        " WHERE operation IN ('retry', 'pause', 'resume')",
    )
    assert Counter(row["operation"] for row in audited) == {"retry": 6, "pause": 2, "resume": 2}
    assert all(row["changed_by"].startswith("token:operator") for row in audited)
