"""Calls of HTTP targets, on real services: what is sent, what comes of the answer, what is kept."""

import asyncio
import gzip
import hmac
import json
import re
import ssl
import subprocess
import sys
from asyncio import StreamWriter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import trustme
from support.services import (
    LOOPBACK,
    Behaviour,
    Received,
    Service,
    answering,
    forever,
    service,
    writing,
)

from tenantcron.actor.model import scheduler_actor
from tenantcron.core.auth import Auth, HmacAuth, TokenAuth
from tenantcron.core.egress import Egress
from tenantcron.core.errors import UsageError
from tenantcron.core.names import Owner, SagaName, ScheduleName, TenantId
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonObject
from tenantcron.manifests.policy import load_policy
from tenantcron.targets.answers import LONGEST_ANSWER, Answer
from tenantcron.targets.execution import AsyncTransaction, Execution, Transaction
from tenantcron.targets.http import Caller, Request
from tenantcron.targets.resolving import ResolvingError
from tenantcron.targets.signals import Fail, Retry
from tenantcron.targets.tokens import TokenError

KEY = "sched:00000000-0000-0000-0000-000000000002:1763258400000"
ID = UUID("3f2a9c1e-6c0e-5b63-9d0e-3d1f0c3a7b54")
STARTED_AT = datetime(2026, 11, 16, 2, 0, 3, tzinfo=UTC)
NAME = "billing.test"
SECRET = "correct-horse-battery-staple"  # noqa: S105 -- a test's own
TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2lnbmF0dXJl"  # noqa: S105 -- likewise


class NoTransactions:
    """A call needs none."""

    def begin(self) -> AsyncTransaction:
        raise NotImplementedError

    def begin_plain(self) -> Transaction:
        raise NotImplementedError


@dataclass(slots=True)
class FixedTokens:
    """Gives out one token, or none."""

    token: str | None = TOKEN
    audiences: list[str] = field(default_factory=list)

    async def mint(self, audience: str) -> str:
        return self.mint_plain(audience)

    def mint_plain(self, audience: str) -> str:
        self.audiences.append(audience)
        if self.token is None:
            raise TokenError("the tenant is suspended")
        return self.token


def an_execution(attempt: int = 1, payload: JsonObject | None = None) -> Execution:
    return Execution(
        id=ID,
        tenant_id=TenantId("acme"),
        schedule_name=ScheduleName("nightly"),
        saga_name=SagaName("reconcile"),
        scheduled_for=datetime(2026, 11, 16, 2, 0, tzinfo=UTC),
        attempt=attempt,
        payload={"report": "monthly", "b": [1.5, "ü"]} if payload is None else payload,
        deadline=STARTED_AT + timedelta(minutes=5),
        actor=scheduler_actor("billing"),
        _transactions=NoTransactions(),
    )


def a_request(url: str, **fields: object) -> Request:
    values: dict[str, object] = {
        "url": url,
        "method": "POST",
        "headers": {},
        "auth": None,
        "key": KEY,
        "started_at": STARTED_AT,
        "timeout": timedelta(seconds=5),
        "allowed_secrets": ("env:BILLING_*", "file:/*"),
    }
    return Request(**{**values, **fields})  # type: ignore[arg-type] # as given


def egress_to(port: int, *hosts: str) -> Egress:
    return Egress(
        hosts=("http://127.0.0.1", f"http://{NAME}", NAME, *hosts),
        networks=("127.0.0.0/8",),
        ports=(port,),
    )


def resolving(*answers: Sequence[str]) -> Callable[[str], object]:
    """Return a resolver that gives one answer after the other, and counts."""

    async def resolve(host: str) -> Sequence[str]:
        resolve.asked.append(host)  # type: ignore[attr-defined] # a function that remembers
        return answers[min(len(resolve.asked), len(answers)) - 1]  # type: ignore[attr-defined] # as above

    resolve.asked = []  # type: ignore[attr-defined] # as above
    return resolve


