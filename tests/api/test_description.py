"""The OpenAPI description: names, types, and clients that are generated from it."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.node import node_program
from support.serving import Api, apply, new_token

from tenantcron.actor.grants import Role
from tenantcron.actor.keys import Algorithm
from tenantcron.manifests.language.rules import Severity
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.tokens.signing_keys import KeyState
from tenantcron.service.responses import platform_shapes, shapes
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
    assert optional == {
        *("resume_tenant", "resume_schedule", "trigger_schedule", "cancel_execution"),
        *("refresh_tenants", "disable_webhook", "rotate_keys"),
        *("heartbeat_execution", "complete_execution", "cancel_task"),
    }


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
    assert set(platform_shapes.ROLES) == set(Role)
    assert set(platform_shapes.KEY_STATES) == set(KeyState)
    assert set(platform_shapes.ALGORITHMS) == set(Algorithm)


async def test_an_operation_without_a_reason_needs_no_body(api: Api) -> None:
    await api.tenants("acme")
    await apply(api, "acme", NIGHTLY)
    async with await api.client("operator") as operator:
        triggered = await operator.post("/v1/tenants/acme/schedules/nightly:trigger")
        execution = triggered.json()["execution"]
        cancelled = await operator.post(f"/v1/executions/{execution}:cancel")

    assert (triggered.status_code, cancelled.json()["state"]) == (200, "CANCELLED")
    assert triggered.json()["scheduler_running"] is False


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
        models = import_module("generated_client.models")
        paused = models.PauseRequest(reason="partner is down")
        assert (await call("schedules.pause_schedule", "acme", "nightly", body=paused)).pending == 0
        schedule = await call("schedules.get_schedule", "acme", "nightly")
        triggered = await call("schedules.trigger_schedule", "acme", "nightly")
        execution = await call("executions.get_execution", triggered.execution)
        missing = await call("tenants.get_tenant", "globex")
        wanted = models.NewTask.from_dict(
            {"saga": "send", "payload": {"order": 7}, "delay": "1h", "idempotency_key": "order-7"}
        )
        submitted = await call("tasks.submit_task", "acme", body=wanted)
        again = await call("tasks.submit_task", "acme", body=wanted)
        task = await call("tasks.get_task", "acme", submitted.id)

    assert (tenant.tenant, tenant.status.value) == ("acme", "active")
    assert (schedule.cron, schedule.paused.reason) == ("0 2 * * *", "partner is down")
    assert schedule.next_executions == []
    assert (execution.id, execution.state.value) == (triggered.execution, "PENDING")
    assert execution.created_at.tzinfo is not None
    assert missing.code == "TC703"
    assert (again.id, again.existed) == (submitted.id, True)
    assert (task.state.value, task.payload.to_dict()) == ("WAITING", {"order": 7})


_CONSUMER = """\
import type {components, operations, paths} from "./tenantcron";

export const tenant = (t: components["schemas"]["Tenant"]): string => t.tenant;
export const state: components["schemas"]["Execution"]["state"] = "PENDING";
export type Listed =
  paths["/v1/tenants"]["get"]["responses"]["200"]["content"]["application/json"]["tenants"];
export type Filters = operations["list_executions"]["parameters"]["query"];
export const byId: Filters = {id: "0123abcd", state: ["DEAD"]};
export type Pause = operations["pause_schedule"]["requestBody"]["content"]["application/json"];
export const pause: Pause = {reason: "partner is down", cancel_pending: false};
"""


async def test_types_for_typescript_compile_and_contain_the_operations(
    api: Api, tmp_path: Path
) -> None:
    generator, compiler = (
        node_program(path) for path in ("openapi-typescript/bin/cli.js", "typescript/bin/tsc")
    )
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(await described(api)), encoding="utf-8")
    (tmp_path / "consumer.ts").write_text(_CONSUMER, encoding="utf-8")
    generate = [str(generator), str(file), "--output", str(tmp_path / "tenantcron.d.ts")]
    check = [str(compiler), "--strict", "--noEmit", str(tmp_path / "consumer.ts")]
    for arguments in (generate, check):
        done = subprocess.run(["node", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    types = (tmp_path / "tenantcron.d.ts").read_text(encoding="utf-8")
    for operation in ("apply_manifest", "retry_execution", "create_api_token", "rotate_keys"):
        assert f'operations["{operation}"]' in types
