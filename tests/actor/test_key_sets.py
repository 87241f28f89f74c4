"""The keys that a receiver trusts, fetched from a real server on loopback."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tenantcron.actor.key_sets import (
    MOST_KEYS,
    FetchedKeys,
    FixedKeys,
    KeySetFormatError,
    KeysUnavailableError,
)
from tenantcron.actor.keys import Algorithm, PublicKey, generate, jwks

FIRST, SECOND = generate(Algorithm.EDDSA).public, generate(Algorithm.ES256).public


class KeyServer:
    """A server whose response the test decides; it counts its requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0
        self.status = 200
        self.body = b"{}"

    def publish(self, *keys: PublicKey) -> None:
        """Serve a key set."""
        self.status, self.body = 200, json.dumps(jwks(keys)).encode()


@contextmanager
def serving() -> Iterator[KeyServer]:
    class Handler(BaseHTTPRequestHandler):
        """Returns the response of the test."""

        def do_GET(self) -> None:
            shown.asked += 1
            self.send_response(shown.status)
            if shown.status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(shown.body)))
            self.end_headers()
            self.wfile.write(shown.body)

        def log_message(self, *_: object) -> None:
            """Do not log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shown = KeyServer(f"http://127.0.0.1:{server.server_port}/jwks.json")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield shown
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with serving() as shown:
        shown.publish(FIRST)
        yield shown


class ManualClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, **duration: float) -> None:
        self.now += timedelta(**duration).total_seconds()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def keys(server: KeyServer, clock: ManualClock) -> FetchedKeys:
    return FetchedKeys(server.url, clock=clock)


def test_keys_are_fetched_once_and_cached(server: KeyServer, keys: FetchedKeys) -> None:
    assert server.asked == 0
    assert [keys.find(FIRST.kid) for _ in range(5)] == [FIRST] * 5
    assert server.asked == 1


def test_an_unknown_key_id_triggers_a_fetch(
    server: KeyServer, keys: FetchedKeys, clock: ManualClock
) -> None:
    keys.find(FIRST.kid)
    server.publish(FIRST, SECOND)
    clock.advance(seconds=30)
    assert keys.find(SECOND.kid) == SECOND
    assert server.asked == 2


def test_invented_key_ids_trigger_at_most_one_fetch_per_thirty_seconds(
    server: KeyServer, keys: FetchedKeys, clock: ManualClock
) -> None:
    assert [keys.find(f"invented {number}") for number in range(100)] == [None] * 100
    assert server.asked == 1
    clock.advance(seconds=29)
    keys.find("another")
    assert server.asked == 1
    clock.advance(seconds=1)
    keys.find("another")
    assert server.asked == 2


def test_a_revoked_key_is_dropped_after_five_minutes(
    server: KeyServer, keys: FetchedKeys, clock: ManualClock
) -> None:
    keys.find(FIRST.kid)
    server.publish(SECOND)
    clock.advance(minutes=4, seconds=59)
    assert keys.find(FIRST.kid) == FIRST
    clock.advance(seconds=1)
    assert keys.find(FIRST.kid) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (302, b""), (200, b"<html>"), (200, b"[]"), (200, b" " * 300_000)],
    ids=["an error", "a redirect", "no JSON", "no key set", "too long"],
)
def test_cached_keys_stay_trusted_for_an_hour_without_a_valid_key_set(
    server: KeyServer, keys: FetchedKeys, clock: ManualClock, status: int, body: bytes
) -> None:
    keys.find(FIRST.kid)
    server.status, server.body = status, body
    clock.advance(minutes=59)
    assert keys.find(FIRST.kid) == FIRST
    assert server.asked == 2
    clock.advance(minutes=1)
    with pytest.raises(KeysUnavailableError, match=r"no keys could be fetched from http://127"):
        keys.find(FIRST.kid)
    server.publish(FIRST)
    clock.advance(seconds=30)
    assert keys.find(FIRST.kid) == FIRST


def test_without_any_response_no_key_is_trusted(clock: ManualClock) -> None:
    with serving() as gone:
        url = gone.url
    with pytest.raises(KeysUnavailableError):
        FetchedKeys(url, clock=clock).find(FIRST.kid)


def test_concurrent_threads_fetch_once(server: KeyServer, keys: FetchedKeys) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(keys.find, [FIRST.kid] * 40))
    assert found == [FIRST] * 40
    assert server.asked == 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "jwks.json", "ftp://x/jwks.json"])
def test_only_http_urls_are_accepted(url: str) -> None:
    with pytest.raises(ValueError, match="https://"):
        FetchedKeys(url)


def test_unsupported_keys_are_skipped() -> None:
    others: list[object] = [{"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}, {}, "words"]
    fixed = FixedKeys({"keys": [FIRST.as_jwk(), *others]})
    assert fixed.find(FIRST.kid) == FIRST
    assert fixed.find("secret") is None


@pytest.mark.parametrize(
    "document", [None, [], {}, {"keys": {}}, {"keys": [{}] * (MOST_KEYS + 1)}], ids=type
)
def test_an_invalid_key_set_is_rejected(document: object) -> None:
    with pytest.raises(KeySetFormatError, match="expected a key set"):
        FixedKeys(document)
