"""A caller that is restricted to a tenant learns nothing about another tenant."""

from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import text
from support.fleet import NIGHTLY, manifest, query
from support.serving import YAML, Api, api_on, apply, executions, new_token

from tenantcron.core.names import TenantId
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.events.cloud_events import EVENT_TYPES
from tenantcron.migrations.runner import open_to_api
from tenantcron.scheduler.inspect.schedule_status import UnknownError, read_schedule_status
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import (
    execution_history,
    manifest_versions,
    schedule_cursors,
    tenants,
    webhooks,
)
from tenantcron.store.rows.execution_history import ExecutionFilter
from tenantcron.store.rows.webhooks import Webhook

HUSH = "hush"


async def two_tenants(api: Api) -> str:
    """Make both, and return an execution of the other one."""
    await api.tenants("acme", f"{HUSH}-beta")
    await apply(api, "acme", {"nightly": NIGHTLY})
    await apply(api, f"{HUSH}-beta", {f"{HUSH}_job": NIGHTLY})
    await executions(api, "acme", 3)
    await executions(api, f"{HUSH}-beta", 3)
    async with await api.client("admin") as admin:
        path = f"/v1/tenants/{HUSH}-beta"
        await admin.post(f"{path}/schedules/{HUSH}_job:pause", json={"reason": HUSH})
        await admin.post(f"{path}:suspend", json={"reason": HUSH})
        rows = await admin.get("/v1/executions", params={"tenant": f"{HUSH}-beta"})
    return str(rows.json()["executions"][0]["id"])


def requests(tenant: str, schedule: str, execution: str) -> list[tuple[str, str, Any]]:
    """Return every request that names a tenant, a schedule or an execution."""
    path = f"/v1/tenants/{tenant}"
    body = manifest(tenant, {schedule: NIGHTLY})
    return [
        ("GET", path, None),
        ("GET", f"{path}/schedules", None),
        ("GET", f"{path}/schedules/{schedule}", None),
        ("GET", f"{path}/schedules/{schedule}/why", None),
        ("POST", f"{path}/schedules/{schedule}:pause", {"reason": "x"}),
        ("POST", f"{path}/schedules/{schedule}:resume", {}),
        ("POST", f"{path}/schedules/{schedule}:trigger", {}),
        ("GET", f"{path}/manifest-versions", None),
        ("GET", f"{path}/manifest-versions/1", None),
        ("GET", f"{path}/audit-records", None),
        ("POST", f"{path}/manifest:plan", body),
        ("POST", f"{path}/manifest:apply", body),
        ("GET", f"/v1/executions?tenant={tenant}", None),
        ("GET", f"/v1/executions/{execution}", None),
        ("POST", f"/v1/executions/{execution}:retry", None),
        ("POST", f"/v1/executions/{execution}:cancel", {}),
    ]


async def send(client: httpx.AsyncClient, method: str, path: str, body: Any) -> httpx.Response:
    if isinstance(body, str):
        return await client.request(method, path, content=body, headers=YAML)
    return await client.request(method, path, json=body)


@pytest.mark.parametrize("guarded", [True, False], ids=["with the role", "by the code alone"])
async def test_resources_of_another_tenant_look_like_missing_ones(
    database: Database, tmp_path: Path, database_url: str, guarded: bool
) -> None:
    async with api_on(database, tmp_path) as api:
        execution = await two_tenants(api)
        if not guarded:
            object.__setattr__(api.service, "row_level_security", False)
        before = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY id")
        there = requests(f"{HUSH}-beta", f"{HUSH}_job", execution)
        nowhere = requests(f"{HUSH}-zeta", f"{HUSH}_jog", f"{execution[:-4]}0000")
        token = await new_token(database, "admin", "acme")
        async with api.with_token(token) as bound:
            for (method, path, body), (_, missing, other) in zip(there, nowhere, strict=True):
                real = await send(bound, method, path, body)
                made_up = await send(bound, method, missing, other)
                assert real.status_code == made_up.status_code == 404, path
                expected = made_up.text.replace("-zeta", "-beta").replace("_jog", "_job")
                assert real.text == expected.replace(f"{execution[:-4]}0000", execution), path
                assert "etag" not in real.headers
        after = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY id")

    # Only the creation of the token is recorded; none of its requests had an effect.
    assert [row["entity_type"] for row in after[len(before) :]] == ["api_token"]


