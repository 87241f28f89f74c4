"""Bearer tokens of HTTP targets: secrets, and tokens of real OAuth 2.0 token endpoints."""

import asyncio
import json
from asyncio import StreamWriter
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import pytest
from support.calls import Ended, a_request, called, calling, egress_to, ended
from support.services import Received, Service, answering, forever, service

from tenantcron.core.auth import BearerAuth, OAuth2Auth
from tenantcron.core.egress import Egress
from tenantcron.core.secret_refs import SecretRef
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.signals import Fail, Retry

SECRET = "s3cret/with+signs"  # noqa: S105 -- a test's own
REF = SecretRef("env", "BILLING_OAUTH")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REF.name, SECRET)


@dataclass(slots=True)
class Login:
    """A token endpoint that counts its tokens, and a target that accepts the current one."""

    target: Service
    endpoint: Service
    seconds: float = 0.0
    expires_in: object = 3600
    valid: set[str] = field(default_factory=set)
    gate: asyncio.Event | None = None

    @property
    def auth(self) -> OAuth2Auth:
        """How the target is authenticated."""
        return OAuth2Auth(f"{self.endpoint.url}/token", "the billing", REF, "invoices ledger")

    @property
    def egress(self) -> Egress:
        """Both may be called."""
        return egress_to(self.target.port)._replace(ports=(self.target.port, self.endpoint.port))

    async def issue(self, request: Received, writer: StreamWriter) -> None:
        """Issue a token; the earlier ones stay valid."""
        if self.gate is not None:
            await self.gate.wait()
        token = f"token-{len(self.endpoint.received)}"
        self.valid.add(token)
        document: dict[str, object] = {"access_token": token, "token_type": "Bearer"}
        if self.expires_in is not None:
            document["expires_in"] = self.expires_in
        await answering(200, json.dumps(document).encode())(request, writer)

    async def accept(self, request: Received, writer: StreamWriter) -> None:
        """Respond with 401 to any other token, and echo it otherwise."""
        scheme, _, token = request.headers["authorization"].partition(" ")
        is_valid = scheme == "Bearer" and token in self.valid
        await answering(200 if is_valid else 401, f"got {token}".encode())(request, writer)

    @asynccontextmanager
    async def caller(self) -> AsyncIterator[Callable[[], "asyncio.Task[Ended]"]]:
        """Provide a function that starts a call of the target."""
        async with calling(0, egress=self.egress, now=lambda: self.seconds) as client:
            yield lambda: asyncio.ensure_future(self.call(client))

    async def call(self, client: HttpClient, **fields: object) -> Ended:
        """Call the target."""
        return await ended(client, a_request(f"{self.target.url}/run", auth=self.auth, **fields))


@pytest.fixture
async def login() -> AsyncIterator[Login]:
    """A target and its token endpoint."""
    async with service() as target, service() as endpoint:
        made = Login(target, endpoint)
        target.behaviour, endpoint.behaviour = made.accept, made.issue
        yield made


async def test_a_secret_is_sent_as_a_bearer_token_and_not_stored(target: Service) -> None:
    end = await called(target, answering(200, SECRET.encode()), auth=BearerAuth(REF))
    assert target.only.headers["authorization"] == f"Bearer {SECRET}"
    assert end.answer.text == "***"


@pytest.mark.parametrize("secret", ["two words", "sch\u00f6n", "a\nb: c"])
async def test_a_secret_that_cannot_be_a_header_is_not_sent(
    target: Service, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REF.name, secret)
    end = await called(target, auth=BearerAuth(REF))
    assert isinstance(end.error, Retry)
    assert "env:BILLING_OAUTH is not printable ASCII" in end.reason
    assert secret not in end.reason
    assert target.received == []


async def test_a_token_is_requested_with_the_credentials_of_the_client(login: Login) -> None:
    async with login.caller() as call:
        assert (await call()).error is None
    asked = login.endpoint.only
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["invoices ledger"],
    }
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    pair = b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode()
    assert pair == "the+billing:s3cret%2Fwith%2Bsigns"
    assert login.target.only.headers["authorization"] == "Bearer token-1"