@asynccontextmanager
async def calling(port: int, **options: object) -> AsyncIterator[Caller]:
    egress = options.pop("egress", egress_to(port))
    caller = Caller(egress, **options)  # type: ignore[arg-type] # as given
    try:
        yield caller
    finally:
        await caller.close()


@dataclass(slots=True)
class Ended:
    """How a call ended."""

    answer: Answer
    error: BaseException | None = None

    @property
    def reason(self) -> str:
        assert isinstance(self.error, Retry | Fail)
        return self.error.reason


async def called(at: Service, behaviour: Behaviour | None = None, **fields: object) -> Ended:
    """Make one call of a service."""
    if behaviour is not None:
        at.behaviour = behaviour
    path = fields.pop("path", "/run")
    async with calling(at.port) as caller:
        return await ended(caller, a_request(f"{at.url}{path}", **fields))


async def ended(caller: Caller, request: Request, execution: Execution | None = None) -> Ended:
    end = Ended(Answer())
    try:
        await caller.call(request, execution or an_execution(), end.answer)
    except (Retry, Fail) as error:
        end.error = error
    return end


@pytest.fixture
async def target() -> AsyncIterator[Service]:
    """A service that answers 200."""
    async with service() as running:
        yield running


async def test_the_request_says_what_it_is_for(target: Service) -> None:
    end = await called(target, headers={"X-Team": "billing"}, path="/run?month=12")

    assert end == Ended(Answer(200, ""))
    request = target.only
    assert (request.method, request.target) == ("POST", "/run?month=12")
    span = re.fullmatch(f"00-{ID.hex}-([0-9a-f]{{16}})-01", request.headers["traceparent"])
    assert span
    assert {name: request.headers[name] for name in request.headers if name != "traceparent"} == {
        "host": f"127.0.0.1:{target.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "user-agent": "tenantcron",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "idempotency-key": KEY,
        "x-team": "billing",
        "x-tenantcron-execution": str(ID),
        "x-tenantcron-tenant": "acme",
        "x-tenantcron-schedule": "nightly",
        "x-tenantcron-saga": "reconcile",
        "x-tenantcron-scheduled-for": "2026-11-16T02:00:00+00:00",
        "x-tenantcron-attempt": "1",
    }
    assert json.loads(request.body) == {
        "execution_id": str(ID),
        "tenant": "acme",
        "schedule": "nightly",
        "saga": "reconcile",
        "scheduled_for": "2026-11-16T02:00:00+00:00",
        "payload": {"report": "monthly", "b": [1.5, "ü"]},
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_the_method_is_the_targets(target: Service, method: str) -> None:
    await called(target, method=method)
    assert target.only.method == method


async def test_attempts_share_the_body_the_key_and_the_trace_but_not_the_span(
    target: Service,
) -> None:
    async with calling(target.port) as caller:
        for attempt in (1, 2, 3):
            request = a_request(f"{target.url}/run")
            payload: JsonObject = {"b": 1, "a": 2} if attempt == 2 else {"a": 2, "b": 1}
            await ended(caller, request, an_execution(attempt, payload))

    first, *_ = received = target.received
    assert {request.body for request in received} == {first.body}
    assert {request.headers["idempotency-key"] for request in received} == {KEY}
    traces = [request.headers["traceparent"].split("-") for request in received]
    assert {trace[1] for trace in traces} == {ID.hex}
    assert len({trace[2] for trace in traces}) == 3
    assert [request.headers["x-tenantcron-attempt"] for request in received] == ["1", "2", "3"]


async def test_the_owner_is_in_a_header_and_in_the_body_that_is_signed(target: Service) -> None:
    async with calling(target.port) as caller:
        of_maria = replace(an_execution(), owner=Owner("user:maria"))
        await ended(caller, a_request(target.url), of_maria)
    assert target.only.headers["x-tenantcron-owner"] == "user:maria"
    assert json.loads(target.only.body)["owner"] == "user:maria"


async def test_calls_share_a_connection(target: Service) -> None:
    async with calling(target.port) as caller:
        for _ in range(3):
            await ended(caller, a_request(f"{target.url}/run"))
    assert [request.connection for request in target.received] == [1, 1, 1]


async def test_a_reserved_header_that_somebody_put_into_the_database_is_not_sent(
    target: Service,
) -> None:
    forged = {"x-tenantcron-tenant": "umbrella", "AUTHORIZATION": "x", "user-agent": "curl"}
    await called(target, headers=forged)
    assert target.only.headers["x-tenantcron-tenant"] == "acme"
    assert "authorization" not in target.only.headers
    assert target.only.headers["user-agent"] == "curl"


async def test_a_cookie_of_a_service_does_not_come_back_with_the_next_call(
    target: Service,
) -> None:
    target.behaviour = answering(Set_Cookie="session=abc; Path=/")
    async with calling(target.port, resolve=resolving([LOOPBACK])) as caller:
        for _ in range(2):
            await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert all("cookie" not in request.headers for request in target.received)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_2xx_is_success(target: Service, status: int) -> None:
    end = await called(target, answering(status))
    assert (end.error, end.answer.status) == (None, status)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 501, 502, 503, 504, 599])
