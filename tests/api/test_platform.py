"""What admins of the platform do by the API: tokens, webhooks, keys, audit and refresh."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from support.fleet import NIGHTLY, query
from support.platform import TABLE
from support.services import answering, service
from support.serving import Api, api_on, apply, new_token

from tenantcron.actor.grants import Grant, Role
from tenantcron.core.names import TenantId
from tenantcron.service.roles import covers
from tenantcron.store.connection.engine import Database

POLICY = (
    '[policy]\nallowed_hosts = ["ops.internal", "http://127.0.0.1"]\n'
    'allowed_networks = ["127.0.0.0/8"]\nallowed_secrets = ["env:HOOK_*"]\n'
)
URL = "https://ops.internal/hooks?key=hush"
MASTER_KEY = b64encode(bytes(range(32))).decode()
KEY = {"Idempotency-Key": "once"}


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """A server with a policy and a master key."""
    (tmp_path / "tenantcron.toml").write_text(POLICY, encoding="utf-8")
    async with api_on(database, tmp_path, master_key=MASTER_KEY) as running:
        yield running


async def test_a_token_is_created_used_listed_and_revoked(api: Api) -> None:
    await api.tenants("acme")
    async with await api.client("admin") as admin:
        body = {"name": "ci", "role": "deployer", "tenant": "acme", "expires_in": "7d"}
        created = await admin.post("/v1/tokens", json=body)
        token = created.json()["token"]
        async with api.with_token(token) as deployer:
            before = await deployer.get("/v1/tenants")
            revoked = await admin.post(f"/v1/tokens/{created.json()['id']}:revoke")
            after = await deployer.post("/v1/tenants/acme/manifest:plan")
        listed = (await admin.get("/v1/tokens")).json()["tokens"]

    assert created.status_code == 201
    assert [row["tenant"] for row in before.json()["tenants"]] == ["acme"]
    assert after.status_code == 401
    (row,) = [row for row in listed if row["name"] == "ci"]
    assert row == revoked.json()
    assert (row["role"], row["tenant"], row["revoked_at"] is None) == ("deployer", "acme", False)
    assert row["created_by"].startswith("token:admin-")
    assert "token" not in row


async def test_a_repeated_creation_of_a_token_makes_one_and_stores_no_secret(
    api: Api, database_url: str
) -> None:
    async with await api.client("admin") as admin:
        body = {"name": "ci", "role": "viewer"}
        first = await admin.post("/v1/tokens", json=body, headers=KEY)
        again = await admin.post("/v1/tokens", json=body, headers=KEY)
        other = await admin.post("/v1/tokens", json=body)

    assert again.json() == first.json() | {"token": None}
    assert (other.status_code, other.json()["code"]) == (409, "TC704")
    secret = first.json()["token"].rsplit("_", 1)[1]
    stored = query(database_url, "SELECT answer FROM tenantcron.idempotency_key")
    assert secret not in json.dumps([row["answer"] for row in stored])


@pytest.mark.parametrize(
    "changes",
    [
        {"role": "root"},
        {"name": "not a name"},
        {"tenant": "Not A Tenant"},
        {"expires_in": "400d"},
        {"expires_in": "soon"},
        {"admin": True},
    ],
    ids=str,
)
async def test_an_invalid_token_is_rejected(api: Api, changes: dict[str, object]) -> None:
    async with await api.client("admin") as admin:
        rejected = await admin.post("/v1/tokens", json={"name": "ci", "role": "viewer"} | changes)

    assert (rejected.status_code, rejected.json()["code"]) == (422, "TC707")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/tokens"),
        ("POST", "/v1/tokens"),
        ("POST", "/v1/tokens/0k3v9x2m4p1q:revoke"),
        ("GET", "/v1/webhooks"),
        ("POST", "/v1/webhooks"),
        ("POST", "/v1/webhooks/ops:test"),
        ("POST", "/v1/webhooks/ops:remove"),
        ("GET", "/v1/keys"),
        ("POST", "/v1/keys:rotate"),
        ("POST", "/v1/keys:rewrap"),
        ("POST", "/v1/tenants:refresh"),
    ],
)
async def test_only_admins_of_all_tenants_manage_the_platform(
    api: Api, method: str, path: str
) -> None:
    await api.tenants("acme")
    bodies = {
        "/v1/tokens": {"name": "more", "role": "admin"},
        "/v1/webhooks": {"name": "ops", "url": URL},
    }
    body = bodies.get(path) if method == "POST" else None
    for role, tenant in (("operator", None), ("deployer", None), ("admin", "acme")):
        async with await api.client(role, tenant) as caller:
            answer = await caller.request(method, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "TC702"), role


@pytest.mark.parametrize(
    ("has", "other", "is_covered"),
    [
        (("admin", None), ("admin", None), True),
        (("admin", None), ("admin", "acme"), True),
        (("operator", None), ("viewer", "acme"), True),
        (("operator", None), ("deployer", None), False),
        (("deployer", None), ("operator", None), False),
        (("viewer", None), ("operator", None), False),
        (("admin", "acme"), ("viewer", None), False),
        (("admin", "acme"), ("viewer", "globex"), False),
        (("admin", "acme"), ("operator", "acme"), True),
    ],
)
def test_a_grant_covers_no_more_than_it_allows(
    has: tuple[str, str | None], other: tuple[str, str | None], is_covered: bool
) -> None:
    def grant(role: str, tenant: str | None) -> Grant:
        return Grant(Role(role), None if tenant is None else TenantId(tenant))

    assert covers(grant(*has), grant(*other)) is is_covered


async def test_webhooks_are_added_disabled_and_removed(platform: Api, database_url: str) -> None:
    await platform.tenants("acme")
    async with await platform.client("admin") as admin:
        body = {"name": "ops", "url": URL, "events": ["schedule"], "secret": "env:HOOK_SECRET"}
        added = await admin.post("/v1/webhooks", json=body | {"tenants": ["acme"]}, headers=KEY)
        again = await admin.post("/v1/webhooks", json=body | {"tenants": ["acme"]}, headers=KEY)
        disabled = await admin.post("/v1/webhooks/ops:disable", json={"reason": "moving"})
        enabled = await admin.post("/v1/webhooks/ops:enable")
        (listed,) = (await admin.get("/v1/webhooks")).json()["webhooks"]
        removed = await admin.post("/v1/webhooks/ops:remove")
        missing = await admin.post("/v1/webhooks/ops:remove")

    assert (added.status_code, again.json()) == (201, added.json())
    assert added.json()["calls"] == "https://ops.internal"
    assert added.json()["secret"] == body["secret"]
    assert disabled.json()["disabled_reason"] == "moving"
    assert enabled.json()["disabled_at"] is None
    assert listed == enabled.json() == removed.json()
    assert missing.status_code == 404
    assert "hush" not in added.text
    recorded = "SELECT changed_by FROM tenantcron.audit_record WHERE entity_type = 'webhook'"
    assert {row["changed_by"].split(":")[0] for row in query(database_url, recorded)} == {"token"}


async def test_all_problems_of_a_webhook_are_reported_with_their_fields(platform: Api) -> None:
    body = {
        "name": "not a name",
        "url": "https://evil.example/",
        "events": ["execution.deaf"],
        "tenants": ["Not A Tenant"],
        "secret": "env:MASTER_KEY",
    }
    async with await platform.client("admin") as admin:
        rejected = (await admin.post("/v1/webhooks", json=body)).json()
        plain = await admin.post("/v1/webhooks", json={"name": "ops", "url": URL, "secret": "hush"})

    assert rejected["code"] == "TC707"
    assert [error["name"] for error in rejected["errors"]] == [
        *("name", "url", "events", "tenants", "secret")
    ]
    assert "did you mean execution.dead?" in rejected["errors"][2]["message"]
    assert plain.json()["errors"][0]["name"] == "secret"


async def test_a_test_event_is_sent_from_the_server(database: Database, tmp_path: Path) -> None:
    async with service(answering(204)) as receiver:
        url = f"http://127.0.0.1:{receiver.port}"
        policy = f"{POLICY}allowed_ports = [{receiver.port}]\n"
        (tmp_path / "tenantcron.toml").write_text(policy, encoding="utf-8")
        async with api_on(database, tmp_path) as api, await api.client("admin") as admin:
            added = await admin.post("/v1/webhooks", json={"name": "ops", "url": f"{url}/in"})
            sent = await admin.post("/v1/webhooks/ops:test")
            receiver.behaviour = answering(500)
            failed = await admin.post("/v1/webhooks/ops:test")

    assert added.status_code == 201, added.text
    assert json.loads(receiver.received[0].body)["id"] == sent.json()["event"]
    assert (failed.status_code, failed.json()["code"]) == (409, "TC704")


async def test_signing_keys_are_rotated_retired_and_encrypted_again(platform: Api) -> None:
    async with await platform.client("admin") as admin:
        first = (await admin.post("/v1/keys:rotate")).json()
        second = (
            await admin.post("/v1/keys:rotate", json={"algorithm": "ES256", "now": True})
        ).json()
        retired = await admin.post(f"/v1/keys/{first['kid']}:retire")
        active = await admin.post(f"/v1/keys/{second['kid']}:retire")
        unknown = await admin.post("/v1/keys/none:retire")
        rewrapped = await admin.post("/v1/keys:rewrap")
        both = await admin.post("/v1/keys:rotate", json={"lead": "1h", "now": True})
        listed = (await admin.get("/v1/keys")).json()

    assert (first["state"], second["algorithm"], second["state"]) == ("active", "ES256", "active")
    assert retired.json()["state"] == "retired"
    assert [answer.status_code for answer in (active, unknown, both)] == [409, 409, 422]
    assert rewrapped.json() == {"rewrapped": 0}
    assert {key["kid"]: key["state"] for key in listed["keys"]} == {
        first["kid"]: "retired",
        second["kid"]: "active",
    }
    assert listed["configured"] == []


async def test_an_audit_covers_what_the_caller_sees(api: Api) -> None:
    await api.tenants("acme", "globex")
    for tenant in ("acme", "globex"):
        await apply(api, tenant, {"nightly": NIGHTLY})
    async with await api.client("viewer") as viewer, await api.client("viewer", "acme") as bound:
        everything = (await viewer.get("/v1/audit")).json()
        own = (await bound.get("/v1/audit")).json()
        of_globex = (await viewer.get("/v1/audit", params={"tenant": "globex"})).json()
        hidden = await bound.get("/v1/audit", params={"tenant": "globex"})

    assert (everything["tenants"], own["tenants"], of_globex["tenants"]) == (2, 1, 1)
    assert everything.keys() == {
        *("since", "until", "tenants", "schedules", "occurrences", "findings")
    }
    assert hidden.status_code == 404


async def test_an_audit_that_takes_too_long_says_how_to_narrow_it(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    token = await new_token(database, "viewer")
    async with (
        api_on(database, tmp_path, api_timeout=timedelta(seconds=1)) as api,
        api.with_token(token) as viewer,
    ):
        with psycopg.connect(database_url) as session:
            session.execute("LOCK TABLE tenantcron.failover_loss IN ACCESS EXCLUSIVE MODE")
            rejected = await viewer.get("/v1/audit")

    assert (rejected.status_code, rejected.json()["code"]) == (422, "TC722")
    assert "filter by `tenant`" in rejected.json()["detail"]


async def test_tenants_are_synced_with_the_source_of_the_server(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    query(database_url, TABLE)
    query(database_url, "INSERT INTO public.tenants (id) VALUES ('acme'), ('globex')")
    async with (
        api_on(database, tmp_path, tenant_source="public.tenants") as api,
        await api.client("admin") as admin,
    ):
        checked = (await admin.post("/v1/tenants:refresh", json={"check": True})).json()
        none = (await admin.get("/v1/tenants")).json()["tenants"]
        done = (await admin.post("/v1/tenants:refresh")).json()
        both = await admin.post("/v1/tenants:refresh", json={"check": True, "detach": True})
        still_set = await admin.post("/v1/tenants:refresh", json={"detach": True})
        tenants = (await admin.get("/v1/tenants")).json()["tenants"]
    async with api_on(database, tmp_path) as api, await api.client("admin") as admin:
        missing = await admin.post("/v1/tenants:refresh")
        detached = await admin.post("/v1/tenants:refresh", json={"detach": True})

    assert (checked["new"], checked["applied"], none) == (["acme", "globex"], False, [])
    assert done["registered"] == ["acme", "globex"]
    assert [row["sourced"] for row in tenants] == [True, True]
    assert [both.status_code, still_set.status_code, missing.status_code] == [422, 422, 422]
    assert detached.json() == {"detached": True, "released": 2}
