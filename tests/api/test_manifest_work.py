"""Checks of manifests in worker processes, and the slots of a caller."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from sqlalchemy import text
from support.fleet import NIGHTLY, Shell, manifest, query
from support.patience import PATIENCE
from support.replicas import until
from support.serve_process import serving
from support.serving import YAML, Api, new_token

from tenantcron.cli import remote
from tenantcron.core.names import TenantId
from tenantcron.manifests.files import ManifestFile
from tenantcron.service.manifest_slots import EACH
from tenantcron.store.rows import tenants

PLAN = "/v1/tenants/acme/manifest:plan"
BODY = manifest("acme", {"nightly": NIGHTLY})


async def planned(api: Api, token: str, action: str = "plan") -> httpx.Response:
    async with api.with_token(token) as client:
        path = f"/v1/tenants/acme/manifest:{action}"
        return await client.post(path, content=BODY, headers=YAML)


@asynccontextmanager
async def unfinished(api: Api, token: str, action: str = "plan") -> AsyncIterator[asyncio.Event]:
    """Send a manifest but for its last byte; the event sends that, too."""
    parts, content, last = urlsplit(api.url), BODY.encode(), asyncio.Event()
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = (
        f"POST /v1/tenants/acme/manifest:{action} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/yaml\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + content[:-1])

    async def finish() -> None:
        await last.wait()
        writer.write(content[-1:])
        await reader.readline()

    finishing = asyncio.create_task(finish())
    try:
        yield last
    finally:
        last.set()
        await finishing
        writer.close()


async def planned_with(api: Api, token: str, status: int) -> httpx.Response:
    """Plan until the response has this status."""
    async with asyncio.timeout(PATIENCE):
        while (got := await planned(api, token)).status_code != status:
            pass
    return got


def key_of(token: str) -> str:
    return f"token:{token.split('_')[1]}"


@pytest.mark.parametrize("action", ["plan", "apply"])
async def test_a_caller_without_a_free_slot_gets_429_and_others_are_served(
    api: Api, action: str
) -> None:
    await api.tenants("acme")
    token = await new_token(api.database, "deployer")
    other = await new_token(api.database, "viewer")
    with ExitStack() as stack:
        for _ in range(EACH - 1):
            stack.enter_context(api.service.slots.take(key_of(token)))
        last = await planned(api, token, action)
        stack.enter_context(api.service.slots.take(key_of(token)))
        refused = await planned(api, token, action)
        served = await planned(api, other)

    assert refused.json()["code"] == "TC719"
    assert int(refused.headers["retry-after"]) >= 1
    assert (last.status_code, served.status_code) == (200, 200)
    assert (await planned(api, token, action)).status_code == 200
    assert not api.service.slots._taken


@pytest.mark.parametrize("action", ["plan", "apply"])
async def test_a_body_that_has_not_come_yet_holds_no_slot(
    api: Api, database_url: str, action: str
) -> None:
    await api.tenants("acme")
    token = await new_token(api.database, "deployer")

    async def all_are_known() -> bool:
        counted = query(database_url, "SELECT sum(requests) AS requests FROM tenantcron.api_usage")
        return (counted[0]["requests"] or 0) >= EACH

    async with AsyncExitStack() as stack:
        for _ in range(EACH):
            await stack.enter_async_context(unfinished(api, token, action))
        await until(all_are_known)

        assert (await planned(api, token, action)).status_code == 200


def test_a_caller_has_as_many_slots_as_the_command_uses() -> None:
    assert remote._AT_A_TIME <= EACH


async def test_manifests_are_checked_in_another_process(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.tenants("acme")
    # This process could not: the patch is only here.
    monkeypatch.setattr(ManifestFile, "check", None)
    got = await planned(api, await new_token(api.database, "viewer"))
    assert (got.status_code, got.json()["summary"]["create"]) == (200, 1)


async def test_a_killed_worker_process_fails_one_request_and_is_replaced(api: Api) -> None:
    await api.tenants("acme")
    token = await new_token(api.database, "viewer")
    assert (await planned(api, token)).status_code == 200
    pool = api.service.checking._pool
    assert pool is not None
    for pid in list(pool._processes):
        os.kill(pid, signal.SIGKILL)
    got = await planned(api, token)
    if got.status_code != 200:  # the pool had not noticed yet
        assert (got.status_code, got.json()["code"]) == (503, "TC710")
        assert int(got.headers["retry-after"]) >= 1
    assert (await planned_with(api, token, 200)).json()["summary"]["create"] == 1


def test_no_process_outlives_a_server_that_is_killed(database_url: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, database_url)
    made = shell("token", "create", "ci", "--role", "viewer", "--format", "json")
    headers = {"Authorization": f"Bearer {json.loads(made.out)['token']}", **YAML}
    with serving(shell) as (url, process):
        httpx.post(
            f"{url}{PLAN}?create_tenants=true", content=BODY, headers=headers, timeout=PATIENCE
        ).raise_for_status()
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.communicate(timeout=PATIENCE)
    assert workers
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE)
    assert not alive


def test_a_stopped_server_ends_its_worker_processes(database_url: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path, database_url)
    made = shell("token", "create", "ci", "--role", "viewer", "--format", "json")
    headers = {"Authorization": f"Bearer {json.loads(made.out)['token']}", **YAML}
    with serving(shell) as (url, process):
        httpx.post(
            f"{url}{PLAN}?create_tenants=true", content=BODY, headers=headers, timeout=PATIENCE
        ).raise_for_status()
        workers = psutil.Process(process.pid).children(recursive=True)
        # Signal all processes, as a service manager does.
        for each in workers:
            each.terminate()
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE)
    assert not alive


async def stored_bytes(api: Api) -> int:
    async with api.database.transaction() as connection:
        statement = text("SELECT pg_database_size(current_database())")
        return int(await connection.scalar(statement) or 0)


@pytest.mark.parametrize(
    ("anchor", "use", "code"),
    [
        ("x: &large {large}", "{{cron: 0 2 * * *, payload: {{text: *large}}}}", "TC014"),
        (
            "schedules: {{large: {{cron: 0 2 * * *, payload: {{text: {large}}}}}}}",
            "{{name: s{number}, preset: large}}",
            "TC308",
        ),
    ],
    ids=["by aliases", "by a named schedule"],
)
async def test_a_manifest_that_would_be_stored_many_times_over_is_refused(
    api: Api, anchor: str, use: str, code: str
) -> None:
    await api.tenants("acme")
    async with api.database.transaction() as connection:
        await tenants.set_limits(connection, TenantId("acme"), {"max_schedules": 49})
    lines = ['version: "1.0"', "tenant: acme", anchor.format(large="x" * 250_000), "sagas:"]
    for number in range(49):
        lines += [f"- name: s{number}", f"  trigger: {{scheduled: {use.format(number=number)}}}"]
    before = await stored_bytes(api)
    async with await api.client("deployer") as deployer:
        path = "/v1/tenants/acme/manifest:apply"
        got = await deployer.post(path, content="\n".join(lines), headers=YAML)
    (tenant,) = got.json()["tenants"]
    assert (got.status_code, got.json()["code"]) == (422, "TC605")
    assert {diagnostic["code"] for diagnostic in tenant["diagnostics"]} == {code}
    assert await stored_bytes(api) - before < 1_000_000