async def test_what_may_pass_is_worth_another_attempt(target: Service, status: int) -> None:
    end = await called(target, answering(status, b"later"))
    assert isinstance(end.error, Retry)
    assert end.reason.startswith(f"the service answered {status}")
    assert end.answer == Answer(status, "later")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 418, 422, 451])
async def test_what_would_fail_again_is_not_tried_again(target: Service, status: int) -> None:
    end = await called(target, answering(status, b"never"))
    assert isinstance(end.error, Fail)
    assert end.reason.startswith(f"the service answered {status}")
    assert end.answer == Answer(status, "never")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304])
async def test_redirects_are_not_followed(target: Service, status: int) -> None:
    async with service() as elsewhere:
        location = f"{elsewhere.url}/other?token=hidden"
        end = await called(target, answering(status, Location=location))
        assert isinstance(end.error, Fail)
        assert end.reason.endswith(f" to {elsewhere.url}/other, and redirects are not followed")
        assert elsewhere.received == []


@dataclass(frozen=True)
class After:
    """What `Retry-After` says, and how long that is."""

    text: str
    wait: timedelta | None
    date: str = ""


@pytest.mark.parametrize(
    "case",
    [
        After("5", timedelta(seconds=5)),
        After(" 60 ", timedelta(minutes=1)),
        After("3601", timedelta(hours=1)),
        After("9" * 4000, timedelta(hours=1)),
        After("Mon, 16 Nov 2026 02:00:33 GMT", timedelta(seconds=30)),
        After(
            "Mon, 16 Nov 2026 09:00:10 GMT", timedelta(seconds=10), "Mon, 16 Nov 2026 09:00:00 GMT"
        ),
        After("Tue, 17 Nov 2026 02:00:00 GMT", timedelta(hours=1)),
        After("Sun, 15 Nov 2026 02:00:00 GMT", None),
        After("Mon, 99 Nov 2026 02:00:33 GMT", None),
        After("0", None),
        After("-5", None),
        After("1.5", None),
        After("5, 6", None),
        After("soon", None),
        After("\u0665".encode().decode("latin-1"), None),
    ],
    ids=lambda case: case.text[:24],
)
async def test_retry_after_is_honoured_where_it_makes_sense(target: Service, case: After) -> None:
    headers = {"Retry_After": case.text, **({"Date": case.date} if case.date else {})}
    end = await called(target, answering(409, **headers))
    assert isinstance(end.error, Retry)
    if case.wait is None:
        assert end.error.after is None
        return
    # A date without the service's own clock counts from now, and the call took a moment.
    assert end.error.after is not None
    assert timedelta(0) <= case.wait - end.error.after < timedelta(seconds=5)


