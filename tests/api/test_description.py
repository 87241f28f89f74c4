"""The OpenAPI description: names, types, and clients that are generated from it."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.serving import Api, apply, new_token

from tenantcron.manifests.language.rules import Severity
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.service.responses import shapes
from tenantcron.store.rows.executions import State
from tenantcron.store.rows.tenants import TenantStatus

NIGHTLY = {"nightly": 'cron: "0 2 * * *"'}


async def described(api: Api) -> dict[str, Any]:
    async with api.with_token(None) as client:
        description: dict[str, Any] = (await client.get("/openapi.json")).json()
    return description


async def test_operations_and_schemas_have_short_names(api: Api) -> None:
    description = await described(api)
    operations = {
        operation["operationId"]: operation
        for methods in description["paths"].values()
        for operation in methods.values()
    }

    assert len(operations) == sum(map(len, description["paths"].values()))
    assert operations.keys() >= {
        "list_tenants",
        "get_schedule",
        "retry_execution",
        "apply_manifest",
    }
    assert description["components"]["schemas"].keys() >= {"Tenant", "Execution", "Problem"}
    assert not [name for name in description["components"]["schemas"] if "Response" in name]
    optional = {name for name, operation in operations.items() if _has_optional_body(operation)}
    assert optional == {"resume_tenant", "resume_schedule", "trigger_schedule", "cancel_execution"}


def _has_optional_body(operation: dict[str, Any]) -> bool:
    return not operation.get("requestBody", {}).get("required", "requestBody" not in operation)


async def test_every_reference_has_a_schema_and_no_parameter_is_null(api: Api) -> None:
    text = json.dumps(description := await described(api))
    references = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert references <= description["components"]["schemas"].keys()
    for methods in description["paths"].values():
        for operation in methods.values():
            assert '"null"' not in json.dumps(operation.get("parameters", []))


def test_the_values_of_enums_are_complete() -> None:
    assert set(shapes.STATES) == set(State)
    assert set(shapes.OUTCOMES) == set(AttemptOutcome)
    assert set(shapes.STATUSES) == set(TenantStatus)
    assert set(shapes.SEVERITIES) == set(Severity)


async def test_an_operation_without_a_reason_needs_no_body(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", NIGHTLY)
    async with await api.client("operator") as operator:
        triggered = await operator.post("/v1/tenants/acme/schedules/nightly:trigger")
        execution = triggered.json()["execution"]
        cancelled = await operator.post(f"/v1/executions/{execution}:cancel")

    assert (triggered.status_code, cancelled.json()["state"]) == (200, "CANCELLED")


async def test_a_generated_client_works(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.tenants("acme")
    await apply(api, "acme", NIGHTLY)
    file, config = tmp_path / "openapi.json", tmp_path / "config.yaml"
    # Without formatting the code.
    config.write_text("post_hooks: []\n", encoding="utf-8")
    file.write_text(json.dumps(await described(api)), encoding="utf-8")
    generator = [str(Path(sys.executable).with_name("openapi-python-client")), "generate"]
    options = ["--path", str(file), "--config", str(config), "--meta", "none"]
    output = ["--output-path", str(tmp_path / "generated_client"), "--fail-on-warning"]
    done = subprocess.run(
        [*generator, *options, *output], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(tmp_path)

    token = await new_token(api.database, "operator", "acme")
    client = import_module("generated_client").AuthenticatedClient(base_url=api.url, token=token)

    async def call(operation: str, *path: object, **parameters: object) -> Any:
        module = import_module(f"generated_client.api.{operation}")
        return await module.asyncio(*path, client=client, **parameters)

    async with client:
        (tenant,) = (await call("tenants.list_tenants", limit=1)).tenants
        paused = import_module("generated_client.models").PauseRequest(reason="partner is down")
        assert (await call("schedules.pause_schedule", "acme", "nightly", body=paused)).pending == 0
        schedule = await call("schedules.get_schedule", "acme", "nightly")
        triggered = await call("schedules.trigger_schedule", "acme", "nightly")
        execution = await call("executions.get_execution", triggered.execution)
        missing = await call("tenants.get_tenant", "globex")

    assert (tenant.tenant, tenant.status.value) == ("acme", "active")
    assert (schedule.cron, schedule.paused.reason) == ("0 2 * * *", "partner is down")
    assert schedule.next_executions == []
    assert (execution.id, execution.state.value) == (triggered.execution, "PENDING")
    assert execution.created_at.tzinfo is not None
    assert missing.code == "TC703"
