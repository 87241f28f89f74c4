"""gRPC targets: requests, results, statuses, egress rules, TLS, tokens and interruptions."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.calls import ID, KEY, NAME, STARTED_AT, TOKEN, FixedTokens, egress_to, resolving
from support.grpc_services import (
    done,
    ended_call,
    grpc,
    grpc_call,
    grpc_runner,
    grpc_service,
    hanging_process,
)

from tenantcron.core.egress import Egress
from tenantcron.core.errors import UsageError
from tenantcron.core.names import SagaName
from tenantcron.core.settings import Settings
from tenantcron.core.values import JsonObject
from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.policy import load_policy
from tenantcron.targets import extras
from tenantcron.targets.contract import RunnerServices
from tenantcron.targets.grpc.connecting import LONGEST_MESSAGE, channel_target
from tenantcron.targets.grpc.runner import GrpcAdapter
from tenantcron.targets.grpc.saga_runner_pb2 import RunRequest, RunResponse
from tenantcron.targets.grpc.statuses import IS_RETRIED
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.output import collect_from_here
from tenantcron.targets.responses import FailCall, RetryCall

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "grpc"


@pytest.fixture(scope="module", autouse=True)
async def one_loop() -> AsyncIterator[None]:
    """Keep one event loop for all tests: a thread of grpc.aio may use it after a test."""
    yield  # noqa: PT022 -- it lasts as long as the module


async def test_a_call_has_the_execution_and_its_result_is_stored() -> None:
    async def run(_: RunRequest, context: Any) -> RunResponse:
        # The timeout of 20 seconds; the library rounds a deadline up.
        assert 15 < context.time_remaining() < 21
        return RunResponse(result='{"invoices": 12}')

    output = collect_from_here()
    async with grpc_service(run) as service:
        assert (await ended_call(grpc_call(service.port))).error is None
    (request,), (metadata,) = service.requests, service.metadata
    assert (request.execution_id, request.tenant) == (str(ID), "acme")
    assert (request.schedule, request.saga, request.attempt) == ("nightly", "reconcile", 1)
    assert (request.idempotency_key, request.owner) == (KEY, "")
    assert request.scheduled_for.ToJsonString() == "2026-11-16T02:00:00Z"
    assert json.loads(request.payload) == {"report": "monthly", "b": [1.5, "ü"]}
    assert metadata["traceparent"].startswith(f"00-{ID.hex}-")
    assert metadata["x-tenantcron-fence"] == "1"
    assert "authorization" not in metadata
    assert output.result == '{"invoices":12}'


@pytest.mark.parametrize(("sent", "stored"), [("", None), ("twelve", '"twelve"'), ("12", "12")])
async def test_a_result_may_be_text_or_nothing(sent: str, stored: str | None) -> None:
    async def run(_: RunRequest, __: Any) -> RunResponse:
        return RunResponse(result=sent)

    output = collect_from_here()
    async with grpc_service(run) as service:
        await ended_call(grpc_call(service.port))
    assert output.result == stored


async def test_another_service_with_the_same_method_can_be_called() -> None:
    async with grpc_service(service="acme.v1.Billing") as service:
        assert (await ended_call(grpc_call(service.port, service="acme.v1.Billing"))).error is None
        missing = await ended_call(grpc_call(service.port))
    assert isinstance(missing.error, FailCall)
    assert missing.reason.startswith("the service answered UNIMPLEMENTED")


async def test_every_status_is_retried_or_final_as_the_table_says() -> None:
    assert {*IS_RETRIED} == {*grpc.StatusCode} - {grpc.StatusCode.OK}

    async def run(request: RunRequest, context: Any) -> RunResponse:
        await context.abort(grpc.StatusCode[request.idempotency_key], "as requested")
        raise AssertionError

    async with grpc_service(run) as service:
        for status, is_retried in IS_RETRIED.items():
            end = await ended_call(replace(grpc_call(service.port), key=status.name))
            assert isinstance(end.error, RetryCall if is_retried else FailCall), status
            assert end.reason == f"the service answered {status.name}: as requested"


@pytest.mark.parametrize(
    ("trailer", "after"),
    [("1500", 1.5), ("99999999", 3600), ("0", None), ("-1", None), ("soon", None)],
)
async def test_a_server_can_delay_the_retry(trailer: str, after: float | None) -> None:
    async def run(_: RunRequest, context: Any) -> RunResponse:
        trailers = (("grpc-retry-pushback-ms", trailer),)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "busy", trailers)
        raise AssertionError

    async with grpc_service(run) as service:
        end = await ended_call(grpc_call(service.port))
    assert isinstance(end.error, RetryCall)
    assert end.error.after == (None if after is None else timedelta(seconds=after))


async def test_a_response_that_is_too_long_fails() -> None:
    async def run(_: RunRequest, __: Any) -> RunResponse:
        return RunResponse(result="x" * LONGEST_MESSAGE)

    async with grpc_service(run) as service:
        end = await ended_call(grpc_call(service.port))
    assert isinstance(end.error, RetryCall)
    assert "RESOURCE_EXHAUSTED" in end.reason


@pytest.mark.parametrize(
    ("address", "plaintext", "why"),
    [
        ("127.0.0.1:1", True, "port 1 is not among"),
        ("127.0.0.2:{}", True, "127.0.0.2 is not among the hosts"),
        ("127.0.0.1:{}", False, "127.0.0.1 is not among the hosts"),
        ("http://127.0.0.1:{}", True, "the address of the target is invalid"),
        ("127.0.0.1:{}/path", True, "the address of the target is invalid"),
        ("user@127.0.0.1:{}", True, "the address of the target is invalid"),
        ("unix:/tmp/socket", True, "the address of the target is invalid"),
        ("0x7f.1:{}", True, "the address of the target is invalid"),
    ],
)
async def test_a_forbidden_address_is_not_called(address: str, plaintext: bool, why: str) -> None:
    async with grpc_service() as service:
        call = grpc_call(service.port, address=address.format(service.port), plaintext=plaintext)
        end = await ended_call(call)
    assert isinstance(end.error, FailCall)
    assert why in end.reason
    assert service.requests == []


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["127.0.0.1", "169.254.169.254"], ["::1"]])
async def test_a_name_with_a_forbidden_address_is_not_called(addresses: Sequence[str]) -> None:
    async with grpc_service() as service:
        call = grpc_call(service.port, address=f"{NAME}:{service.port}")
        end = await ended_call(call, grpc_runner(resolve=resolving(addresses)))
    assert isinstance(end.error, FailCall)
    assert end.reason.startswith(f"{NAME} may not be called: ")
    assert service.requests == []


async def test_a_name_is_resolved_once_and_only_the_checked_address_is_called() -> None:
    resolve = resolving(["127.0.0.1"], ["10.0.0.1"])
    async with grpc_service() as service:
        call = grpc_call(service.port, address=f"{NAME}:{service.port}")
        assert (await ended_call(call, grpc_runner(resolve=resolve))).error is None
    assert resolve.asked == [NAME]  # type: ignore[attr-defined] # a function that remembers


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with grpc_service() as service:
        assert (await ended_call(grpc_call(service.port))).error is None


async def test_no_host_may_be_called_by_default() -> None:
    end = await ended_call(replace(grpc_call(1), egress=Egress()))
    assert isinstance(end.error, FailCall)
    assert 'can add "http://127.0.0.1" to allowed_hosts' in end.reason


def test_addresses_of_one_family_are_called() -> None:
    assert channel_target(["::1", "10.0.0.1", "10.0.0.2"], 1) == "ipv4:10.0.0.1:1,10.0.0.2:1"
    assert channel_target(["::1", "fd00::2"], 443) == "ipv6:[::1]:443,[fd00::2]:443"


@pytest.mark.parametrize(
    ("certified", "is_trusted", "succeeds"),
    [(NAME, True, True), ("other.test", True, False), (NAME, False, False)],
)
async def test_the_certificate_must_be_trusted_and_have_the_name(
    tmp_path: Path, certified: str, is_trusted: bool, succeeds: bool
) -> None:
    authority, ca_file = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    issued = authority.issue_cert(certified)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    credentials = grpc.ssl_server_credentials([(issued.private_key_pem.bytes(), chain)])
    runner = grpc_runner(ca_file=ca_file if is_trusted else None, resolve=resolving(["127.0.0.1"]))
    async with grpc_service(credentials=credentials) as service:
        call = grpc_call(service.port, address=f"{NAME}:{service.port}", plaintext=False)
        end = await ended_call(call, runner)
    assert (end.error is None, len(service.requests)) == (succeeds, int(succeeds))
    assert succeeds or isinstance(end.error, RetryCall)


def test_a_missing_ca_file_is_reported_at_start(tmp_path: Path) -> None:
    settings = Settings(folder=tmp_path, ca_file=tmp_path / "missing.pem")
    with pytest.raises(UsageError, match=r"missing\.pem: no certificates can be read"):
        GrpcAdapter().open(RunnerServices(HttpClient(Egress()), settings=settings))


@pytest.mark.parametrize("auth", ["execution_token", {"execution_token": {}}], ids=str)
async def test_the_token_is_for_the_origin_of_the_service(auth: Any) -> None:
    tokens = FixedTokens()
    async with grpc_service() as service:
        call = replace(grpc_call(service.port, auth=auth), tokens=tokens)
        assert (await ended_call(call)).error is None
    assert service.metadata[0]["authorization"] == f"Bearer {TOKEN}"
    assert tokens.audiences == [f"http://127.0.0.1:{service.port}"]


async def test_another_audience_must_be_allowed() -> None:
    auth: Any = {"execution_token": {"audience": "billing"}}
    async with grpc_service() as service:
        call = replace(grpc_call(service.port, auth=auth), tokens=FixedTokens())
        refused = await ended_call(call)
        assert isinstance(refused.error, FailCall)
        allowed = await ended_call(replace(call, allowed_audiences=("billing",)))
    assert (allowed.error, len(service.requests)) == (None, 1)


async def test_an_echoed_token_is_redacted() -> None:
    async def run(_: RunRequest, context: Any) -> RunResponse:
        metadata = {**dict(context.invocation_metadata())}
        await context.abort(grpc.StatusCode.INTERNAL, f"got {metadata['authorization']}")
        raise AssertionError

    async with grpc_service(run) as service:
        call = grpc_call(service.port, auth="execution_token")
        end = await ended_call(replace(call, tokens=FixedTokens()))
    assert TOKEN not in end.reason


async def test_without_a_token_nothing_is_sent() -> None:
    async with grpc_service() as service:
        call = grpc_call(service.port, auth="execution_token")
        none = await ended_call(replace(call, tokens=FixedTokens(None)))
        no_key = await ended_call(call)
    assert isinstance(none.error, RetryCall)
    assert isinstance(no_key.error, FailCall)
    assert service.requests == []


async def test_a_cancelled_attempt_cancels_the_call_in_the_server() -> None:
    called, cancelled = asyncio.Event(), asyncio.Event()

    async def run(_: RunRequest, __: Any) -> RunResponse:
        called.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    async with grpc_service(run) as service:
        task = asyncio.create_task(ended_call(grpc_call(service.port)))
        await called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(cancelled.wait(), 10)


async def test_a_server_that_is_killed_during_the_call_is_called_again_later() -> None:
    with hanging_process() as (process, port):
        task = asyncio.create_task(ended_call(grpc_call(port)))
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
        process.kill()
        end = await task
    assert isinstance(end.error, RetryCall)
    assert end.reason.startswith("the service answered UNAVAILABLE")


async def test_nothing_that_listens_is_called_again_later() -> None:
    async with grpc_service(done) as service:
        pass
    end = await ended_call(grpc_call(service.port))
    assert isinstance(end.error, RetryCall)
    assert "UNAVAILABLE" in end.reason


def test_a_replica_without_grpcio_does_not_serve_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"install tenantcron\[grpc\]"):
        GrpcAdapter().open(RunnerServices(HttpClient(egress_to(1))))


async def test_the_example_runs_the_saga_of_its_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.delitem(sys.modules, "service", raising=False)
    server = import_module("service").new_server()
    policy = load_policy(EXAMPLE / "tenantcron.toml")
    content = (EXAMPLE / "acme.yaml").read_bytes()
    checked = check_manifest(content, "yaml", policy, TenantHints(), STARTED_AT)
    assert checked.problems == ()
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    output = collect_from_here()
    try:
        call = grpc_call(port)
        payload: JsonObject = {"month": "2026-11"}
        execution = replace(
            call.execution, saga_name=SagaName("generate_invoices"), payload=payload
        )
        end = await ended_call(replace(call, execution=execution))
        unknown = await ended_call(call)
    finally:
        await asyncio.to_thread(server.stop(None).wait)
    assert end.error is None
    assert output.result == '{"month":"2026-11","invoices":12}'
    assert isinstance(unknown.error, FailCall)


def test_the_page_has_the_table_of_statuses() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "targets-grpc.md").read_text(encoding="utf-8")
    rows = page.partition("<!-- statuses -->")[2].partition("\n\n- ")[0].splitlines()
    documented = {
        name: "is retried" in row for row in rows for name in re.findall(r"`([A-Z_]+)`", row)
    }
    del documented["OK"], documented["DEAD"]
    assert documented == {status.name: retried for status, retried in IS_RETRIED.items()}
