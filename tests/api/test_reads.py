"""Reads: lists, pages, filters and ETags."""

import re
from uuid import UUID

import pytest
from sqlalchemy import text
from support.explaining import explained
from support.fleet import NIGHTLY, numbered, query
from support.serving import Api, apply, executions, pages

from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import SchemaName
from tenantcron.store.rows import audit_records, execution_history, tenants
from tenantcron.store.rows.audit_records import AuditFilter
from tenantcron.store.rows.execution_history import ExecutionFilter


async def test_tenants_are_listed_by_id_and_filtered_by_status(api: Api) -> None:
    await api.tenants("acme", "beta", "gamma")
    async with await api.client("admin") as admin:
        await admin.post("/v1/tenants/beta:suspend", json={"reason": "unpaid"})
        ids = [row["tenant"] for row in await pages(admin, "/v1/tenants", "tenants")]
        suspended = (await admin.get("/v1/tenants", params={"status": "suspended"})).json()

    assert ids == ["acme", "beta", "gamma"]
    assert [row["tenant"] for row in suspended["tenants"]] == ["beta"]


async def test_schedules_are_listed_by_name_with_their_next_executions(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", numbered(5) | {"off": f"{NIGHTLY}, enabled: false"})
    async with await api.client("viewer") as viewer:
        path = "/v1/tenants/acme/schedules"
        rows = await pages(viewer, path, "schedules")
        off = (await viewer.get(path, params={"enabled": False})).json()["schedules"]
        of_saga = (await viewer.get(path, params={"saga": "s001"})).json()["schedules"]

    assert [row["name"] for row in rows] == ["off", "s000", "s001", "s002", "s003", "s004"]
    assert len(rows[1]["next_executions"]) == 3
    assert [row["name"] for row in off] == ["off"]
    assert [row["name"] for row in of_saga] == ["s001"]


async def test_executions_are_listed_newest_first_and_each_exactly_once(api: Api) -> None:
    await api.tenants("acme", "beta")
    await executions(api, "acme", 9)
    await executions(api, "acme", 4, "PENDING")
    await executions(api, "beta", 3)
    async with await api.client("viewer") as viewer:
        rows = await pages(viewer, "/v1/executions", "executions", limit=2)
        of_acme = await pages(viewer, "/v1/executions", "executions", limit=3, tenant="acme")
        pending = await pages(viewer, "/v1/executions", "executions", state="PENDING")

    assert len(rows) == len({row["id"] for row in rows}) == 16
    order = [(row["scheduled_for"], UUID(row["id"])) for row in rows]
    assert order == sorted(order, reverse=True)
    assert {row["tenant"] for row in of_acme} == {"acme"}
    assert len(of_acme) == 13
    assert {row["state"] for row in pending} == {"PENDING"}


async def test_the_former_name_of_retrying_is_refused_and_the_error_has_the_new_one(
    api: Api,
) -> None:
    async with await api.client("viewer") as viewer:
        got = await viewer.get("/v1/executions", params={"state": "FAILED"})

    assert got.status_code == 422
    assert "RETRYING" in got.text


async def test_concurrent_inserts_do_not_shift_pages(api: Api) -> None:
    await api.tenants("acme")
    await executions(api, "acme", 9)
    async with await api.client("viewer") as viewer:
        first = (await viewer.get("/v1/executions", params={"limit": 4})).json()
        before = {row["id"] for row in await pages(viewer, "/v1/executions", "executions")}
        await executions(api, "acme", 2)
        rest = await viewer.get("/v1/executions", params={"limit": 500, "after": first["next"]})

    seen = [row["id"] for row in first["executions"] + rest.json()["executions"]]
    assert len(seen) == len(set(seen))
    assert before <= set(seen)


async def test_executions_are_filtered_by_time(api: Api) -> None:
    await api.tenants("acme")
    await executions(api, "acme", 9)
    async with await api.client("viewer") as viewer:
        rows = (await viewer.get("/v1/executions")).json()["executions"]
        newest, oldest = rows[0]["scheduled_for"], rows[-1]["scheduled_for"]
        since = await viewer.get("/v1/executions", params={"since": newest})
        until = await viewer.get("/v1/executions", params={"until": newest})

    assert {row["scheduled_for"] for row in since.json()["executions"]} == {newest}
    assert newest not in {row["scheduled_for"] for row in until.json()["executions"]}
    assert oldest in {row["scheduled_for"] for row in until.json()["executions"]}


async def test_versions_of_a_manifest_are_listed_and_shown(api: Api) -> None:
    await api.tenants("acme")
    for count in (1, 2, 3):
        await apply(api, "acme", numbered(count))
    async with await api.client("viewer") as viewer:
        path = "/v1/tenants/acme/manifest-versions"
        rows = await pages(viewer, path, "manifest_versions")
        shown = (await viewer.get(f"{path}/2")).json()
        missing = await viewer.get(f"{path}/4")

    assert [row["version"] for row in rows] == [3, 2, 1]
    assert [schedule["schedule_name"] for schedule in shown["document"]["schedules"]] == [
        "s000",
        "s001",
    ]
    assert (missing.status_code, missing.json()["code"]) == (404, "TC703")


async def test_a_path_with_a_trailing_slash_is_not_redirected(api: Api) -> None:
    async with await api.client("viewer") as viewer:
        answer = await viewer.get("/v1/tenants/", headers={"Host": "evil.example"})

    assert (answer.status_code, answer.json()["code"]) == (404, "TC721")
    assert "location" not in answer.headers


async def test_audit_records_of_both_schemas_are_in_one_list(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", numbered(3))
    async with await api.client("operator") as operator:
        path = "/v1/tenants/acme"
        await operator.post(f"{path}/schedules/s000:pause", json={"reason": "partner is down"})
        rows = await pages(operator, f"{path}/audit-records", "audit_records")
        paused = await operator.get(f"{path}/audit-records", params={"entity_type": "pause"})
        of_schedule = await operator.get(f"{path}/audit-records", params={"entity_id": "s001"})

    kinds = [(row["entity_type"], row["operation"]) for row in rows]
    assert kinds == [("pause", "pause"), *[("schedule", "create")] * 3, ("tenant", "create")]
    made = [row["changed_at"] for row in rows]
    assert made == sorted(made, reverse=True)
    (pause,) = paused.json()["audit_records"]
    assert (pause["entity_id"], pause["after"]["reason"]) == ("acme/s000", "partner is down")
    assert [row["entity_id"] for row in of_schedule.json()["audit_records"]] == ["s001"]


async def test_audit_records_are_filtered_by_schedule_actor_and_time(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", numbered(3))
    async with await api.client("operator") as operator:
        path = "/v1/tenants/acme"
        for name in ("s000", "s001"):
            await operator.post(f"{path}/schedules/{name}:pause", json={"reason": "partner"})
        records = f"{path}/audit-records"
        of_schedule = await pages(operator, records, "audit_records", limit=1, schedule="s000")
        by_ada = await pages(operator, records, "audit_records", actor="ada")
        newest = of_schedule[0]["changed_at"]
        older = await pages(operator, records, "audit_records", schedule="s000", until=newest)

    assert [(row["entity_type"], row["entity_id"]) for row in of_schedule] == [
        *(("pause", "acme/s000"), ("schedule", "s000"))
    ]
    assert [row["entity_type"] for row in by_ada] == ["tenant"]
    assert older == of_schedule[1:]


async def test_a_schedule_has_its_state_and_why_it_did_not_run(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    async with await api.client("viewer") as viewer:
        shown = (await viewer.get("/v1/tenants/acme/schedules/nightly")).json()
        why = (await viewer.get("/v1/tenants/acme/schedules/nightly/why")).json()

    assert (shown["name"], shown["cron"], shown["definition"]["overlap"]) == (
        "nightly",
        "0 2 * * *",
        "skip",
    )
    assert why["answer"] == "No scheduler is running, so nothing fires or starts."


async def test_an_execution_is_shown_with_its_attempts(api: Api) -> None:
    await api.tenants("acme")
    await executions(api, "acme", 1)
    async with await api.client("viewer") as viewer:
        (row,) = (await viewer.get("/v1/executions")).json()["executions"]
        shown = (await viewer.get(f"/v1/executions/{row['id']}")).json()

    assert shown == row | {"attempts": [], "running_log": None}


_ATTEMPTS = (
    "INSERT INTO tenantcron.execution_attempt (execution_id, scheduled_for, attempt, worker_id,"
    " started_at, finished_at, outcome, error, log)"
    " SELECT id, scheduled_for, n, 'host:1', now(), now(), 'FAILED', 'boom', 'line ' || n"
    " FROM tenantcron.execution, generate_series(1, 2) AS n"
)


async def test_the_log_of_an_execution_has_all_its_attempts(api: Api, database_url: str) -> None:
    await api.tenants("acme", "beta")
    await executions(api, "acme", 1, "DEAD")
    query(database_url, _ATTEMPTS)
    async with await api.client("viewer") as viewer, await api.client("viewer", "beta") as other:
        (row,) = (await viewer.get("/v1/executions")).json()["executions"]
        shown = (await viewer.get(f"/v1/executions/{row['id']}/log")).json()
        hidden = await other.get(f"/v1/executions/{row['id']}/log")

    assert (shown["execution"], shown["state"]) == (row["id"], "DEAD")
    assert [(attempt["attempt"], attempt["log"]) for attempt in shown["attempts"]] == [
        *((1, "line 1"), (2, "line 2"))
    ]
    assert hidden.status_code == 404


_START = (
    "UPDATE tenantcron.execution SET state = 'RUNNING', attempt = 1, worker_id = 'host:1',"
    " lease_until = now(), lease_token = gen_random_uuid(), started_at = now()"
)
_LIVE = (
    "INSERT INTO tenantcron.live_log (execution_id, attempt, end_position, tenant_id, lines)"
    " SELECT id, attempt, 8 * n, tenant_id, 'line ' || n || E'.\\n'"
    " FROM tenantcron.execution, generate_series(2, 3) AS n"
)


async def test_the_log_of_a_running_attempt_is_returned_with_its_position(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    await executions(api, "acme", 1)
    query(database_url, _START)
    query(database_url, _LIVE)
    async with await api.client("viewer", "acme") as viewer:
        (row,) = (await viewer.get("/v1/executions")).json()["executions"]
        shown = (await viewer.get(f"/v1/executions/{row['id']}")).json()
        log = (await viewer.get(f"/v1/executions/{row['id']}/log")).json()

    expected = {"attempt": row["attempt"], "position": 8, "log": "line 2.\nline 3.\n"}
    assert (shown["running_log"], log["running_log"]) == (expected, expected)


async def test_executions_are_found_by_the_first_characters_of_their_id(api: Api) -> None:
    await api.tenants("acme", "beta")
    await executions(api, "acme", 20)
    async with await api.client("viewer") as viewer, await api.client("viewer", "beta") as other:
        rows = (await viewer.get("/v1/executions")).json()["executions"]
        wanted = rows[7]["id"]
        prefixes = (wanted[:8], wanted[:13].upper(), wanted, wanted.replace("-", ""))
        found = [await pages(viewer, "/v1/executions", "executions", id=id_) for id_ in prefixes]
        hidden = await pages(other, "/v1/executions", "executions", id=wanted)
        invalid = [
            await viewer.get("/v1/executions", params={"id": id_})
            for id_ in (wanted[:7], "not-an-id", f"{wanted}0")
        ]

    assert found == [[rows[7]]] * 4
    assert hidden == []
    assert {answer.status_code for answer in invalid} == {422}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tenants",
        "/v1/tenants/acme",
        "/v1/tenants/acme/schedules",
        "/v1/tenants/acme/manifest-versions",
        "/v1/tenants/acme/audit-records",
    ],
)
async def test_a_cached_resource_is_304_until_it_changes(api: Api, path: str) -> None:
    await api.tenants("acme")
    async with await api.client("admin") as admin:
        first = await admin.get(path)
        same = await admin.get(path, headers={"If-None-Match": first.headers["etag"]})
        several = f'"other", W/{first.headers["etag"]}'
        weak = await admin.get(path, headers={"If-None-Match": several})
        await apply(api, "acme", {"nightly": NIGHTLY})
        after = await admin.get(path, headers={"If-None-Match": first.headers["etag"]})

    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == first.headers["etag"]
    assert weak.status_code == 304
    assert after.status_code == 200
    assert after.headers["etag"] != first.headers["etag"]


async def test_an_invalid_position_is_rejected_or_returns_an_empty_page(api: Api) -> None:
    await api.tenants("acme")
    of_acme = ("schedules", "manifest-versions", "audit-records")
    paths = ["/v1/tenants", "/v1/executions", *(f"/v1/tenants/acme/{name}" for name in of_acme)]
    places = ["!", "W10", "eyJhIjoxfQ", "WzFd", "WyJcdTAwMDAiXQ", "a" * 999, "WyJ4IiwieSJd", "é"]
    async with await api.client("viewer") as viewer:
        for path in paths:
            for place in places:
                got = await viewer.get(path, params={"after": place})
                assert got.status_code in (200, 422), (path, place)
                if got.status_code == 422:
                    assert got.json()["errors"][0]["name"] == "after"


async def test_lists_are_read_in_the_order_of_an_index(api: Api) -> None:
    names = [f"t{number}" for number in range(40)]
    await api.tenants("acme")
    async with api.database.transaction() as connection:
        for name in names:
            await tenants.add(connection, TenantId(name), SchemaName(f"tenant_{name}"))
    for name in ("acme", *names):
        await executions(api, name, 150)
    async with api.database.transaction() as connection:
        await connection.execute(text("ANALYZE tenantcron.execution, tenantcron.tenant"))

    newest = await explained(
        api.database,
        lambda session: execution_history.page(session, ExecutionFilter(), before=None, limit=50),
    )
    of_tenant = await explained(
        api.database,
        lambda session: execution_history.page(
            session, ExecutionFilter(TenantId("acme")), before=None, limit=50
        ),
    )
    records = await explained(
        api.database,
        lambda session: anext(
            audit_records.page(
                session, TenantId("acme"), None, AuditFilter(), before=None, limit=50
            )
        ),
    )
    first = UUID("12345678" + 24 * "0")
    by_id = await explained(
        api.database,
        lambda session: execution_history.page(
            session,
            ExecutionFilter(ids=(first, UUID("12345678" + 24 * "f"))),
            before=None,
            limit=50,
        ),
    )
    assert "scheduled_for_id_idx" in newest
    assert "_pkey" in by_id
    # The table of live executions is small, so any plan is fine.
    assert not re.search('"Seq Scan"[^{]*"Relation Name": "execution_past', newest + of_tenant)
    assert "tenant_id_scheduled_for_id_idx" in of_tenant
    assert "audit_record_tenant_idx" in records
