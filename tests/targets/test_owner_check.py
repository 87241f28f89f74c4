"""Owner checks with a real policy service: the request, and which responses are decisions."""

import gzip
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from support.services import Behaviour, Service, answering, forever, service, writing

from tenantcron.core.egress import Egress
from tenantcron.core.names import Owner, SagaName, ScheduleName, TenantId
from tenantcron.targets.authorising import (
    Allowed,
    AuthorisationRequest,
    CheckError,
    Refused,
    decide,
)
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.owner_check import OwnerCheck
from tenantcron.targets.tokens import TokenError

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2lnbmF0dXJl"  # noqa: S105 -- a test's own
ID = UUID("3f2a9c1e-6c0e-5b63-9d0e-3d1f0c3a7b54")


class FixedTokens:
    """Mints a fixed token, or none."""

    def __init__(self, token: str | None = TOKEN) -> None:
        self.token = token
        self.audiences: list[str] = []

    async def mint(self, audience: str) -> str:
        return self.mint_plain(audience)

    def mint_plain(self, audience: str) -> str:
        self.audiences.append(audience)
        if self.token is None:
            raise TokenError("no token: tenant acme is suspended")
        return self.token


def request(tokens: FixedTokens | None = None) -> AuthorisationRequest:
    return AuthorisationRequest(
        tenant_id=TenantId("acme"),
        schedule_name=ScheduleName("nightly"),
        saga_name=SagaName("export_contacts"),
        owner=Owner("user:maria"),
        execution_id=ID,
        scheduled_for=datetime(2026, 12, 1, 6, tzinfo=UTC),
        _tokens=tokens or FixedTokens(None),
    )


@pytest.fixture
async def policy() -> AsyncIterator[Service]:
    """A policy service."""
    async with service() as running:
        yield running


@pytest.fixture
async def caller(policy: Service) -> AsyncIterator[HttpClient]:
    """A client that may call the policy service."""
    egress = Egress(("http://127.0.0.1",), ("127.0.0.0/8",), (policy.port,))
    client = HttpClient(egress)
    yield client
    await client.close()


async def test_the_request_describes_the_execution_and_its_owner(
    policy: Service, caller: HttpClient
) -> None:
    policy.behaviour = answering(200, b'{"allowed": true}')
    assert await OwnerCheck(caller, f"{policy.url}/may?v=1").authorise(request()) == Allowed()
    received = policy.only
    assert (received.method, received.target) == ("POST", "/may?v=1")
    assert json.loads(received.body) == {
        "tenant": "acme",
        "schedule": "nightly",
        "saga": "export_contacts",
        "owner": "user:maria",
        "execution_id": str(ID),
        "scheduled_for": "2026-12-01T06:00:00+00:00",
    }
    assert received.headers["content-type"] == "application/json"
    assert received.headers["accept-encoding"] == "identity"
    assert "authorization" not in received.headers


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (answering(200, b'{"allowed": false, "reason": "has left"}'), "has left"),
        (answering(200, b'{"allowed": false}'), "no reason was given"),
        (answering(200, b'{"allowed": false, "reason": 5}'), "no reason was given"),
        (answering(403, b'{"reason": "has left"}'), "has left"),
        (answering(403), "no reason was given"),
        (answering(403, b"<html>Forbidden</html>"), "no reason was given"),
        (answering(403, b'{"allowed": true}'), "no reason was given"),
    ],
)
async def test_a_refusal_is_returned_with_its_reason(
    policy: Service, caller: HttpClient, behaviour: Behaviour, reason: str
) -> None:
    policy.behaviour = behaviour
    assert await OwnerCheck(caller, policy.url).authorise(request()) == Refused(reason)


YES = b'{"allowed": true}'


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (answering(200, b""), "without an `allowed`"),
        (answering(200, b"true"), "without an `allowed`"),
        (answering(200, b'["allowed"]'), "without an `allowed`"),
        (answering(200, b'{"allowed": "true"}'), "without an `allowed`"),
        (answering(200, b'{"allowed": 1}'), "without an `allowed`"),
        (answering(200, b'{"allowed": true'), "without an `allowed`"),
        (answering(200, b"[" * 2000), "without an `allowed`"),
        (answering(200, b"\xff\xfe{"), "without an `allowed`"),
        (answering(200, YES + b" " * 4000), "without an `allowed`"),
        (answering(200, gzip.compress(YES), Content_Encoding="gzip"), "without an `allowed`"),
        (answering(201, YES), "the policy service answered 201"),
        (answering(204), "the policy service answered 204"),
        (answering(302, YES, Location="/elsewhere"), "the policy service answered 302"),
        (answering(401, YES), "the policy service answered 401"),
        (answering(404, YES), "the policy service answered 404"),
        (answering(500, YES), "the policy service answered 500"),
        (writing(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", YES), "lost the connection"),
        (writing(b"nonsense\r\n\r\n"), "127.0.0.1"),
    ],
)
async def test_any_other_response_is_no_decision(
    policy: Service, caller: HttpClient, behaviour: Behaviour, error: str
) -> None:
    policy.behaviour = behaviour
    with pytest.raises(CheckError, match=error):
        await OwnerCheck(caller, policy.url).authorise(request())
    assert len(policy.received) == 1


async def test_an_unreachable_service_is_no_decision() -> None:
    async with service() as other:
        gone = other.url
    egress = Egress(("http://127.0.0.1",), ("127.0.0.0/8",), (other.port,))
    made = HttpClient(egress)
    with pytest.raises(CheckError, match="no connection"):
        await OwnerCheck(made, gone).authorise(request())
    await made.close()


async def test_a_timeout_is_no_decision(policy: Service, caller: HttpClient) -> None:
    policy.behaviour = forever
    check = OwnerCheck(caller, policy.url)
    with pytest.raises(CheckError, match=r"no decision within 0\.05 s"):
        await decide(check, request(), timedelta(seconds=0.05))


@pytest.mark.parametrize(
    "egress",
    [
        Egress(),
        Egress(("http://127.0.0.1",), ("127.0.0.0/8",), (1,)),
        Egress(("http://localhost",), (), None),
    ],
    ids=["no hosts", "another port", "a network that is not allowed"],
)
async def test_the_egress_rules_apply(policy: Service, egress: Egress) -> None:
    made = HttpClient(egress._replace(ports=egress.ports or (policy.port,)))
    url = f"http://localhost:{policy.port}" if "http://localhost" in egress.hosts else policy.url
    with pytest.raises(CheckError):
        await OwnerCheck(made, url).authorise(request())
    await made.close()
    assert policy.connections == 0


async def test_with_an_audience_it_gets_a_token_that_is_redacted_in_reasons(
    policy: Service, caller: HttpClient
) -> None:
    body = json.dumps({"allowed": False, "reason": f"whose is {TOKEN}?"}).encode()
    policy.behaviour = answering(200, body)
    tokens = FixedTokens()
    check = OwnerCheck(caller, policy.url, "https://policy.internal")
    assert await check.authorise(request(tokens)) == Refused("whose is ***?")
    assert policy.only.headers["authorization"] == f"Bearer {TOKEN}"
    assert tokens.audiences == ["https://policy.internal"]


async def test_without_a_token_the_service_is_not_called(
    policy: Service, caller: HttpClient
) -> None:
    check = OwnerCheck(caller, policy.url, "https://policy.internal")
    with pytest.raises(CheckError, match="no token: tenant acme is suspended"):
        await check.authorise(request())
    assert policy.connections == 0
