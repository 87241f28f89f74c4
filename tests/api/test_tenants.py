"""Labels of tenants, and tenants that the platform's registry manages, over HTTP."""

import pytest
from support.fleet import NIGHTLY, query
from support.platform import TABLE, Platform
from support.serving import Api, apply, pages

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.provider.refresh import refresh
from tenantcron.provider.static import static_provider
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenant_sources


@pytest.fixture
def platform(database: Database, database_url: str) -> Platform:
    """A platform with two tenants that tenantcron does not know yet."""
    platform = Platform(database, database_url)
    platform.sql(TABLE)
    platform.add("acme", "globex")
    return platform


async def test_labels_are_set_changed_removed_and_filtered_by(api: Api) -> None:
    async with await api.client("admin") as admin:
        body = {"tenant": "acme", "labels": {"tier": "gold", "region": "eu"}}
        created = await admin.post("/v1/tenants", json=body)
        assert (created.status_code, created.json()["labels"]) == (201, body["labels"])
        await admin.post("/v1/tenants", json={"tenant": "plain"})
        patch = {"labels": {"region": None, "plan": "yearly"}, "max_concurrent": 3}
        changed = (await admin.patch("/v1/tenants/acme", json=patch)).json()
        assert changed["labels"] == {"tier": "gold", "plan": "yearly"}
        assert changed["max_concurrent"] == 3
        for label in ("tier", "tier=gold"):
            found = await admin.get("/v1/tenants", params={"label": [label, "plan=yearly"]})
            assert [row["tenant"] for row in found.json()["tenants"]] == ["acme"]
        none = await admin.get("/v1/tenants", params={"label": "tier=free"})
        assert none.json()["tenants"] == []


@pytest.mark.parametrize("labels", [{"Tier": "gold"}, {"tier": ""}, {"tier": 5}, {"tier": "a\nb"}])
async def test_a_label_that_is_not_valid_is_a_422(api: Api, labels: dict[str, object]) -> None:
    async with await api.client("admin") as admin:
        await admin.post("/v1/tenants", json={"tenant": "acme"})
        answer = await admin.patch("/v1/tenants/acme", json={"labels": labels})
        assert (answer.status_code, answer.json()["code"]) == (422, "TC707")
        assert (await admin.get("/v1/tenants", params={"label": "x="})).status_code == 422


