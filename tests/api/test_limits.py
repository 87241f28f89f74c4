"""The concurrency limits of the cluster by the API."""

import pytest
from support.fleet import query
from support.serving import Api

DEFAULTS = {
    "max_concurrent": 20,
    "max_concurrent_per_tenant": 5,
    "declared": {"max_concurrent": 20, "max_concurrent_per_tenant": 5},
    "operator": {"max_concurrent": None, "max_concurrent_per_tenant": None},
    "running": 0,
}
_RECORDS = (
    "SELECT changed_by, after FROM tenantcron.audit_record WHERE entity_type = 'limits' ORDER BY id"
)


async def test_an_operator_sets_limits_and_restores_the_declared_ones(
    api: Api, database_url: str
) -> None:
    async with await api.client("operator") as operator:
        before = (await operator.get("/v1/limits")).json()
        changes = {"max_concurrent": 0, "max_concurrent_per_tenant": 2, "reason": "incident"}
        changed = (await operator.patch("/v1/limits", json=changes)).json()
        restored = await operator.patch("/v1/limits", json={"max_concurrent": None})
        after = (await operator.get("/v1/limits")).json()

    assert before == DEFAULTS
    assert (changed["max_concurrent"], changed["max_concurrent_per_tenant"]) == (0, 2)
    assert changed["operator"] == {"max_concurrent": 0, "max_concurrent_per_tenant": 2}
    assert restored.json() == after
    assert (after["max_concurrent"], after["max_concurrent_per_tenant"]) == (20, 2)
    records = query(database_url, _RECORDS)
    assert {record["changed_by"].split(":")[0] for record in records} == {"token"}
    assert {"reason": "incident"} in [record["after"] for record in records]


async def test_a_repeated_change_of_limits_is_made_once(api: Api, database_url: str) -> None:
    key = {"Idempotency-Key": "limits-1"}
    async with await api.client("operator") as operator:
        first = await operator.patch("/v1/limits", json={"max_concurrent": 7}, headers=key)
        again = await operator.patch("/v1/limits", json={"max_concurrent": 7}, headers=key)

    assert first.json() == again.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(query(database_url, _RECORDS)) == 1


@pytest.mark.parametrize(
    "changes",
    [{}, {"reason": "nothing to set"}, {"max_concurrent": -1}, {"max_concurrent": 100_001}],
    ids=str,
)
async def test_an_invalid_change_of_limits_is_rejected(
    api: Api, changes: dict[str, object]
) -> None:
    async with await api.client("operator") as operator:
        rejected = await operator.patch("/v1/limits", json=changes)
        after = (await operator.get("/v1/limits")).json()

    assert (rejected.status_code, rejected.json()["code"]) == (422, "TC707")
    assert after == DEFAULTS


async def test_limits_of_the_cluster_are_for_callers_that_see_all_tenants(api: Api) -> None:
    await api.tenants("acme")
    async with (
        await api.client("admin", "acme") as bound,
        await api.client("deployer") as deployer,
    ):
        answers = [
            await bound.get("/v1/limits"),
            await bound.patch("/v1/limits", json={"max_concurrent": 1}),
            await deployer.patch("/v1/limits", json={"max_concurrent": 1}),
        ]

    assert [answer.json()["code"] for answer in answers] == ["TC702"] * 3
