"""The egress rules of HTTP targets: hosts, ports, checked addresses, certificates by name."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import trustme
from support.calls import (
    NAME,
    Ended,
    a_request,
    called,
    calling,
    egress_to,
    ended,
    resolving,
)
from support.services import (
    LOOPBACK,
    Service,
    answering,
    service,
    writing,
)

from tenantcron.core.egress import Egress
from tenantcron.core.errors import UsageError
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.resolving import ResolvingError, asking_tenant
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.signals import Fail, Retry


async def test_no_host_may_be_called_by_default_and_the_error_names_the_line_to_add(
    target: Service,
) -> None:
    async with calling(target.port, egress=Egress()) as caller:
        end = await ended(caller, a_request("https://billing.internal/run?token=abc"))
    assert isinstance(end.error, Fail)
    assert end.reason == (
        "https://billing.internal may not be called: billing.internal is not among the hosts that "
        'may be called; the platform team can add "billing.internal" to allowed_hosts in the '
        "[policy] table"
    )
    assert target.received == []


@dataclass(frozen=True)
class Forbidden:
    """A forbidden URL and its error; `{}` is the port of the service."""

    url: str
    error: str


@pytest.mark.parametrize(
    "case",
    [
        Forbidden("http://127.0.0.1:1/run", "port 1 is not among"),
        Forbidden("http://127.0.0.2:{}/run", "127.0.0.2 is not among the hosts"),
        Forbidden("http://localhost:{}/run", "localhost is not among the hosts"),
        Forbidden("https://127.0.0.1:{}/run", "127.0.0.1 is not among the hosts"),
        Forbidden("http://user:pass@127.0.0.1:{}/run", "the URL of the target is invalid"),
        Forbidden("http://2130706433:{}/run", "the URL of the target is invalid"),
        Forbidden("http://0x7f.0.0.1:{}/run", "the URL of the target is invalid"),
        Forbidden("http://0177.0.0.1:{}/run", "the URL of the target is invalid"),
        Forbidden("http://127.1:{}/run", "the URL of the target is invalid"),
        Forbidden("http://\uff11\uff12\uff17.0.0.1:{}/run", "the URL of the target is invalid"),
        Forbidden("http://10.0.0.1:{}/run", "10.0.0.1 is not a public address: private"),
        Forbidden("http://[::ffff:10.0.0.1]:{}/run", "not a public address: private"),
        Forbidden("http://169.254.169.254:{}/run", "link-local, where clouds keep their metadata"),
    ],
    ids=lambda case: case.url,
)
async def test_a_forbidden_url_is_not_even_connected_to(target: Service, case: Forbidden) -> None:
    egress = egress_to(
        target.port, "http://10.0.0.1", "http://[::ffff:10.0.0.1]", "http://169.254.169.254"
    )
    async with calling(target.port, egress=egress) as caller:
        end = await ended(caller, a_request(case.url.format(target.port)))
    assert isinstance(end.error, Fail)
    assert case.error in end.reason
    assert target.connections == 0


FORBIDDEN_ADDRESSES = (
    ["10.0.0.1"],
    ["169.254.169.254"],
    ["::1"],
    ["::ffff:10.0.0.1"],
    ["64:ff9b::a9fe:a9fe"],
    ["2002:a9fe:a9fe::1"],
    ["2001:0:a9fe:a9fe::1"],
    ["fd00:ec2::254"],
    ["224.0.0.1"],
    [LOOPBACK, "10.0.0.1"],
    ["10.0.0.1", LOOPBACK],
)


@pytest.mark.parametrize("addresses", FORBIDDEN_ADDRESSES, ids=str)
async def test_a_name_that_resolves_to_a_forbidden_address_is_not_called(
    target: Service, addresses: Sequence[str]
) -> None:
    async with calling(target.port, resolve=resolving(addresses)) as caller:
        end = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert isinstance(end.error, Fail)
    assert end.reason.startswith(f"{NAME} may not be called: ")
    assert "allowed_networks" in end.reason
    assert target.connections == 0


async def test_a_name_is_resolved_for_the_calling_tenant(target: Service) -> None:
    tenants = []

    async def resolve(_: str) -> Sequence[str]:
        tenants.append(asking_tenant.get())
        return [LOOPBACK]

    async with calling(target.port, resolve=resolve) as caller:
        await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert tenants == ["acme"]


async def test_the_connection_uses_the_checked_address() -> None:
    """The same port on two addresses: the name resolves to one for the check, then to another."""
    async with service() as checked:
        other = Service(answering(500))
        server = await asyncio.start_server(other.serve, "127.0.0.2", checked.port)
        resolve = resolving([LOOPBACK], ["127.0.0.2"])
        async with calling(checked.port, resolve=resolve) as caller:
            end = await ended(caller, a_request(f"http://{NAME}:{checked.port}/run"))
        server.close()
    assert end == Ended(ServiceResponse(200, ""))
    assert checked.only.headers["host"] == f"{NAME}:{checked.port}"
    assert other.connections == 0
    assert resolve.asked == [NAME]  # type: ignore[attr-defined] # one lookup, none after the check


async def test_a_rebound_name_is_checked_again() -> None:
    closing = writing(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    async with service(closing) as target:
        resolve = resolving([LOOPBACK], ["169.254.169.254"])
        async with calling(target.port, resolve=resolve) as caller:
            first = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
            second = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert first.error is None
    assert isinstance(second.error, Fail)
    assert "169.254.169.254 is not a public address" in second.reason
    assert target.connections == 1


async def test_the_next_address_is_used_if_the_first_does_not_respond(
    target: Service,
) -> None:
    addresses = ["127.0.0.3", LOOPBACK]
    async with calling(target.port, resolve=resolving(addresses)) as caller:
        end = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert end.error is None


async def test_a_name_without_an_address_is_retried(target: Service) -> None:
    async def fails(host: str) -> Sequence[str]:
        raise ResolvingError(f"{host} cannot be resolved: Name or service not known")

    for resolve in (fails, resolving([])):
        async with calling(target.port, resolve=resolve) as caller:
            end = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
        assert isinstance(end.error, Retry)
        assert f"{NAME} cannot be resolved" in end.reason


async def test_a_hanging_resolver_times_out(target: Service) -> None:
    async def hangs(_: str) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with calling(target.port, resolve=hangs) as caller:
        request = a_request(f"http://{NAME}:{target.port}/run", timeout=timedelta(seconds=0.1))
        end = await ended(caller, request)
    assert isinstance(end.error, Retry)
    assert end.reason.endswith(f"{NAME} was not resolved in time")


async def test_proxies_and_netrc_files_of_the_environment_are_ignored(
    target: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login robot password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    async with service() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        end = await called(target)
        assert end.error is None
        assert proxy.connections == 0
    assert "authorization" not in target.only.headers


def test_a_scheduler_without_egress_loads_no_http_library() -> None:
    program = (
        "import sys, tenantcron.cli.run;"
        "sys.exit(str([name for name in ('httpx', 'httpcore', 'certifi') if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "[]"


@dataclass(frozen=True)
class Authority:
    """A certificate authority."""

    ca: trustme.CA
    file: Path

    def context(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A certificate authority that is not trusted by default."""
    ca = trustme.CA()
    file = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(file)
    return Authority(ca, file)