async def test_a_change_of_a_sourced_tenant_is_409_and_names_the_source(
    api: Api, platform: Platform
) -> None:
    await platform.refresh()
    async with await api.client("admin") as admin:
        for path, body in (
            ("/v1/tenants/acme:suspend", {"reason": "x"}),
            ("/v1/tenants/acme:resume", {}),
            ("/v1/tenants/acme:deprovision", {"reason": "x"}),
        ):
            answer = await admin.post(path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (409, "TC704")
            assert "belongs to the tenant source (public.tenants)" in answer.json()["detail"]
        labelled = await admin.patch("/v1/tenants/acme", json={"labels": {"tier": "gold"}})
        assert labelled.status_code == 409
        limited = await admin.patch("/v1/tenants/acme", json={"max_concurrent": 3})
        assert (limited.status_code, limited.json()["sourced"]) == (200, True)


async def test_a_tenant_sees_neither_labels_nor_problems_of_another(
    api: Api, platform: Platform
) -> None:
    platform.sql('UPDATE public.tenants SET labels = \'{"tier": "gold"}\'')
    platform.sql("INSERT INTO public.tenants (id) VALUES ('Hush')")
    await platform.refresh()
    async with api.database.seen_by(TenantId("acme")).transaction() as connection:
        assert await tenant_sources.first_problems(connection, 10) == []
        rows = await connection.exec_driver_sql("SELECT tenant_id FROM tenantcron.tenant_label")
        assert [row[0] for row in rows] == ["acme"]
    async with api.database.seen_by(None).transaction() as connection:
        assert len(await tenant_sources.first_problems(connection, 10)) == 1
    async with await api.client("viewer", "acme") as bound:
        found = await bound.get("/v1/tenants", params={"label": "tier"})
        assert [row["tenant"] for row in found.json()["tenants"]] == ["acme"]


async def test_lists_have_the_schedules_of_all_providers_page_by_page(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", {"a_own": NIGHTLY, "c_own": NIGHTLY})
    entry: JsonObject = {"tenant": "acme", "saga": "report", "cron": "0 2 * * *"}
    provider = static_provider([{**entry, "name": "b_static"}, {**entry, "name": "d_static"}])
    await refresh(api.database, provider, retry_broken=True)
    async with await api.client("viewer", "acme") as viewer:
        found = await pages(viewer, "/v1/tenants/acme/schedules", "schedules", limit=1)
        assert [(row["name"], row["provider"]) for row in found] == [
            ("a_own", "tenant"),
            ("b_static", "static"),
            ("c_own", "tenant"),
            ("d_static", "static"),
        ]
        reports = await viewer.get("/v1/tenants/acme/schedules", params={"saga": "report"})
        assert len(reports.json()["schedules"]) == 2


async def test_a_tenant_is_shown_with_its_identities_and_its_etag_guards_changes(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    async with await api.client("admin") as admin:
        before = await admin.get("/v1/tenants/acme")
        service = "INSERT INTO tenantcron.service (name, declared_at) VALUES ('billing', now())"
        query(database_url, service)
        shown = await admin.get("/v1/tenants/acme")
        guard = {"If-Match": shown.headers["etag"]}
        changed = await admin.patch("/v1/tenants/acme", json={"max_concurrent": 3}, headers=guard)
        stale = await admin.patch("/v1/tenants/acme", json={"max_concurrent": 4}, headers=guard)

    assert [row["id"] for row in before.json()["identities"]] != [
        row["id"] for row in shown.json()["identities"]
    ]
    assert {row["status"] for row in shown.json()["identities"]} == {"active"}
    assert (changed.status_code, stale.status_code) == (200, 412)


async def test_a_deprovisioned_tenant_reports_what_was_kept(api: Api, database_url: str) -> None:
    await api.tenants("acme", "beta")
    query(database_url, "CREATE TABLE tenant_acme.own (id int)")
    async with await api.client("admin") as admin:
        dropped = await admin.post(
            "/v1/tenants/acme:deprovision",
            json={"reason": "ended", "drop_schema": True, "confirm": "acme"},
        )
        kept = await admin.post("/v1/tenants/beta:deprovision", json={"reason": "ended"})

    (reason,) = dropped.json()["kept"]
    assert "tenant_acme" in reason
    assert kept.json()["kept"] == []


async def test_quotas_of_a_tenant_are_changed_by_name_and_shown_with_their_source(
    api: Api, database_url: str
) -> None:
    await api.tenants("acme")
    declared = """UPDATE tenantcron.limits SET quotas = '{{"payload_bytes": 1000}}'"""
    query(database_url, declared)
    url = "/v1/tenants/acme"
    async with await api.client("admin") as admin:
        body = {"quotas": {"pending_tasks": 5, "starts_per_minute": 7}}
        changed = await admin.patch(url, json=body)
        await admin.patch(url, json={"quotas": {"starts_per_minute": None}})
        shown = (await admin.get(url)).json()
        invalid = await admin.patch(url, json={"quotas": {"starts_per_minute": 0, "other": 1}})

    assert changed.json()["quotas"] == {"pending_tasks": 5, "starts_per_minute": 7}
    assert shown["quotas"] == {"pending_tasks": 5}
    assert shown["effective_quotas"]["pending_tasks"] == {"value": 5, "source": "operator"}
    assert shown["effective_quotas"]["payload_bytes"] == {"value": 1000, "source": "policy"}
    assert shown["effective_quotas"]["starts_per_minute"] == {"value": 1000, "source": "default"}
    assert invalid.status_code == 422
    assert len(invalid.json()["errors"]) == 2
