"""Limits on connections: time and size of a request, number of connections."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs
from support.patience import PATIENCE
from support.serving import Api, api_on, new_token

from tenantcron.api.connections import ConnectionLimits
from tenantcron.store.connection.engine import Database

# Long enough that a request which arrives in one piece is never late.
SOON = ConnectionLimits(connections=500, head_seconds=0.3, body_seconds=0.3)
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def connected(api: Api) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    parts = urlsplit(api.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def reply(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one reply: its status, headers and body."""
    async with asyncio.timeout(PATIENCE):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
    return int(first.split()[1]), headers, body


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes the connection."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await reader.read()
    except ConnectionResetError:
        return b""


def test_a_head_may_take_ten_seconds() -> None:
    assert ConnectionLimits().head_seconds == 10


@pytest.mark.parametrize(
    "sent",
    [b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"GET /healthz HTTP/1.1\r\nX: "],
    ids=["nothing", "an empty line", "no empty line", "half a header"],
)
async def test_a_connection_without_a_complete_head_is_closed(
    database: Database, tmp_path: Path, sent: bytes
) -> None:
    async with (
        api_on(database, tmp_path, bounds=SOON) as api,
        connected(api) as (reader, writer),
    ):
        writer.write(sent)
        assert await ended(reader) == b""


async def test_a_slow_head_does_not_extend_its_deadline(database: Database, tmp_path: Path) -> None:
    async with (
        api_on(database, tmp_path, bounds=SOON) as api,
        connected(api) as (reader, writer),
    ):
        end = asyncio.create_task(ended(reader))
        writer.write(b"GET /healthz HTTP/1.1\r\n")
        while not end.done():
            writer.write(b"X: y\r\n")
            await asyncio.wait([end], timeout=0.01)
        assert end.result() == b""


async def test_the_second_request_of_a_connection_has_the_same_deadline(
    database: Database, tmp_path: Path
) -> None:
    async with (
        api_on(database, tmp_path, bounds=SOON) as api,
        connected(api) as (reader, writer),
    ):
        writer.write(PROBE)
        assert (await reply(reader))[0] == 200
        # Without our deadline, the empty line would end that of uvicorn and keep it open.
        writer.write(b"\r\n")
        assert await ended(reader) == b""


async def test_a_body_that_never_arrives_closes_the_connection(
    database: Database, tmp_path: Path
) -> None:
    async with api_on(database, tmp_path, bounds=SOON) as api, connected(api) as (reader, writer):
        token = await new_token(database, "admin")
        writer.write(
            f"POST /v1/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{".encode()
        )
        assert await ended(reader) == b""


async def test_a_disconnected_client_is_not_logged_as_a_failure(
    database: Database, tmp_path: Path
) -> None:
    token = await new_token(database, "viewer")
    async with api_on(database, tmp_path, bounds=SOON) as api, connected(api) as (reader, writer):
        with capture_logs() as logs:
            writer.write(
                f"POST /v1/tenants/acme/manifest:plan HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {token}\r\nContent-Type: application/yaml\r\n"
                "Content-Length: 20\r\n\r\n{".encode()
            )
            assert await ended(reader) == b""
            async with asyncio.timeout(PATIENCE):
                while not logs:
                    await asyncio.sleep(0)
    assert [line["event"] for line in logs] == ["request_abandoned"]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 12_000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000,
        b"G" * 70_000,
    ],
    ids=["request line", "one header", "many headers", "an endless header", "an endless word"],
)
async def test_a_head_that_is_too_large_is_refused(api: Api, sent: bytes) -> None:
    async with connected(api) as (reader, writer):
        writer.write(sent)
        status, headers, body = await reply(reader)
        if sent.startswith(b"GET"):
            assert (status, json.loads(body)["code"]) == (431, "TC718")
            assert headers["content-type"] == "application/problem+json"
        else:
            assert status == 400
        assert headers["connection"] == "close"
        assert await ended(reader) == b""


async def test_a_large_body_with_a_small_head_is_read(api: Api) -> None:
    token = await new_token(api.database, "admin")
    body = json.dumps({"tenant": "acme"}).ljust(200_000).encode()
    async with connected(api) as (reader, writer):
        head = (
            f"POST /v1/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        assert (await reply(reader))[0] == 201


async def test_a_request_over_the_connection_limit_is_503(
    database: Database, tmp_path: Path
) -> None:
    few = ConnectionLimits(connections=2)
    token = await new_token(database, "viewer")
    lines = ("GET /v1/tenants HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", "", "")
    wanted = "\r\n".join(lines).encode()
    async with (
        api_on(database, tmp_path, bounds=few) as api,
        connected(api) as (first_reader, first),
        connected(api) as (second_reader, second),
    ):
        for reader, writer in ((first_reader, first), (second_reader, second)):
            writer.write(PROBE)
            assert (await reply(reader))[0] == 200
        async with connected(api) as (reader, writer):
            writer.write(wanted)
            status, headers, body = await reply(reader)
            assert (status, json.loads(body)["code"]) == (503, "TC717")
            assert int(headers["retry-after"]) >= 1
            assert await ended(reader) == b""
        # A process that is busy is not broken: an orchestrator must not restart it.
        async with connected(api) as (reader, writer):
            writer.write(PROBE)
            assert (await reply(reader))[0] == 200
        second.close()
        await second.wait_closed()
        # The server may notice a little later.
        async with asyncio.timeout(PATIENCE):
            while await _status(api, wanted) != 200:
                pass


async def _status(api: Api, request: bytes) -> int:
    async with connected(api) as (reader, writer):
        writer.write(request)
        return (await reply(reader))[0]


async def test_rejected_connections_are_limited_too(database: Database, tmp_path: Path) -> None:
    few = ConnectionLimits(connections=1, refused=1)
    async with (
        api_on(database, tmp_path, bounds=few) as api,
        connected(api) as (served, first),
        connected(api),
        connected(api) as (third, _),
    ):
        assert await ended(third) == b""
        first.write(PROBE)
        assert (await reply(served))[0] == 200


CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"


@pytest.mark.parametrize(
    "trailer",
    [b"Authorization: Bearer x\r\n\r\n", b"X: " + b"a" * 200_000],
    ids=["a header after the body", "an endless one"],
)
async def test_trailers_close_the_connection(api: Api, trailer: bytes) -> None:
    async with connected(api) as (reader, writer):
        writer.write(CHUNKED + trailer)
        assert b" 200 " not in await ended(reader)


async def test_pipelined_requests_are_limited(database: Database, tmp_path: Path) -> None:
    async with (
        api_on(database, tmp_path, bounds=ConnectionLimits(pipelined=4)) as api,
        connected(api) as (reader, writer),
    ):
        writer.write(PROBE * 1000)
        assert (await ended(reader)).count(b"HTTP/1.1 200") < 1000


async def test_a_few_pipelined_requests_are_answered(api: Api) -> None:
    async with connected(api) as (reader, writer):
        writer.write(PROBE * 3)
        assert [(await reply(reader))[0] for _ in range(3)] == [200, 200, 200]


async def test_a_body_in_small_chunks_is_read(api: Api) -> None:
    async with connected(api) as (reader, writer):
        chunks = b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n"
        writer.write(CHUNKED.removesuffix(b"0\r\n") + chunks)
        assert (await reply(reader))[0] == 405
