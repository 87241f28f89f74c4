"""PATCH of a schedule: operators own the pause, the manifest owns the rest."""

from datetime import UTC, datetime, timedelta

import pytest
from support.cursors import cursor, run
from support.fleet import manifest, query
from support.serving import YAML, Api, Json, apply

NIGHTLY = {"nightly": 'cron: "0 2 * * *"'}
PATH = "/v1/tenants/acme/schedules/nightly"
TOMORROW = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0).isoformat()


@pytest.fixture
async def fleet(api: Api) -> Api:
    """A tenant with a schedule."""
    await api.tenants("acme")
    await apply(api, "acme", NIGHTLY)
    return api


async def test_a_pause_is_set_changed_and_lifted(fleet: Api, database_url: str) -> None:
    async with await fleet.client("operator") as operator:
        set_ = await operator.patch(PATH, json={"paused": {"reason": "partner is down"}})
        extended = await operator.patch(PATH, json={"paused": {"until": TOMORROW}})
        renamed = await operator.patch(PATH, json={"paused": {"reason": "still down"}})
        endless = await operator.patch(PATH, json={"paused": {"until": None}})
        lifted = await operator.patch(PATH, json={"paused": None})
        again = await operator.patch(PATH, json={"paused": None})
        shown = await operator.get(PATH)

    pauses = [answer.json()["paused"] for answer in (set_, extended, renamed, endless)]
    assert [pause["reason"] for pause in pauses] == [
        *("partner is down", "partner is down", "still down", "still down"),
    ]
    assert [pause["until"] for pause in pauses] == [None, TOMORROW, TOMORROW, None]
    assert (lifted.json()["paused"], again.json()["paused"]) == (None, None)
    assert again.headers["etag"] == shown.headers["etag"]
    records = query(
        database_url,
        "SELECT operation FROM tenantcron.audit_record WHERE entity_type = 'pause' ORDER BY id",
    )
    assert [row["operation"] for row in records] == [*(["pause"] * 4), "resume"]


async def test_a_change_needs_the_etag_that_the_caller_has_read(fleet: Api) -> None:
    async with await fleet.client("operator") as operator:
        await operator.patch(PATH, json={"paused": None})
        etag = (await operator.get(PATH)).headers["etag"]
        first = await operator.patch(
            PATH, json={"paused": {"reason": "x"}}, headers={"If-Match": etag}
        )
        second = await operator.patch(PATH, json={"paused": None}, headers={"If-Match": etag})

    assert (first.status_code, second.status_code) == (200, 412)
    assert second.json()["code"] == "TC705"


@pytest.mark.parametrize(
    "body",
    [{"cron": "0 3 * * *"}, {"enabled": False, "paused": {"reason": "x"}}, {"retry": {}}],
    ids=str,
)
async def test_a_field_of_the_manifest_is_refused_with_the_place_to_change_it(
    fleet: Api, database_url: str, body: Json
) -> None:
    field = next(iter(body))
    async with await fleet.client("deployer") as deployer:
        path = "/v1/tenants/acme/manifest:apply?source_ref=3f2a9c1"
        weekly = {**NIGHTLY, "weekly": 'cron: "0 3 * * 1"'}
        await deployer.post(path, content=manifest("acme", weekly), headers=YAML)
    async with await fleet.client("operator") as operator:
        answer = await operator.patch(PATH, json=body)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "TC723")
    assert (
        f"`{field}`: defined by the manifest of tenant `acme` (version 2, from 3f2a9c1)"
        in (problem["detail"])
    )
    assert [error["name"] for error in problem["errors"]] == [field]
    assert cursor(database_url)["paused_at"] is None


async def test_a_field_of_another_provider_names_the_provider(
    fleet: Api, database_url: str
) -> None:
    async with await fleet.client("operator") as operator:
        await operator.patch(PATH, json={"paused": None})
        run(database_url, "UPDATE tenantcron.schedule_cursor SET provider = 'static'")
        answer = await operator.patch(PATH, json={"timezone": "UTC"})

    assert "the provider `static`" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"pausd": None}, "pausd"),
        ({"next_executions": []}, "next_executions"),
        ({"paused": {"reason": "x", "by": "me"}}, "paused.by"),
        # A fixed time: all workers of a run must collect the same tests.
        ({"paused": {"until": "2099-01-01T00:00:00+00:00"}}, "paused.reason"),
        ({"paused": True}, "paused"),
    ],
    ids=str,
)
async def test_invalid_bodies_are_errors(fleet: Api, body: Json, name: str) -> None:
    async with await fleet.client("operator") as operator:
        answer = await operator.patch(PATH, json=body)

    assert (answer.status_code, answer.json()["code"]) == (422, "TC707")
    assert [error["name"] for error in answer.json()["errors"]] == [name]


async def test_roles_and_other_tenants_are_respected(fleet: Api) -> None:
    await fleet.tenants("beta")
    codes = []
    for role, tenant in (("viewer", None), ("operator", "beta")):
        async with await fleet.client(role, tenant) as client:
            codes.append((await client.patch(PATH, json={"paused": None})).status_code)
    assert codes == [403, 404]
