"""The client, sync and async, against a real server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from support.both_ways import BothWays, both_ways
from support.database import Server

from tenantcron.client import (
    AsyncClient,
    Client,
    ProblemError,
    RequestError,
    execution_tokens,
    executions,
    manifests,
    schedules,
    tenants,
)
from tenantcron.client.cluster import liveness
from tenantcron.client.executions import retry


@pytest.fixture(scope="module")
def served(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    with both_ways(server, tmp_path_factory.mktemp("client")) as ready:
        yield ready


def test_a_list_is_read_page_by_page(served: BothWays) -> None:
    with Client(served.server, served.token) as client:
        pages = [*client.pages(tenants.list_all(), size=1)]
        assert [[tenant["tenant"] for tenant in page] for page in pages] == [["acme"], ["beta"]]
        assert [tenant["tenant"] for tenant in client.each(tenants.list_all())] == ["acme", "beta"]


async def test_the_async_client_returns_the_same(served: BothWays) -> None:
    async with AsyncClient(served.server, served.token) as client:
        found = await client.send(schedules.show("acme", "nightly"))
        listed = [tenant["tenant"] async for tenant in client.each(tenants.list_all())]
    with Client(served.server, served.token) as client_of_threads:
        same = await asyncio.to_thread(client_of_threads.send, schedules.show("acme", "nightly"))
    assert (found["definition"], listed) == (same["definition"], ["acme", "beta"])
    assert client.server_time is not None


def test_a_problem_has_its_code_status_and_correlation_id(served: BothWays) -> None:
    with Client(served.server, served.token) as client, pytest.raises(ProblemError) as raised:
        client.send(tenants.show("globex"))
    problem = raised.value
    assert (problem.code, problem.status) == ("TC703", 404)
    assert problem.detail in str(problem)
    assert problem.correlation_id


def test_logs_and_versions_of_manifests_are_read(served: BothWays) -> None:
    with Client(served.server, served.token) as client:
        (first,) = client.each(manifests.versions("acme"))
        shown = client.send(manifests.version("acme", first["version"]))
        assert shown["version"] == first["version"]
        with pytest.raises(ProblemError, match="does not exist"):
            client.send(executions.log("00000000-0000-0000-0000-000000000001"))
        # This server has no signing keys.
        with pytest.raises(ProblemError, match="no signing keys"):
            client.send(execution_tokens.introspect("nonsense"))
        with pytest.raises(ProblemError, match="no signing keys"):
            client.send(execution_tokens.renew())


class _Busy(BaseHTTPRequestHandler):
    """Answers 503 twice, then succeeds; collects idempotency keys."""

    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.keys.append(self.headers["Idempotency-Key"])
        is_busy = len(self.keys) < 3
        body = {"code": "TC710", "detail": "busy"} if is_busy else {"healthy": True}
        self._reply(503 if is_busy else 200, json.dumps(body).encode())

    def do_GET(self) -> None:
        self._reply(200, b"<html>another server</html>")

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base
        """Print nothing."""


@contextmanager
def busy_server() -> Iterator[str]:
    _Busy.keys.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_busy_server_is_asked_again_with_the_same_idempotency_key() -> None:
    with busy_server() as url, Client(url) as client, pytest.raises(RequestError):
        client.send(retry("3f2a9c1e"))  # the last response is not an execution
    assert len(_Busy.keys) == 3
    assert len({*_Busy.keys}) == 1


def test_another_server_is_recognised() -> None:
    is_another = pytest.raises(RequestError, match="not from tenantcron")
    with busy_server() as url, Client(url) as client, is_another:
        client.send(liveness())


def test_a_client_with_one_try_reports_a_busy_server() -> None:
    with busy_server() as url, Client(url, tries=1) as client, pytest.raises(ProblemError):
        client.send(retry("1"))
    assert len(_Busy.keys) == 1