async def test_the_certificate_is_verified_for_the_name_not_the_address(
    authority: Authority,
) -> None:
    seen: list[str | None] = []
    tls = authority.context(NAME)
    tls.sni_callback = lambda _, name, __: seen.append(name)
    async with service(tls=tls) as target:
        options = {"resolve": resolving([LOOPBACK]), "ca_file": authority.file}
        async with calling(target.port, **options) as caller:
            end = await ended(caller, a_request(f"https://{NAME}:{target.port}/run"))
    assert end.error is None
    assert seen == [NAME]
    assert target.only.headers["host"] == f"{NAME}:{target.port}"


@pytest.mark.parametrize("name", ["other.test", LOOPBACK])
async def test_a_certificate_for_another_name_is_rejected(authority: Authority, name: str) -> None:
    async with service(tls=authority.context(name)) as target:
        options = {"resolve": resolving([LOOPBACK]), "ca_file": authority.file}
        async with calling(target.port, **options) as caller:
            end = await ended(caller, a_request(f"https://{NAME}:{target.port}/run"))
    assert isinstance(end.error, Retry)
    assert "CERTIFICATE_VERIFY_FAILED" in end.reason
    assert target.received == []


async def test_a_connection_is_not_shared_by_names_with_the_same_address(
    authority: Authority,
) -> None:
    async with service(tls=authority.context(NAME)) as target:
        egress = egress_to(target.port, "other.test")
        options = {"resolve": resolving([LOOPBACK]), "ca_file": authority.file, "egress": egress}
        async with calling(target.port, **options) as caller:
            good = await ended(caller, a_request(f"https://{NAME}:{target.port}/run"))
            bad = await ended(caller, a_request(f"https://other.test:{target.port}/run"))
    assert good.error is None
    assert "CERTIFICATE_VERIFY_FAILED" in bad.reason


async def test_an_unknown_authority_is_not_trusted(authority: Authority) -> None:
    async with (
        service(tls=authority.context(NAME)) as target,
        calling(target.port, resolve=resolving([LOOPBACK])) as caller,
    ):
        end = await ended(caller, a_request(f"https://{NAME}:{target.port}/run"))
    assert "CERTIFICATE_VERIFY_FAILED" in end.reason


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_without_certificates_is_rejected(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=r"ca\.pem: no certificates can be read"):
        HttpClient(Egress(), ca_file=file).open()
