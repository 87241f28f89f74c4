"""Writes: atomic, idempotent, and the same as on the command line."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest
from support.fleet import NIGHTLY, Shell, manifest, names, numbered, query, versions
from support.serving import YAML, Api, api_on, apply, new_token

from tenantcron.manifests.policy_digests import policy_digest
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import idempotency_keys

PLAN, APPLY = "/v1/tenants/acme/manifest:plan", "/v1/tenants/acme/manifest:apply"


async def test_a_plan_equals_that_of_the_command_line_and_writes_nothing(
    api: Api, database_url: str, tmp_path: Path
) -> None:
    await api.tenants("acme")
    body = manifest("acme", {"nightly": NIGHTLY})
    (tmp_path / "acme.yaml").write_text(body)
    async with await api.client("viewer") as viewer:
        response = (await viewer.post(PLAN, content=body, headers=YAML)).json()
    shell = Shell(tmp_path, database_url)
    called = await asyncio.to_thread(shell, "plan", "acme.yaml", "--format", "json")

    printed = json.loads(called.out)
    # The server checks manifests with its own policy.
    checked_with = {"origin": "server", "digest": policy_digest(api.service.policy)}
    assert response["policies"] == [checked_with]
    assert printed["policies"] == [checked_with | {"origin": "default"}]
    assert response | {"at": 0} == printed | {"at": 0, "policies": [checked_with]}
    assert names(database_url, "acme") == []


async def test_an_apply_takes_yaml_and_json(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    document = {
        "version": "1.0",
        "tenant": "acme",
        "sagas": [{"name": "weekly", "trigger": {"scheduled": {"cron": "0 2 * * 1"}}}],
    }
    async with await api.client("deployer") as deployer:
        yaml = await deployer.post(
            APPLY, content=manifest("acme", {"nightly": NIGHTLY}), headers=YAML
        )
        as_json = await deployer.post(f"{APPLY}?source_ref=3f2a9c1", json=document)
        other = await deployer.post(APPLY, content=b"x", headers={"Content-Type": "text/html"})

    assert [yaml.json()["tenants"][0]["status"], as_json.json()["tenants"][0]["status"]] == [
        "applied",
        "applied",
    ]
    assert names(database_url, "acme") == ["weekly"]
    assert [row["source_ref"] for row in versions(database_url, "acme")] == [None, "3f2a9c1"]
    assert (other.status_code, other.json()["code"]) == (415, "TC713")


async def test_an_invalid_manifest_is_422_with_all_diagnostics(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    body = manifest("acme", {"a": 'cron: "61 * * * *"', "b": f"{NIGHTLY}, timezone: Europe/Londn"})
    async with await api.client("deployer") as deployer:
        for path in (PLAN, APPLY):
            got = await deployer.post(
                f"{path}?file=manifests/acme.yaml", content=body, headers=YAML
            )
            problem = got.json()
            assert got.status_code == problem["status"] == 422
            assert got.headers["content-type"] == "application/problem+json"
            assert problem["code"] == "TC605"
            places = [
                (
                    diagnostic["code"],
                    diagnostic["file"],
                    diagnostic["line"],
                    diagnostic["column"] > 1,
                )
                for diagnostic in problem["tenants"][0]["diagnostics"]
            ]
            file = "manifests/acme.yaml"
            assert places == [("TC201", file, 6, True), ("TC205", file, 9, True)]
    assert names(database_url, "acme") == []


async def test_a_refused_plan_is_409_with_its_code(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    await apply(api, "acme", numbered(12))
    body = manifest("acme", {})
    async with await api.client("deployer") as deployer:
        refused = await deployer.post(APPLY, content=body, headers=YAML)
        allowed = await deployer.post(f"{APPLY}?max_deletes=12", content=body, headers=YAML)

    assert (refused.status_code, refused.json()["code"]) == (409, "TC603")
    assert allowed.status_code == 200
    assert names(database_url, "acme") == []


async def test_a_stale_plan_is_409(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    body = manifest("acme", {"nightly": NIGHTLY})
    async with await api.client("deployer") as deployer:
        planned = (await deployer.post(PLAN, content=body, headers=YAML)).json()
        revision = planned["tenants"][0]["revision"]
        await apply(api, "acme", {"other": NIGHTLY})
        stale = await deployer.post(f"{APPLY}?revision={revision}", content=body, headers=YAML)

    assert (stale.status_code, stale.json()["code"]) == (409, "TC604")
    assert names(database_url, "acme") == ["other"]


async def test_if_match_allows_a_write_only_if_nothing_has_changed(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    body = manifest("acme", {"nightly": NIGHTLY})
    async with await api.client("admin") as admin:
        etag = {"If-Match": (await admin.get("/v1/tenants/acme")).headers["etag"]}
        done = await admin.patch("/v1/tenants/acme", json={"max_schedules": 9}, headers=etag)
        late = await admin.patch("/v1/tenants/acme", json={"max_schedules": 8}, headers=etag)
        late_apply = await admin.post(APPLY, content=body, headers=YAML | etag)
        anyhow = await admin.patch(
            "/v1/tenants/acme", json={"max_concurrent": 2}, headers={"If-Match": "*"}
        )

    assert done.json()["max_schedules"] == 9
    assert (late.status_code, late.json()["code"]) == (412, "TC705")
    assert late_apply.status_code == 412
    assert (anyhow.json()["max_schedules"], anyhow.json()["max_concurrent"]) == (9, 2)
    assert names(database_url, "acme") == []


async def test_an_admin_adopts_an_existing_schema(api: Api, database_url: str) -> None:
    query(database_url, 'CREATE SCHEMA "Org acme"')
    async with await api.client("admin") as admin:
        made = await admin.post("/v1/tenants", json={"tenant": "acme", "schema": "Org acme"})
        taken = await admin.post("/v1/tenants", json={"tenant": "umbra", "schema": "Org acme"})
        missing = await admin.post("/v1/tenants", json={"tenant": "umbra", "schema": "org_x"})
        reserved = await admin.post("/v1/tenants", json={"tenant": "umbra", "schema": "public"})
        body = manifest("acme", {"nightly": NIGHTLY})
        assert (await admin.post(APPLY, content=body, headers=YAML)).status_code == 200
        shown = await admin.get("/v1/tenants/acme/schedules")

    assert made.status_code == 201
    assert (made.json()["schema"], made.json()["schema_adopted"]) == ("Org acme", True)
    assert [response.status_code for response in (taken, missing, reserved)] == [409, 409, 422]
    assert [schedule["name"] for schedule in shown.json()["schedules"]] == ["nightly"]


async def test_admins_manage_the_life_cycle_of_a_tenant(api: Api, database_url: str) -> None:
    async with await api.client("admin") as admin:
        made = await admin.post("/v1/tenants", json={"tenant": "acme", "max_concurrent": 3})
        twice = await admin.post("/v1/tenants", json={"tenant": "acme"})
        suspended = await admin.post("/v1/tenants/acme:suspend", json={"reason": " unpaid\u0007 "})
        wrong = await admin.post("/v1/tenants/acme:suspend", json={"reason": "again"})
        resumed = await admin.post("/v1/tenants/acme:resume", json={})
        given_back = await admin.patch("/v1/tenants/acme", json={"max_concurrent": None})
        unsure = await admin.post(
            "/v1/tenants/acme:deprovision", json={"reason": "over", "drop_schema": True}
        )
        over = await admin.post(
            "/v1/tenants/acme:deprovision",
            json={"reason": "over", "drop_schema": True, "confirm": "acme"},
        )
        unknown = await admin.post("/v1/tenants/unknown:suspend", json={"reason": "x"})

    assert (made.status_code, made.headers["location"]) == (201, "/v1/tenants/acme")
    assert made.json()["max_concurrent"] == 3
    assert (twice.status_code, twice.json()["code"]) == (409, "TC704")
    assert suspended.json()["status_reason"] == "unpaid\N{REPLACEMENT CHARACTER}"
    assert wrong.status_code == 409
    assert resumed.json()["status"] == "active"
    assert given_back.json()["max_concurrent"] is None
    assert (unsure.status_code, over.status_code) == (422, 200)
    assert unknown.status_code == 404
    assert query(database_url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%acme'") == []


async def test_operators_pause_resume_and_trigger_schedules(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    path = "/v1/tenants/acme/schedules/nightly"
    async with await api.client("operator", "acme") as operator:
        until = "2100-01-01T00:00:00Z"
        paused = await operator.post(f"{path}:pause", json={"reason": "down", "until": until})
        shown = (await operator.get(path)).json()
        over = await operator.post(
            f"{path}:pause", json={"reason": "x", "until": "2020-01-01T00:00:00Z"}
        )
        resumed = await operator.post(f"{path}:resume", json={"reason": "it is back"})
        twice = await operator.post(f"{path}:resume", json={})
        made = await operator.post(f"{path}:trigger", json={"reason": "rerun"})
        missing = await operator.post("/v1/tenants/acme/schedules/nigthly:trigger", json={})

    assert paused.json()["paused"]["until"].startswith("2100-01-01")
    assert shown["paused"]["reason"] == "down"
    assert over.status_code == 422
    assert resumed.json()["paused"] is None
    assert (twice.status_code, twice.json()["code"]) == (409, "TC704")
    rows = query(database_url, "SELECT id::text, state FROM tenantcron.execution")
    assert rows == [{"id": made.json()["execution"], "state": "PENDING"}]
    assert (missing.status_code, "did you mean `acme/nightly`?" in missing.text) == (404, True)


async def test_a_quarantined_schedule_is_listed_with_its_fault_and_not_triggered(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY, "often": NIGHTLY})
    query(
        database_url,
        "UPDATE {}.tenant_schedule SET cron_expr = '@every 1s' WHERE schedule_name = 'often'",
        "tenant_acme",
    )
    async with await api.client("operator", "acme") as operator:
        refused = await operator.post("/v1/tenants/acme/schedules/often:trigger", json={})
        listed = (await operator.get("/v1/tenants/acme/schedules")).json()["schedules"]

    fault = "the shortest gap of `@every 1s` is 1s; the platform requires at least 15m"
    assert (refused.status_code, refused.json()["code"]) == (409, "TC704")
    assert refused.json()["detail"] == f"`acme/often` is quarantined: {fault}"
    assert query(database_url, "SELECT id FROM tenantcron.execution") == []
    shown = {found["name"]: (found["fault"], found["next_executions"]) for found in listed}
    assert shown["often"] == (fault, [])
    assert shown["nightly"][0] is None


async def test_operators_cancel_and_retry_executions(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    async with await api.client("operator") as operator:
        made = await operator.post("/v1/tenants/acme/schedules/nightly:trigger", json={})
        path = f"/v1/executions/{made.json()['execution']}"
        cancelled = await operator.post(f"{path}:cancel", json={"reason": "wrong month"})
        twice = await operator.post(f"{path}:cancel", json={})
        retried = await operator.post(f"{path}:retry")

    assert (cancelled.json()["state"], cancelled.json()["reason"]) == ("CANCELLED", "wrong month")
    assert twice.status_code == 409
    assert retried.json()["state"] == "PENDING"


async def test_a_repeated_write_with_its_key_runs_once(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    path, key = "/v1/tenants/acme/schedules/nightly:trigger", {"Idempotency-Key": "k-1"}
    async with await api.client("operator") as operator:
        first = await operator.post(path, json={"reason": "rerun"}, headers=key)
        second = await operator.post(path, json={"reason": "rerun"}, headers=key)
        other = await operator.post(path, json={"reason": "another"}, headers=key)
        elsewhere = await operator.post(
            path.replace("trigger", "resume"), json={"reason": "rerun"}, headers=key
        )
    async with await api.client("operator") as second_operator:
        theirs = await second_operator.post(path, json={"reason": "rerun"}, headers=key)

    assert second.content == first.content
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert (other.status_code, other.json()["code"]) == (422, "TC708")
    assert elsewhere.status_code == 422
    assert theirs.json()["execution"] != first.json()["execution"]
    assert len(query(database_url, "TABLE tenantcron.execution")) == 2


async def test_concurrent_duplicates_run_once(
    database: Database, tmp_path: Path, database_url: str
) -> None:
    async with api_on(database, tmp_path) as left, api_on(database, tmp_path) as right:
        await left.tenants("acme")
        await apply(left, "acme", {"nightly": NIGHTLY})
        token = await new_token(database, "operator")
        path, key = "/v1/tenants/acme/schedules/nightly:trigger", {"Idempotency-Key": "twins"}
        async with left.with_token(token) as first, right.with_token(token) as second:
            answers = await asyncio.gather(
                *(client.post(path, json={}, headers=key) for client in (first, second) * 4)
            )

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(query(database_url, "TABLE tenantcron.execution")) == 1


async def test_a_refused_write_leaves_no_key(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    path, key = "/v1/tenants/acme/schedules/nightly", {"Idempotency-Key": "again"}
    async with await api.client("operator") as operator:
        refused = await operator.post(f"{path}:resume", json={}, headers=key)
        assert query(database_url, "TABLE tenantcron.idempotency_key") == []
        await operator.post(f"{path}:pause", json={"reason": "x"})
        done = await operator.post(f"{path}:resume", json={}, headers=key)

    assert (refused.status_code, done.status_code) == (409, 200)


async def test_a_refused_apply_with_a_key_changes_nothing_and_may_be_repeated(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    await apply(api, "acme", numbered(12))
    key = {"Idempotency-Key": "deploy"}
    async with await api.client("deployer") as deployer:
        body = manifest("acme", {})
        refused = await deployer.post(APPLY, content=body, headers=YAML | key)
        good = manifest("acme", numbered(11))
        done = await deployer.post(APPLY, content=good, headers=YAML | key)
        again = await deployer.post(APPLY, content=good, headers=YAML | key)

    assert (refused.status_code, done.status_code) == (409, 200)
    assert again.content == done.content
    assert len(versions(database_url, "acme")) == 2


async def test_a_key_is_valid_for_a_day(api: Api, database_url: str) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"nightly": NIGHTLY})
    path, key = "/v1/tenants/acme/schedules/nightly:trigger", {"Idempotency-Key": "old"}
    assert timedelta(hours=24) == idempotency_keys.KEPT_FOR
    async with await api.client("operator") as operator:
        first = await operator.post(path, json={}, headers=key)
        age = "UPDATE tenantcron.idempotency_key SET created_at = now() - interval '{} hours'"
        query(database_url, age.replace("{}", "23"))
        within = await operator.post(path, json={}, headers=key)
        query(database_url, age.replace("{}", "25"))
        later = await operator.post(path, json={}, headers=key)
        query(database_url, age.replace("{}", "25"))
    async with api.database.transaction() as connection:
        assert await idempotency_keys.forget_old(connection) == 1

    assert within.content == first.content
    assert later.json()["execution"] != first.json()["execution"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/tenants", {"tenant": "Acme"}),
        ("/v1/tenants", {"tenant": "public"}),
        ("/v1/tenants", {"tenant": "acme", "max_schedule": 3}),
        ("/v1/tenants", {"tenant": "acme", "max_concurrent": 0}),
        ("/v1/tenants", {"tenant": "acme", "max_concurrent": "5"}),
        ("/v1/tenants", []),
        ("/v1/tenants/acme:suspend", {}),
        ("/v1/tenants/acme:suspend", {"reason": "  "}),
        ("/v1/tenants/acme:suspend", {"reason": "x" * 501}),
    ],
)
async def test_an_invalid_body_is_422_and_changes_nothing(
    api: Api, database_url: str, path: str, body: object
) -> None:
    async with await api.client("admin") as admin:
        got = await admin.post(path, json=body)

    assert (got.status_code, got.json()["code"]) == (422, "TC707")
    assert query(database_url, "TABLE tenantcron.tenant") == []


async def test_several_errors_are_reported_at_once(api: Api) -> None:
    async with await api.client("admin") as admin:
        body = {"tenant": "Acme", "max_schedules": -1, "weight": 101}
        got = await admin.post("/v1/tenants", json=body)

    assert {error["name"] for error in got.json()["errors"]} == {
        "tenant",
        "max_schedules",
        "weight",
    }
