"""Host names: which requests the server accepts."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.patience import PATIENCE
from support.serving import Api, api_on

from tenantcron.core.hosts import host_of, is_host_pattern
from tenantcron.store.connection.engine import Database

TRUSTED = ("cron.example.com", "*.cron.internal", "[::1]")


async def status(api: Api, *hosts: str, path: str = "/openapi.json", version: str = "1.1") -> int:
    """Send a request as it stands: a client library would correct the `Host` header."""
    parts = urlsplit(api.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    lines = [f"GET {path} HTTP/{version}", *(f"Host: {host}" for host in hosts), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    async with asyncio.timeout(PATIENCE):
        line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("a", "b"),
        ("",),
        ("a b",),
        ("a/b",),
        ("user@a",),
        ("a:1:2",),
        ("\xe9",),
        ("a,b",),
        ("[",),
    ],
)
async def test_a_request_must_have_exactly_one_valid_host(api: Api, hosts: tuple[str, ...]) -> None:
    assert await status(api, *hosts) == 400


async def test_without_trusted_hosts_every_name_is_served(api: Api) -> None:
    # The host names of proxies are unknown, and no reply is built from the name.
    for host in ("cron.example.com", "10.0.0.7:8080", "[::1]:80", "web_1", "a.b."):
        assert await status(api, host) == 200
    assert await status(api, version="1.0") == 200


async def test_with_trusted_hosts_no_other_name_is_served(
    database: Database, tmp_path: Path
) -> None:
    async with api_on(database, tmp_path, trusted_hosts=TRUSTED) as api:
        for host in ("cron.example.com", "CRON.example.com:8443", "a.cron.internal", "[::1]:80"):
            assert await status(api, host) == 200
        for host in ("evil.com", "cron.internal", "cron.example.com.evil.com", "127.0.0.1"):
            assert await status(api, host) == 421
            assert await status(api, host, path="/ui/sign-in") == 421
        assert await status(api, version="1.0") == 421


async def test_probes_are_served_under_any_host(database: Database, tmp_path: Path) -> None:
    async with api_on(database, tmp_path, trusted_hosts=TRUSTED) as api:
        for path in ("/healthz", "/readyz"):
            assert await status(api, "10.0.0.7:8080", path=path) == 200
            assert await status(api, path=path, version="1.0") == 200


async def test_no_redirect_uses_the_host_of_the_request(api: Api) -> None:
    async with api.with_token(None) as client:
        for path in ("/", "/ui", "/ui/tenants", "/v1/tenants/"):
            got = await client.get(path, headers={"Host": "evil.com"})
            assert "evil.com" not in got.headers.get("location", "")
            assert got.headers.get("location", "/").startswith("/")


def test_hosts_are_compared_without_their_port() -> None:
    assert host_of("Cron.Example.com:443") == "cron.example.com"
    assert host_of("[::1]:80") == "[::1]"
    assert host_of("cron.example.com.") == "cron.example.com"
    assert host_of("a.b/c") is None


@pytest.mark.parametrize("text", ["", "*", "*.", "a*.b", "https://a", "a:80", "a..b", "a b"])
def test_an_invalid_host_pattern_is_rejected(text: str) -> None:
    assert not is_host_pattern(text)