@pytest.mark.parametrize(
    ("expires_in", "reused_at", "renewed_at"),
    [(3600, 3539, 3540), (60, 53, 54), ("600", 539, 540), (None, 269, 270), (True, 269, 270)],
)
async def test_a_token_is_used_until_shortly_before_it_expires(
    login: Login, expires_in: object, reused_at: float, renewed_at: float
) -> None:
    login.expires_in = expires_in
    async with login.caller() as call:
        for login.seconds in (0, reused_at, renewed_at):
            assert (await call()).error is None
    tokens = [request.headers["authorization"] for request in login.target.received]
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


async def test_attempts_at_the_same_time_share_one_request_for_a_token(login: Login) -> None:
    login.gate = asyncio.Event()
    async with login.caller() as call:
        calls = [call() for _ in range(5)]
        await login.endpoint.arrived.wait()
        calls[0].cancel()
        login.gate.set()
        ends = await asyncio.gather(*calls[1:])
    assert [end.error for end in ends] == [None] * 4
    assert len(login.endpoint.received) == 1


async def test_a_replaced_secret_gets_a_new_token(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with login.caller() as call:
        await call()
        monkeypatch.setenv(REF.name, "rotated")
        await call()
    assert len(login.endpoint.received) == 2


async def test_a_rejected_cached_token_is_replaced_once(login: Login) -> None:
    async with login.caller() as call:
        await call()
        login.valid.clear()
        end = await call()
    assert end.error is None
    assert end.answer.status == 200
    tokens = [request.headers["authorization"] for request in login.target.received]
    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]
    keys = {request.headers["idempotency-key"] for request in login.target.received}
    assert len(keys) == 1


async def test_a_rejected_new_token_ends_the_attempt(login: Login) -> None:
    login.target.behaviour = answering(401)
    async with login.caller() as call:
        first, second = await call(), await call()
    for end in (first, second):
        assert isinstance(end.error, Fail)
        assert end.reason == "the service answered 401 Unauthorized"
    # One for the first attempt; the cached token and its replacement for the second.
    assert len(login.target.received) == 3
    assert len(login.endpoint.received) == 2


async def test_echoed_tokens_are_not_stored(login: Login) -> None:
    async with login.caller() as call:
        end = await call()
    assert end.answer.text == "got ***"


FAILURES = {
    "status": (answering(503), "the token endpoint answered 503"),
    "client": (
        answering(401, b'{"error": "invalid_client", "error_description": "s3cret"}'),
        "the token endpoint answered 401 (invalid_client)",
    ),
    "text": (answering(200, b"token=abc"), "the response has no valid access_token"),
    "header": (
        answering(200, b'{"access_token": "a\\r\\nb: c"}'),
        "the response has no valid access_token",
    ),
    "type": (
        answering(200, b'{"access_token": "abc", "token_type": "mac"}'),
        "the token_type of the response is not Bearer",
    ),
    "size": (answering(200, b" " * 70_000), "the response has no valid access_token"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_of_the_token_endpoint_is_retried(login: Login, failure: str) -> None:
    login.endpoint.behaviour, reason = FAILURES[failure]
    async with login.caller() as call:
        end = await call()
    assert isinstance(end.error, Retry)
    assert end.reason == f"no OAuth 2.0 token: {reason}"
    assert login.target.received == []


async def test_a_long_token_is_accepted(login: Login) -> None:
    token = "x" * 8000
    login.valid.add(token)
    login.endpoint.behaviour = answering(200, json.dumps({"access_token": token}).encode())
    async with login.caller() as call:
        assert (await call()).error is None


async def test_the_token_endpoint_is_subject_to_the_egress_rules(login: Login) -> None:
    async with calling(0, egress=egress_to(login.target.port)) as client:
        end = await login.call(client)
    assert isinstance(end.error, Fail)
    assert "may not be called" in end.reason
    assert login.endpoint.received == []


async def test_a_tenant_cannot_use_a_token_of_a_secret_that_it_may_not_use(login: Login) -> None:
    async with calling(0, egress=login.egress) as client:
        await login.call(client)
        end = await login.call(client, allowed_secrets=())
    assert isinstance(end.error, Fail)
    assert '"env:BILLING_OAUTH" to allowed_secrets' in end.reason
    assert len(login.target.received) == 1


async def test_closing_stops_a_request_for_a_token(login: Login) -> None:
    login.endpoint.behaviour = forever
    async with login.caller() as call:
        waiting = call()
        await login.endpoint.arrived.wait()
    await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), 5)
    assert waiting.cancelled()
