"""Unknown query parameters are errors, because a misspelt filter would match too much."""

from uuid import UUID

import pytest
from support.serving import Api, apply

from tenantcron.api.app import described_app

NIGHTLY = {"nightly": 'cron: "0 2 * * *"'}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/executions?tenat=acme"),
        ("GET", "/v1/tenants?tenat=acme"),
        ("GET", "/v1/tenants/acme?tenat=acme"),
        ("GET", "/v1/schedules?tenat=acme"),
        ("GET", "/v1/tenants/acme/audit-records?tenat=acme"),
        ("GET", "/v1/health?tenat=acme"),
        ("POST", "/v1/tenants/acme/schedules/nightly:trigger?tenat=acme"),
        ("POST", "/v1/tokens:introspect?tenat=acme"),
    ],
)
async def test_an_unknown_query_parameter_is_rejected(api: Api, method: str, path: str) -> None:
    await api.tenants("acme")
    await apply(api, "acme", NIGHTLY)
    async with await api.client("admin") as admin:
        answer = await admin.request(method, path)
        executions = (await admin.get("/v1/executions")).json()["executions"]

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "TC707")
    assert [(error["in"], error["name"]) for error in problem["errors"]] == [("query", "tenat")]
    assert executions == []


def lists() -> list[str]:
    """Return the paths of all operations that read."""
    paths = described_app().openapi()["paths"]
    return [path for path in paths if path.startswith("/v1/") and "get" in paths[path]]


@pytest.mark.parametrize("path", lists())
async def test_every_read_rejects_unknown_parameters(api: Api, path: str) -> None:
    await api.tenants("acme")
    await apply(api, "acme", NIGHTLY)
    named = path.format(
        tenant="acme",
        schedule="nightly",
        execution=UUID(int=4),
        task=UUID(int=5),
        version=1,
        webhook="x",
        name="x",
    )
    async with await api.client("admin") as admin:
        answer = await admin.get(named, params={"unknown": "1"})

    assert (answer.status_code, answer.json()["code"]) == (422, "TC707")
    assert "unknown" in [error["name"] for error in answer.json()["errors"]]


async def test_all_errors_of_a_request_are_reported_at_once_with_the_closest_name(
    api: Api,
) -> None:
    async with await api.client("viewer") as viewer:
        problem = (await viewer.get("/v1/executions?limit=0&tenat=acme&x=1")).json()

    messages = {error["name"]: error["message"] for error in problem["errors"]}
    assert messages.keys() == {"limit", "tenat", "x"}
    assert "did you mean `tenant`?" in messages["tenat"]
    assert "`schedule`" in messages["x"]


async def test_a_caller_without_a_token_learns_no_parameters(api: Api) -> None:
    async with api.with_token(None) as anonymous:
        answer = await anonymous.get("/v1/executions?tenat=acme")

    assert (answer.status_code, answer.json()["code"]) == (401, "TC701")