async def test_no_list_search_etag_or_error_of_a_bound_caller_shows_the_other_tenant(
    api: Api,
) -> None:
    execution = await two_tenants(api)
    async with await api.client("admin", "acme") as bound:
        answers = [
            await bound.get("/v1/tenants"),
            await bound.get("/v1/tenants", params={"status": "suspended"}),
            await bound.get("/v1/executions"),
            await bound.get("/v1/executions", params={"schedule": f"{HUSH[:3]}x"}),
            await bound.get("/v1/tenants/acme/schedules"),
            await bound.get("/v1/tenants/acme/schedules/nightly/why"),
            await bound.get("/v1/tenants/acme/audit-records"),
            # Similar names, for which the command line suggests a correction.
            await bound.get("/v1/tenants/hus-beta"),
            await bound.get("/v1/tenants/acme/schedules/hus_job"),
            await bound.get("/v1/tenants/acme/audit-records", params={"entity_type": "tenant"}),
        ]
        listed = (await bound.get("/v1/executions")).json()["executions"]
        etag = (await bound.get("/v1/tenants")).headers["etag"]
        async with await api.client("admin") as admin:
            await admin.post(f"/v1/tenants/{HUSH}-beta:resume", json={})
        same = await bound.get("/v1/tenants", headers={"If-None-Match": etag})

    assert all(HUSH not in answer.text for answer in answers)
    assert {row["tenant"] for row in listed} == {"acme"}
    assert execution not in [row["id"] for row in listed]
    # What happens to others does not even show as a change.
    assert same.status_code == 304


async def test_a_position_in_the_list_of_another_tenant_returns_only_own_rows(api: Api) -> None:
    await two_tenants(api)
    async with await api.client("admin") as admin, await api.client("viewer", "acme") as bound:
        page = await admin.get(
            "/v1/executions?limit=1", params={"tenant": f"{HUSH}-beta", "limit": 1}
        )
        rows = await bound.get("/v1/executions", params={"after": page.json()["next"]})

    assert {row["tenant"] for row in rows.json()["executions"]} <= {"acme"}


async def test_a_manifest_must_declare_the_tenant_of_the_path(api: Api, database_url: str) -> None:
    await two_tenants(api)
    body = manifest(f"{HUSH}-beta", {"stolen": NIGHTLY})
    async with await api.client("deployer", "acme") as bound:
        done = await bound.post("/v1/tenants/acme/manifest:apply", content=body, headers=YAML)

    assert (done.status_code, done.json()["code"]) == (422, "TC605")
    assert done.json()["tenants"][0]["diagnostics"][0]["code"] == "TC114"
    rows = query(
        database_url, "SELECT schedule_name FROM {}.tenant_schedule", f"tenant_{HUSH}-beta"
    )
    assert [row["schedule_name"] for row in rows] == [f"{HUSH}_job"]


async def test_row_level_security_shows_only_one_tenant(api: Api) -> None:
    """Every function of the store, asked without any condition on a tenant."""
    execution = await two_tenants(api)
    beta = TenantId(f"{HUSH}-beta")
    seen = api.database.seen_by(TenantId("acme"))
    async with seen.transaction() as connection:
        assert [row.id for row in await tenants.list_all(connection)] == ["acme"]
        assert await tenants.find(connection, beta) is None
        rows = await execution_history.newest(connection, ExecutionFilter(), 100)
        assert {row.tenant_id for row in rows} == {"acme"}
        assert await manifest_versions.latest(connection, [beta]) == {}
        assert await schedule_cursors.of_tenants(connection, [beta]) == []
        tables = ("schedule_definition", "audit_record", "execution_attempt", "manifest_version")
        for table in tables:
            found = await connection.scalars(text(f"SELECT x::text FROM tenantcron.{table} AS x"))  # noqa: S608 -- named above
            assert HUSH not in "".join(found)
        for table in ("tenant_schedule", "audit_record"):
            statement = text(f'SELECT count(*) FROM "tenant_{beta}".{table}')  # noqa: S608 -- named above
            assert await connection.scalar(statement) == 0
        with pytest.raises(UnknownError):
            await read_schedule_status(
                connection, ScheduleRef(beta, f"{HUSH}_job"), api.service.settings.lease, None
            )
    assert execution


