"""Introspection of tokens: responses are cached, and a missing one does not accept a token."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from support.tokens import VERIFIER, payload, signed

from tenantcron.actor import introspection as module
from tenantcron.actor.introspection import Introspection, IntrospectionUnavailableError
from tenantcron.actor.receiving import ProofOfExecution
from tenantcron.actor.verification import InvalidTokenError, TokenRefusal, Verifier


@dataclass
class Issuer:
    """An issuer whose response a test decides, and which records its requests."""

    url: str = ""
    status: int = 200
    answer: object = field(default_factory=lambda: {"active": True, "jti": "one"})
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            issuer.asked.append((self.headers["Authorization"], parse_qs(body)["token"][0]))
            self.send_response(issuer.status)
            for name, value in issuer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(issuer.answer).encode())

        def log_message(self, *_: object) -> None:
            """Do not log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    issuer.url = f"http://127.0.0.1:{server.server_port}/v1/tokens:introspect"
    yield issuer
    server.shutdown()
    thread.join()
    server.server_close()


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def asking(issuer: Issuer, **options: object) -> Verifier:
    return replace(VERIFIER, introspection=Introspection(issuer.url, **options))  # type: ignore[arg-type] # as given


def test_an_active_token_is_accepted(issuer: Issuer) -> None:
    token = signed(payload())
    assert asking(issuer).verify(token).tenant == "acme"
    assert issuer.asked == [(f"Bearer {token}", token)]


def test_an_inactive_token_is_rejected(issuer: Issuer) -> None:
    issuer.answer = {"active": False}
    with pytest.raises(InvalidTokenError, match="attempt has ended") as caught:
        asking(issuer).verify(signed(payload()))
    assert caught.value.refusal is TokenRefusal.INACTIVE


def test_an_api_token_replaces_the_token_as_the_credential(issuer: Issuer) -> None:
    asking(issuer, api_token="tc_x").verify(signed(payload()))  # noqa: S106 -- not a token
    assert [bearer for bearer, _ in issuer.asked] == ["Bearer tc_x"]


def test_the_issuer_is_not_asked_about_an_invalid_token(issuer: Issuer) -> None:
    with pytest.raises(InvalidTokenError):
        asking(issuer).verify(signed(payload(aud="https://ledger.internal")))
    with pytest.raises(InvalidTokenError):
        asking(issuer).verify(signed(payload()), tenant="globex")
    assert issuer.asked == []


@pytest.mark.parametrize("active", [True, False])
def test_a_response_is_cached_for_seconds(issuer: Issuer, active: bool) -> None:
    time = Time()
    introspection = Introspection(issuer.url, lifetime=timedelta(seconds=5), clock=time)
    proof = VERIFIER.verify(signed(payload()))
    issuer.answer = {"active": active, "jti": "one"}
    answers = []
    for _ in range(3):
        answers.append(introspection.is_active("t", proof))
        time.now += 2
    issuer.answer = {"active": not active, "jti": "one"}
    assert answers == [active] * 3
    assert introspection.is_active("t", proof) is not active
    assert len(issuer.asked) == 2


def test_the_cache_is_limited(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED", 2)
    time = Time()
    introspection = Introspection(issuer.url, clock=time)
    for number in range(3):
        proof = VERIFIER.verify(signed(payload(jti=f"t{number}")))
        issuer.answer = {"active": True, "jti": f"t{number}"}
        assert introspection.is_active("t", proof)
    assert len(introspection._cache) == 2
    time.now += 10
    assert introspection.is_active("t", proof)
    assert list(introspection._cache) == ["t2"]


INVALID_RESPONSES: dict[str, dict[str, object]] = {
    "an error": {"status": 500},
    "too many requests": {"status": 429},
    "not authenticated": {"status": 401},
    "a redirect": {"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}},
    "no object": {"answer": True},
    "nothing about activity": {"answer": {"jti": "one"}},
    "a yes that is text": {"answer": {"active": "true", "jti": "one"}},
    "a yes about another token": {"answer": {"active": True, "jti": "two"}},
}


@pytest.mark.parametrize("fields", INVALID_RESPONSES.values(), ids=INVALID_RESPONSES)
def test_an_invalid_response_does_not_accept_the_token(
    issuer: Issuer, fields: dict[str, object]
) -> None:
    for name, value in fields.items():
        setattr(issuer, name, value)
    token = signed(payload())
    with pytest.raises(IntrospectionUnavailableError) as caught:
        asking(issuer).verify(token)
    assert token not in str(caught.value)


def test_the_receiver_returns_503_if_the_issuer_is_unreachable() -> None:
    away = Introspection("http://127.0.0.1:9/v1/tokens:introspect")
    prove = ProofOfExecution(replace(VERIFIER, introspection=away))
    header = (b"authorization", f"Bearer {signed(payload())}".encode())
    with pytest.raises(HTTPException) as caught:
        prove(Request({"type": "http", "headers": [header], "path_params": {}}))
    assert caught.value.status_code == 503


@pytest.mark.parametrize("url", ["file:///etc/passwd", "cron.internal/v1", "ftp://x/"])
def test_only_http_urls_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="https://"):
        Introspection(url)
