"""Connections to a Temporal server: TLS, client certificates, and API keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.temporal_calls import ended_call, temporal_call
from support.temporal_server import grpc

from tenantcron.core.egress import Egress, Url
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.settings import Settings
from tenantcron.targets.contract import RunnerServices
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.responses import RetryCall
from tenantcron.targets.temporal.runner import TemporalAdapter, TemporalRunner

NO_WORKERS = "no workers are registered"


@pytest.fixture(scope="module", autouse=True)
async def one_loop() -> AsyncIterator[None]:
    """Keep one event loop for all tests: a thread of grpc.aio may use it after a test."""
    yield  # noqa: PT022 -- it lasts as long as the module


class Frontend(grpc.GenericRpcHandler):  # type: ignore[misc] # its types are not known here
    """Refuses every call, and records who called: the real server has no authentication."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str], str]] = []

    def service(self, details: Any) -> Any:
        """Return the method, whatever its name is."""
        metadata = {name: str(text) for name, text in details.invocation_metadata}

        async def refuse(_: bytes, context: Any) -> bytes:
            names = context.auth_context().get("x509_common_name", [b""])
            self.calls.append((details.method.rpartition("/")[2], metadata, names[0].decode()))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, NO_WORKERS)
            raise AssertionError

        return grpc.unary_unary_rpc_method_handler(refuse)


@asynccontextmanager
async def frontend(ca: trustme.CA) -> AsyncIterator[tuple[Frontend, int]]:
    """Serve with TLS, and with client certificates of the same authority."""
    own = ca.issue_cert("localhost")
    credentials = grpc.ssl_server_credentials(
        [(own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes())],
        root_certificates=ca.cert_pem.bytes(),
        require_client_auth=True,
    )
    running, server = Frontend(), grpc.aio.server()
    server.add_generic_rpc_handlers((running,))
    port = server.add_secure_port("localhost:0", credentials)
    await server.start()
    try:
        yield running, port
    finally:
        await server.stop(None)


def write_identity(ca: trustme.CA, folder: Path, name: str) -> None:
    """Write a client certificate and its key, in place of the ones before."""
    identity = ca.issue_cert("tenantcron@example.com", common_name=name)
    identity.cert_chain_pems[0].write_to_path(folder / "certificate")
    identity.private_key_pem.write_to_path(folder / "key")


def runner_in(folder: Path, port: int, ca: trustme.CA) -> TemporalRunner:
    """Return a runner whose secrets are in a folder."""
    ca.cert_pem.write_to_path(folder / "ca.pem")
    settings = Settings(
        folder=folder,
        temporal_address=Url("https", "localhost", port, "/"),
        temporal_api_key=SecretRef("file", str(folder / "api_key")),
        temporal_certificate=SecretRef("file", str(folder / "certificate")),
        temporal_key=SecretRef("file", str(folder / "key")),
        ca_file=folder / "ca.pem",
    )
    return TemporalAdapter().open(RunnerServices(HttpClient(Egress()), None, settings))


async def test_calls_have_the_api_key_and_the_certificate_as_they_are_now(tmp_path: Path) -> None:
    ca = trustme.CA()
    write_identity(ca, tmp_path, "first")
    (tmp_path / "api_key").write_text("key-1\n", encoding="utf-8")
    async with frontend(ca) as (running, port):
        runner = runner_in(tmp_path, port, ca)
        end = await ended_call(runner, temporal_call())
        assert isinstance(end.error, RetryCall)
        assert end.reason == f"the Temporal server answered FAILED_PRECONDITION: {NO_WORKERS}"
        write_identity(ca, tmp_path, "second")
        (tmp_path / "api_key").write_text("key-2\n", encoding="utf-8")
        await ended_call(runner, temporal_call())
        await runner.close()
    seen = [
        (method, metadata["authorization"], metadata["temporal-namespace"], name)
        for method, metadata, name in running.calls
    ]
    assert seen == [
        ("StartWorkflowExecution", "Bearer key-1", "default", "first"),
        ("StartWorkflowExecution", "Bearer key-2", "default", "second"),
    ]


async def test_a_server_with_an_untrusted_certificate_gets_no_call(tmp_path: Path) -> None:
    ca = trustme.CA()
    write_identity(ca, tmp_path, "first")
    (tmp_path / "api_key").write_text("key-1", encoding="utf-8")
    async with frontend(ca) as (running, port):
        runner = runner_in(tmp_path, port, trustme.CA())
        end = await ended_call(runner, temporal_call())
        await runner.close()
    assert isinstance(end.error, RetryCall)
    assert end.reason == "the Temporal server cannot be reached"
    assert running.calls == []