async def test_what_comes_after_2_kib_is_not_read(target: Service) -> None:
    sent = 0

    async def pour(_: Received, writer: StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    end = await called(target, pour)
    assert end == Ended(Answer(200, "x" * LONGEST_ANSWER))
    assert sent < 50_000_000


async def test_an_answer_is_kept_as_text_that_the_database_takes(target: Service) -> None:
    end = await called(target, answering(200, "ü".encode() * 1200 + b"\xff\x00"))
    assert end.answer.text == "ü" * 1024
    end = await called(target, answering(500, b"a\x00b\xff"))
    assert end.answer.text == "ab\ufffd"


async def test_a_packed_answer_is_not_unpacked(target: Service) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    end = await called(target, answering(200, bomb, Content_Encoding="gzip"))
    assert end == Ended(Answer(200, "(not shown: it is packed as gzip)"))


async def test_nobody_listens() -> None:
    async with service() as gone:
        port = gone.port
    async with calling(port) as caller:
        end = await ended(caller, a_request(f"http://127.0.0.1:{port}/run?token=abc"))
    assert isinstance(end.error, Retry)
    assert end.reason == f"no connection to http://127.0.0.1:{port}: Connection refused"
    assert end.answer == Answer(None, None)


BROKEN = {
    "closed at once": writing(),
    "no HTTP": writing(b"220 mail ready\r\n\r\n"),
    "half a head": writing(b"HTTP/1.1 200 OK\r\nContent-"),
    "half a body": writing(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
    "half a chunk": writing(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf"),
}


@pytest.mark.parametrize("behaviour", BROKEN.values(), ids=BROKEN.keys())
async def test_an_answer_that_breaks_off_is_worth_another_attempt(
    target: Service, behaviour: Behaviour
) -> None:
    end = await called(target, behaviour)
    assert isinstance(end.error, Retry)
    assert end.reason.startswith(f"the connection broke off to {target.url}: ")


async def test_what_came_before_an_answer_broke_off_is_kept(target: Service) -> None:
    end = await called(target, BROKEN["half a body"])
    assert end.answer == Answer(200, "half")


async def test_no_answer_in_time(target: Service) -> None:
    end = await called(target, forever, timeout=timedelta(seconds=0.1))
    assert isinstance(end.error, Retry)
    assert end.reason == f"no answer in time from {target.url}"


async def test_what_a_drip_feeding_service_said_is_kept_when_the_call_is_cancelled(
    target: Service,
) -> None:
    dripped = asyncio.Event()

    async def drip(_: Received, writer: StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n...")
        await writer.drain()
        dripped.set()
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    target.behaviour = drip
    answer = Answer()
    async with calling(target.port) as caller:
        call = asyncio.ensure_future(caller.call(a_request(target.url), an_execution(), answer))
        await dripped.wait()
        while answer.status is None:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert answer.status == 200
    assert set(answer.text or "") <= {"."}
    await asyncio.wait_for(target.hung_up.wait(), 5)


# Egress


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
    """A URL that may not be called, and what is said about it; `{}` is the service's port."""

    url: str
    said: str


@pytest.mark.parametrize(
    "case",
    [
        Forbidden("http://127.0.0.1:1/run", "port 1 is not among"),
        Forbidden("http://127.0.0.2:{}/run", "127.0.0.2 is not among the hosts"),
        Forbidden("http://localhost:{}/run", "localhost is not among the hosts"),
        Forbidden("https://127.0.0.1:{}/run", "127.0.0.1 is not among the hosts"),
        Forbidden("http://user:pass@127.0.0.1:{}/run", "not a URL that can be called"),
        Forbidden("http://2130706433:{}/run", "not a URL that can be called"),
        Forbidden("http://0x7f.0.0.1:{}/run", "not a URL that can be called"),
        Forbidden("http://0177.0.0.1:{}/run", "not a URL that can be called"),
        Forbidden("http://127.1:{}/run", "not a URL that can be called"),
        Forbidden("http://\uff11\uff12\uff17.0.0.1:{}/run", "not a URL that can be called"),
        Forbidden("http://10.0.0.1:{}/run", "10.0.0.1 is not a public address: private"),
        Forbidden("http://[::ffff:10.0.0.1]:{}/run", "not a public address: private"),
        Forbidden("http://169.254.169.254:{}/run", "link-local, where clouds keep their metadata"),
    ],
    ids=lambda case: case.url,
)
async def test_what_may_not_be_called_is_not_even_connected_to(
    target: Service, case: Forbidden
) -> None:
    egress = egress_to(
        target.port, "http://10.0.0.1", "http://[::ffff:10.0.0.1]", "http://169.254.169.254"
    )
    async with calling(target.port, egress=egress) as caller:
        end = await ended(caller, a_request(case.url.format(target.port)))
    assert isinstance(end.error, Fail)
    assert case.said in end.reason
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
async def test_a_name_that_stands_for_a_forbidden_address_is_not_called(
    target: Service, addresses: Sequence[str]
) -> None:
    async with calling(target.port, resolve=resolving(addresses)) as caller:
        end = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert isinstance(end.error, Fail)
    assert end.reason.startswith(f"{NAME} may not be called: ")
    assert "allowed_networks" in end.reason
    assert target.connections == 0


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """The same port of two addresses: the name leads to one when it is checked, then elsewhere."""
    async with service() as checked:
        other = Service(answering(500))
        server = await asyncio.start_server(other.serve, "127.0.0.2", checked.port)
        resolve = resolving([LOOPBACK], ["127.0.0.2"])
        async with calling(checked.port, resolve=resolve) as caller:
            end = await ended(caller, a_request(f"http://{NAME}:{checked.port}/run"))
        server.close()
    assert end == Ended(Answer(200, ""))
    assert checked.only.headers["host"] == f"{NAME}:{checked.port}"
    assert other.connections == 0
    assert resolve.asked == [NAME]  # type: ignore[attr-defined] # one look-up, none after the check


async def test_a_name_that_is_bound_anew_is_checked_anew() -> None:
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


async def test_where_the_first_address_does_not_answer_the_next_one_is_taken(
    target: Service,
) -> None:
    addresses = ["127.0.0.3", LOOPBACK]
    async with calling(target.port, resolve=resolving(addresses)) as caller:
        end = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
    assert end.error is None


async def test_a_name_without_an_address_is_worth_another_attempt(target: Service) -> None:
    async def fails(host: str) -> Sequence[str]:
        raise ResolvingError(f"{host} cannot be looked up: Name or service not known")

    for resolve in (fails, resolving([])):
        async with calling(target.port, resolve=resolve) as caller:
            end = await ended(caller, a_request(f"http://{NAME}:{target.port}/run"))
        assert isinstance(end.error, Retry)
        assert f"{NAME} cannot be looked up" in end.reason


async def test_a_resolver_that_hangs_is_not_waited_for(target: Service) -> None:
    async def hangs(_: str) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with calling(target.port, resolve=hangs) as caller:
        request = a_request(f"http://{NAME}:{target.port}/run", timeout=timedelta(seconds=0.1))
        end = await ended(caller, request)
    assert isinstance(end.error, Retry)
    assert end.reason.endswith(f"{NAME} was not looked up in time")


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


def test_a_scheduler_that_may_call_nothing_loads_nothing_that_calls() -> None:
    program = (
        "import sys, tenantcron.cli.run;"
        "sys.exit(str([name for name in ('httpx', 'httpcore', 'certifi') if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "[]"


# TLS


@dataclass(frozen=True)
class Authority:
    """A certificate authority of our own."""

    ca: trustme.CA
    file: Path

    def context(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A certificate authority that nobody else trusts."""
    ca = trustme.CA()
    file = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(file)
    return Authority(ca, file)


async def test_the_certificate_is_checked_by_the_name_although_the_address_is_connected_to(
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
async def test_a_certificate_of_another_name_is_refused(authority: Authority, name: str) -> None:
    async with service(tls=authority.context(name)) as target:
        options = {"resolve": resolving([LOOPBACK]), "ca_file": authority.file}
        async with calling(target.port, **options) as caller:
            end = await ended(caller, a_request(f"https://{NAME}:{target.port}/run"))
    assert isinstance(end.error, Retry)
    assert "CERTIFICATE_VERIFY_FAILED" in end.reason
    assert target.received == []


async def test_a_connection_of_one_name_is_not_used_for_another_at_the_same_address(
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


async def test_an_authority_that_nobody_named_is_not_trusted(authority: Authority) -> None:
    async with (
        service(tls=authority.context(NAME)) as target,
        calling(target.port, resolve=resolving([LOOPBACK])) as caller,
    ):
        end = await ended(caller, a_request(f"https://{NAME}:{target.port}/run"))
    assert "CERTIFICATE_VERIFY_FAILED" in end.reason


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_without_certificates_is_told(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=r"ca\.pem: no certificates can be read"):
        Caller(Egress(), ca_file=file).open()


# Proof


def verified(request: Received, secret: str) -> bool:
    """Check a signature as the documentation says."""
    head = f"v1:{request.headers['x-tenantcron-timestamp']}:{request.headers['idempotency-key']}:"
    digest = hmac.new(secret.encode(), head.encode() + request.body, "sha256").hexdigest()
    return hmac.compare_digest(f"v1={digest}", request.headers["x-tenantcron-signature"])


async def test_the_documentation_tells_services_how_to_check_a_signature(
    target: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"<!-- verify -->\n+```python\n(.*?)```", page, re.DOTALL)
    shown: dict[str, Callable[..., bool]] = {}
    exec(source, shown)  # noqa: S102 -- our own page
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    now = datetime.now(UTC)
    for started_at in (now, now - timedelta(minutes=6)):
        await called(target, auth=hmac_by("env", "BILLING_HMAC"), started_at=started_at)

    def is_genuine(request: Received, body: bytes, secret: str = SECRET) -> bool:
        headers = {name.title(): value for name, value in request.headers.items()}
        return shown["is_genuine"](headers, body, secret.encode())

    fresh, old = target.received
    assert is_genuine(fresh, fresh.body)
    assert not is_genuine(fresh, fresh.body + b" ")
    assert not is_genuine(fresh, fresh.body, "wrong")
    assert not is_genuine(old, old.body)


def test_the_policy_of_the_documentation_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"<!-- policy -->\n+```toml\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "tenantcron.toml"
    file.write_text(text, encoding="utf-8")
    assert load_policy(file).egress.ports == (443, 8443)


def hmac_by(kind: str, name: str) -> HmacAuth:
    return HmacAuth(SecretRef("env" if kind == "env" else "file", name))


async def test_a_request_is_signed_with_a_secret_of_the_environment(
    target: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    end = await called(target, auth=hmac_by("env", "BILLING_HMAC"))
    assert end.error is None
    assert verified(target.only, SECRET)
    assert not verified(replace(target.only, body=b"{}"), SECRET)
    assert target.only.headers["x-tenantcron-timestamp"] == str(int(STARTED_AT.timestamp()))


async def test_a_request_is_signed_with_a_secret_of_a_file(target: Service, tmp_path: Path) -> None:
    file = tmp_path / "hmac"
    file.write_text(f"{SECRET}\n", encoding="utf-8")
    await called(target, auth=hmac_by("file", str(file)), allowed_secrets=(f"file:{file}",))
    assert verified(target.only, SECRET)


async def test_a_secret_that_is_missing_is_waited_for_and_named(
    target: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hmac"
    allowed = ("env:BILLING_*", f"file:{file}")
    by_env = await called(target, auth=hmac_by("env", "BILLING_HMAC"), allowed_secrets=allowed)
    monkeypatch.setenv("BILLING_HMAC", "")
    empty = await called(target, auth=hmac_by("env", "BILLING_HMAC"), allowed_secrets=allowed)
    by_file = await called(target, auth=hmac_by("file", str(file)), allowed_secrets=allowed)
    for end in (by_env, empty, by_file):
        assert isinstance(end.error, Retry)
    assert "the secret env:BILLING_HMAC is not there, or empty" in by_env.reason
    assert by_file.reason == f"the secret file:{file} cannot be read: No such file or directory"
    assert target.received == []


async def test_a_secret_that_the_policy_does_not_name_is_not_used(
    target: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", SECRET)
    end = await called(target, auth=hmac_by("env", "DATABASE_PASSWORD"))
    assert isinstance(end.error, Fail)
    assert '"env:DATABASE_PASSWORD" to allowed_secrets' in end.reason
    assert target.received == []


@pytest.mark.parametrize("audience", [None, "billing"])
async def test_a_token_is_minted_for_the_origin_or_for_who_the_manifest_says(
    target: Service, audience: str | None
) -> None:
    tokens = FixedTokens()
    await called(target, auth=TokenAuth(audience), tokens=tokens)
    assert target.only.headers["authorization"] == f"Bearer {TOKEN}"
    assert tokens.audiences == [audience or target.url]


async def test_without_a_token_there_is_no_call(target: Service) -> None:
    none = await called(target, auth=TokenAuth(), tokens=FixedTokens(token=None))
    assert isinstance(none.error, Retry)
    assert none.reason == f"no execution token for {target.url}: the tenant is suspended"
    never = await called(target, auth=TokenAuth())
    assert isinstance(never.error, Fail)
    assert target.received == []


async def echo(request: Received, writer: StreamWriter) -> None:
    """Answer with the headers, as debugging services do."""
    body = json.dumps(dict(request.headers)).encode()
    await answering(400, body)(request, writer)


PROOFS: dict[str, Auth] = {"token": TokenAuth(), "hmac": hmac_by("env", "BILLING_HMAC")}


@pytest.mark.parametrize("auth", PROOFS.values(), ids=PROOFS.keys())
async def test_what_proves_who_we_are_is_not_kept_when_a_service_echoes_it(
    target: Service, auth: Auth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    end = await called(target, echo, auth=auth, tokens=FixedTokens())
    headers = target.only.headers
    proof = headers.get("authorization") or headers["x-tenantcron-signature"]
    assert "***" in (end.answer.text or "")
    assert proof[-40:] not in (end.answer.text or "")
    assert "reconcile" in (end.answer.text or "")


async def test_a_token_across_the_end_of_what_is_kept_is_not_kept_in_part(
    target: Service,
) -> None:
    body = b"x" * (LONGEST_ANSWER - 10) + TOKEN.encode() + b"y" * 5000
    end = await called(target, answering(400, body), auth=TokenAuth(), tokens=FixedTokens())
    assert end.answer.text == "x" * (LONGEST_ANSWER - 10) + "***" + "y" * 7


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ('{"authorization": "Basic dXNlcg=="}', '{"authorization": "***"}'),
        ("api_key=abc&month=12", "api_key=***&month=12"),
        ('{"password":"hunter2","a":1}', '{"password":"***","a":1}'),
        ("got bearer abcdefghij", "got bearer ***"),
        (SECRET, "***"),
        ("all is well", "all is well"),
    ],
)
async def test_what_looks_like_credentials_is_not_kept(
    target: Service, said: str, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_HMAC", SECRET)
    end = await called(target, answering(200, said.encode()), auth=PROOFS["hmac"])
    assert end.answer.text == kept


async def test_nothing_of_the_query_is_logged(
    target: Service, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("INFO"):
        await called(target, path="/run?token=abc123")
    assert target.only.target == "/run?token=abc123"
    output = capsys.readouterr()
    assert "abc123" not in caplog.text + output.out + output.err
