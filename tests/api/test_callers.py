"""Callers: authentication, roles, rate limits and audit records."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.fleet import NIGHTLY, Shell, manifest, query
from support.scraping import read
from support.serving import YAML, Api, api_on, apply, minute, new_token

from tenantcron.actor.grants import Grant, Role
from tenantcron.core.names import TenantId
from tenantcron.scheduler.metrics.server import METRICS_TYPE
from tenantcron.service.roles import ALLOWED, Permission, may
from tenantcron.store.connection.engine import Database


async def status(api: Api, token: str | None) -> int:
    async with api.with_token(token) as client:
        return (await client.get("/v1/tenants")).status_code


async def test_requests_without_a_token_are_rejected(api: Api) -> None:
    async with api.with_token(None) as client:
        got = await client.get("/v1/tenants")
        basic = await client.get("/v1/tenants", headers={"Authorization": "Basic YTpi"})

    assert (got.status_code, got.json()["code"]) == (401, "TC701")
    assert got.headers["www-authenticate"].startswith("Bearer")
    assert got.headers["content-type"] == "application/problem+json"
    assert basic.status_code == 401


async def test_an_invalid_token_is_rejected_without_a_reason(api: Api) -> None:
    good = await new_token(api.database, "admin")
    expired = await new_token(api.database, "admin", lives=timedelta(seconds=-1))
    other = await new_token(api.database, "admin")
    mixed = f"{good.rsplit('_', 1)[0]}_{other.rsplit('_', 1)[1]}"
    refused = [expired, mixed, f"{good}x", good[:-1], "tc_aaaaaaaaaaaa_" + "a" * 43, "a.b.c", "x"]
    answers = set()
    for token in refused:
        async with api.with_token(token) as client:
            got = await client.get("/v1/tenants")
        assert got.status_code == 401, token
        answers.add(got.text)

    assert len(answers) == 1
    assert await status(api, good) == 200


async def test_two_authorization_headers_are_refused(api: Api) -> None:
    good = await new_token(api.database, "admin")
    bearer = ("Authorization", f"Bearer {good}")
    async with api.with_token(None) as client:
        for second in (bearer, ("authorization", "Bearer x"), ("Authorization", "")):
            got = await client.get("/v1/tenants", headers=[bearer, second])
            assert (got.status_code, got.json()["code"]) == (400, "TC720"), second


async def test_a_revoked_token_is_refused_at_once(api: Api, database_url: str) -> None:
    token = await new_token(api.database, "admin")
    assert await status(api, token) == 200
    query(database_url, "UPDATE tenantcron.api_token SET revoked_at = now()")
    assert await status(api, token) == 401


async def test_changes_with_a_token_are_recorded_as_authenticated(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    token = await new_token(api.database, "admin", name="night-shift")
    async with api.with_token(token) as client:
        done = await client.post("/v1/tenants/acme:suspend", json={"reason": "unpaid"})

    rows = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY id DESC LIMIT 1")
    (row,) = rows
    assert (row["changed_by"], row["actor_type"], row["actor_source"], row["authenticated"]) == (
        "token:night-shift",
        "pipeline",
        "api",
        True,
    )
    assert done.headers["x-correlation-id"] == str(row["correlation_id"])


JSON = {"Content-Type": "application/json"}
READ, READ_TASKS, PLAN, SUBMIT, OPERATE, APPLY, MANAGE = Permission
REQUESTS = {
    READ: ("GET", "/v1/tenants/acme", None),
    READ_TASKS: ("GET", "/v1/tenants/acme/tasks", None),
    PLAN: ("POST", "/v1/tenants/acme/manifest:plan", manifest("acme", {"nightly": NIGHTLY})),
    # The first one is accepted with 202.
    SUBMIT: ("POST", "/v1/tenants/acme/tasks", '{"saga": "send", "idempotency_key": "1"}'),
    OPERATE: ("POST", "/v1/tenants/acme/schedules/nightly:trigger", "{}"),
    APPLY: ("POST", "/v1/tenants/acme/manifest:apply", manifest("acme", {"nightly": NIGHTLY})),
    MANAGE: ("PATCH", "/v1/tenants/acme", '{"max_schedules": 30}'),
}


async def test_each_role_has_exactly_the_documented_permissions(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    async with await api.client("submitter") as submitter:
        method, path, body = REQUESTS[SUBMIT]
        first = await submitter.request(method, path, content=body, headers=JSON)
        assert first.status_code == 202
    for role in Role:
        for tenant in (None, "acme"):
            async with await api.client(role, tenant) as client:
                for permission, (method, path, body) in REQUESTS.items():
                    kind = YAML if "manifest" in path else JSON
                    got = await client.request(method, path, content=body, headers=kind)
                    allowed = may(Grant(role, TenantId(tenant) if tenant else None), permission)
                    assert got.status_code == (200 if allowed else 403), (role, tenant, permission)


def test_a_role_restricted_to_a_tenant_cannot_manage_tenants() -> None:
    assert all(not may(Grant(role, TenantId("acme")), MANAGE) for role in Role)
    assert [role for role in Role if MANAGE in ALLOWED[role]] == [Role.ADMIN]


async def test_only_an_admin_creates_tenants_by_applying(api: Api, database_url: str) -> None:
    body = manifest("newcomer", {"nightly": NIGHTLY})
    path = "/v1/tenants/newcomer/manifest:apply?create_tenants=true"
    async with await api.client("deployer") as deployer:
        refused = await deployer.post(path, content=body, headers=YAML)
    assert query(database_url, "SELECT id FROM tenantcron.tenant") == []
    async with await api.client("admin") as admin:
        done = await admin.post(path, content=body, headers=YAML)

    assert (refused.status_code, done.status_code) == (403, 200)


async def test_anonymous_callers_on_this_machine_are_served_as_unauthenticated(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    async with api_on(database, tmp_path, anonymous=True) as api, api.with_token(None) as client:
        await api.tenants("acme")
        done = await client.post("/v1/tenants/acme:suspend", json={"reason": "unpaid"})
        wrong = await client.get("/v1/tenants", headers={"Authorization": "Bearer tc_x"})

    assert (done.status_code, wrong.status_code) == (200, 401)
    (row,) = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY id DESC LIMIT 1")
    assert (row["changed_by"], row["authenticated"]) == ("anonymous", False)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        # Another port of this machine is another site, which may show foreign content.
        {"Origin": "http://127.0.0.1:3000"},
    ],
    ids=str,
)
async def test_a_web_page_cannot_act_as_the_anonymous_caller(
    database: Database, tmp_path: Path, headers: dict[str, str]
) -> None:
    async with api_on(database, tmp_path, anonymous=True) as api, api.with_token(None) as client:
        got = await client.get("/v1/tenants", headers=headers)

    assert got.status_code == 401


def test_anonymous_access_is_refused_on_any_other_address(tmp_path: Path) -> None:
    called = Shell(tmp_path)("serve", "--anonymous", "--host", "0.0.0.0")  # noqa: S104 -- refused

    assert (called.code, "use --host 127.0.0.1" in called.err) == (2, True)


async def test_requests_over_the_rate_limit_are_rejected_in_every_process(
    database: Database, tmp_path: Path
) -> None:
    async with (
        api_on(database, tmp_path, api_rate_limit=5) as first,
        api_on(database, tmp_path, api_rate_limit=5) as second,
    ):
        # If a minute ends in between, start again.
        began = None
        while began is None or began != await minute(database):
            began = await minute(database)
            token = await new_token(database, "viewer")
            codes = [await status(api, token) for api in (first, second) * 6]
            async with second.with_token(token) as client:
                refused = await client.get("/v1/tenants")
        other = await new_token(database, "viewer")
        assert await status(first, other) == 200

    assert codes == [200] * 5 + [429] * 7
    assert refused.json()["code"] == "TC709"
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_a_wrong_secret_does_not_use_the_requests_of_a_token(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    token = await new_token(database, "viewer")
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    async with api_on(database, tmp_path, api_rate_limit=3) as api:
        assert {await status(api, wrong) for _ in range(10)} == {401}
        assert await status(api, token) == 200
    assert [row["requests"] for row in query(database_url, "TABLE tenantcron.api_usage")] == [1]


def test_the_command_line_creates_lists_and_revokes_tokens(
    database_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, database_url)
    shell("tenant", "create", "acme")
    made = json.loads(
        shell(
            "token", "create", "ci", "--role", "deployer", "--tenant", "acme", "--format", "json"
        ).out
    )
    listed = shell("token", "list")
    again = shell("token", "create", "ci", "--role", "viewer")
    revoked = shell("token", "revoke", made["id"])
    unknown = shell("token", "revoke", "unknown")

    secret = made["token"].rsplit("_", 1)[1]
    assert made["token"].startswith(f"tc_{made['id']}_")
    assert (made["role"], made["tenant"]) == ("deployer", "acme")
    assert secret not in listed.out
    assert made["id"] in listed.out
    assert (again.code, "revoke it first" in again.err) == (1, True)
    assert revoked.code == 0
    assert unknown.code == 1
    (kept,) = query(database_url, "SELECT * FROM tenantcron.api_token")
    assert secret.encode() not in bytes(kept["digest"])
    records = query(
        database_url, "SELECT * FROM tenantcron.audit_record WHERE entity_type = 'api_token'"
    )
    assert [row["operation"] for row in records] == ["create", "update"]
    assert all("digest" not in json.dumps(row["after"]) for row in records)
    assert shell("token", "create", "ci", "--role", "viewer").code == 0


@pytest.mark.parametrize(
    "wrong",
    [
        ("create", "ci"),
        ("create", "ci", "--role", "root"),
        ("create", "C I", "--role", "viewer"),
        ("create", "ci", "--role", "viewer", "--expires-in", "1000d"),
        ("create", "ci", "--role", "viewer", "--expires-in", "soon"),
        ("create", "ci", "--role", "viewer", "--tenant", "No"),
    ],
)
def test_wrong_usage_exits_with_2(
    database_url: str, tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    assert Shell(tmp_path, database_url)("token", *wrong).code == 2


async def test_responses_have_security_headers_for_browsers(api: Api) -> None:
    async with await api.client("viewer") as viewer:
        got = await viewer.get("/v1/tenants", headers={"Origin": "https://evil.example"})

    assert got.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in got.headers["content-security-policy"]
    assert "access-control-allow-origin" not in got.headers
    assert "private" in got.headers["cache-control"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/tenants/acme/manifest:plan", "application/yaml"),
        ("/v1/tenants/acme:suspend", "application/json"),
        ("/ui/sign-in", "application/x-www-form-urlencoded"),
    ],
)
async def test_a_too_large_body_is_rejected_before_it_is_read(
    api: Api, path: str, kind: str
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"#" * 65_536

    headers = {"Content-Type": kind}
    async with await api.client("admin") as client:
        with_length = await client.post(path, content=b"#" * 2_000_000, headers=headers)
        chunked = await client.post(path, content=endless(), headers=headers)

    assert (with_length.status_code, with_length.json()["code"]) == (413, "TC706")
    assert chunked.status_code == 413


async def test_no_response_echoes_a_possible_secret(api: Api) -> None:
    token = await new_token(api.database, "admin")
    async with api.with_token(token) as client:
        answers = [
            await client.get("/v1/tenants", params={"limit": token}),
            await client.post("/v1/tenants", json={"tenant": token}),
            await client.post("/v1/tenants", json={token: token}),
            await client.post("/v1/tenants", content=f'{{"tenant": "{token}'),
        ]
    async with api.with_token(f"{token}x") as client:
        answers.append(await client.get("/v1/tenants"))

    assert {answer.status_code for answer in answers} == {422, 401}
    secret = token.rsplit("_", 1)[1]
    for answer in answers[:2] + answers[3:]:
        assert secret not in answer.text


async def test_probes_need_no_token(api: Api) -> None:
    async with api.with_token(None) as client:
        healthy = await client.get("/healthz")
        ready = await client.get("/readyz")
        keys = await client.get("/.well-known/jwks.json")

    assert healthy.json() == {"healthy": True}
    assert ready.json() == {"ready": True, "row_level_security": True}
    # Without a master key there are no public keys.
    assert keys.status_code == 404


async def test_metrics_require_access_to_all_tenants(api: Api) -> None:
    await api.tenants("acme")
    async with api.with_token(None) as client:
        assert (await client.get("/metrics")).status_code == 401
    async with api.with_token(await new_token(api.database, "admin", "acme")) as client:
        bound = await client.get("/metrics")
    async with api.with_token(await new_token(api.database, "viewer")) as client:
        response = await client.get("/metrics")

    assert (bound.status_code, bound.json()["code"]) == (403, "TC702")
    assert response.headers["Content-Type"] == METRICS_TYPE
    scraped = read(response.text)
    assert (scraped.value("database_up"), scraped.value("replicas")) == (1, 0)
    assert "tenantcron_executions_fired_total" not in scraped.names, "it fires nothing"


async def test_the_public_keys_of_execution_tokens_need_no_authentication(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    master = b64encode(bytes(range(32))).decode()
    shell = Shell(tmp_path, database_url)
    made = await asyncio.to_thread(
        shell, "keys", "rotate", "--format", "json", TENANTCRON_MASTER_KEY=master
    )
    async with api_on(database, tmp_path, master_key=master) as api, api.with_token(None) as client:
        keys = await client.get("/.well-known/jwks.json")

    (key,) = keys.json()["keys"]
    assert key["kid"] == json.loads(made.out)["kid"]
    assert "d" not in key


async def test_an_unresponsive_database_is_503_with_retry_after(
    database: Database, tmp_path: Path
) -> None:
    timeout = timedelta(seconds=1)
    async with api_on(database, tmp_path, api_timeout=timeout) as api:
        await api.tenants("acme")
        async with await api.client("admin") as admin, database.transaction() as connection:
            await connection.exec_driver_sql("LOCK TABLE tenantcron.tenant")
            slow = await admin.get("/v1/tenants")
            ready = await admin.get("/healthz")

    assert (slow.status_code, slow.json()["code"]) == (503, "TC710")
    assert int(slow.headers["retry-after"]) >= 1
    assert ready.status_code == 200