async def test_no_column_that_the_role_may_read_shows_anything_of_others(api: Api) -> None:
    """Covers all tables, including future ones."""
    execution = await two_tenants(api)
    async with api.database.seen_by(TenantId("acme")).transaction() as connection:
        columns: dict[str, list[str]] = {}
        for table, column in await connection.execute(_READABLE):
            columns.setdefault(table, []).append(column)
        for table, names in columns.items():
            rows = await connection.execute(text(f"SELECT {', '.join(names)} FROM {table}"))  # noqa: S608 -- names of the catalog, quoted by it
            content = "".join(map(str, rows))
            assert HUSH not in content, table
            assert execution not in content, table
    assert {"tenantcron.execution", "tenant_acme.tenant_schedule"} <= columns.keys()
    assert len(columns) > 10


_READABLE = text(
    "SELECT a.attrelid::regclass::text, quote_ident(a.attname) FROM pg_attribute AS a"
    " JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE (n.nspname = 'tenantcron' OR n.nspname LIKE 'tenant\\_%') AND a.attnum > 0"
    " AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm')"
    " AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')"
    " AND has_schema_privilege(n.oid, 'USAGE') ORDER BY 1, a.attnum"
)


async def test_webhooks_require_access_to_all_tenants(api: Api) -> None:
    await two_tenants(api)
    hush = Webhook(
        name=HUSH, url="https://example.com", event_types=EVENT_TYPES, created_by="maria"
    )
    async with api.database.transaction() as connection:
        await webhooks.add(connection, hush)
    seen = {}
    for tenant in (TenantId("acme"), None):
        async with api.database.seen_by(tenant).transaction() as connection:
            seen[tenant] = [health.name for health in await webhooks.list_health(connection)]

    assert seen == {"acme": [], None: [HUSH]}


async def test_the_role_sees_nothing_without_a_tenant_setting(api: Api, database_url: str) -> None:
    await two_tenants(api)
    with psycopg.connect(database_url) as session:
        session.execute("SET ROLE tenantcron_api")
        assert session.execute("SELECT count(*) FROM tenantcron.tenant").fetchall() == [(0,)]
        assert session.execute("SELECT count(*) FROM tenantcron.execution").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        "TABLE tenantcron.api_token",
        "TABLE tenantcron.idempotency_key",
        "SELECT url FROM tenantcron.webhook",
        "SELECT data FROM tenantcron.webhook_event",
        "TABLE tenantcron.outbox",
        "UPDATE tenantcron.tenant SET weight = 2",
        "DELETE FROM tenantcron.execution",
        "INSERT INTO tenant_acme.audit_record DEFAULT VALUES",
        "SELECT * FROM tenantcron.execution_live",
        "CREATE TABLE tenantcron.mine (id int)",
    ],
)
async def test_the_role_may_read_only_the_tables_that_it_needs(
    api: Api, database_url: str, statement: str
) -> None:
    await api.tenants("acme")
    with psycopg.connect(database_url) as session:
        session.execute("SET ROLE tenantcron_api; SET tenantcron.tenant = '*'")
        with pytest.raises(InsufficientPrivilege):
            session.execute(statement)


async def test_migrate_grants_the_role_access_to_older_tables(api: Api, database_url: str) -> None:
    await two_tenants(api)
    query(database_url, "REVOKE ALL ON SCHEMA tenant_acme FROM tenantcron_api")
    await open_to_api(api.database)
    async with await api.client("viewer", "acme") as bound:
        rows = await bound.get("/v1/tenants/acme/schedules")

    assert [row["name"] for row in rows.json()["schedules"]] == ["nightly"]
