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


class Serving:
    """A server whose answer the test decides; it counts how often it is asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0
        self.status = 200
        self.body = b"{}"

    def publish(self, *keys: PublicKey) -> None:
        """Answer with a key set."""
        self.status, self.body = 200, json.dumps(jwks(keys)).encode()


@contextmanager
def serving() -> Iterator[Serving]:
    class Handler(BaseHTTPRequestHandler):
        """Answers as the test says."""

        def do_GET(self) -> None:
            shown.asked += 1
            self.send_response(shown.status)
            if shown.status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(shown.body)))
            self.end_headers()
            self.wfile.write(shown.body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shown = Serving(f"http://127.0.0.1:{server.server_port}/jwks.json")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield shown
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Serving]:
    with serving() as shown:
        shown.publish(FIRST)
        yield shown


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def go_on(self, **duration: float) -> None:
        self.now += timedelta(**duration).total_seconds()


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def keys(server: Serving, clock: Hand) -> FetchedKeys:
    return FetchedKeys(server.url, clock=clock)


def test_keys_are_fetched_once_and_kept(server: Serving, keys: FetchedKeys) -> None:
    assert server.asked == 0
    assert [keys.find(FIRST.kid) for _ in range(5)] == [FIRST] * 5
    assert server.asked == 1


def test_a_new_key_shows_when_its_name_is_first_met(
    server: Serving, keys: FetchedKeys, clock: Hand
) -> None:
    keys.find(FIRST.kid)
    server.publish(FIRST, SECOND)
    clock.go_on(seconds=30)
    assert keys.find(SECOND.kid) == SECOND
    assert server.asked == 2


def test_invented_names_do_not_make_it_ask_more_often_than_every_thirty_seconds(
    server: Serving, keys: FetchedKeys, clock: Hand
) -> None:
    assert [keys.find(f"invented {number}") for number in range(100)] == [None] * 100
    assert server.asked == 1
    clock.go_on(seconds=29)
    keys.find("another")
    assert server.asked == 1
    clock.go_on(seconds=1)
    keys.find("another")
    assert server.asked == 2


def test_a_key_that_was_taken_back_is_dropped_after_five_minutes(
    server: Serving, keys: FetchedKeys, clock: Hand
) -> None:
    keys.find(FIRST.kid)
    server.publish(SECOND)
    clock.go_on(minutes=4, seconds=59)
    assert keys.find(FIRST.kid) == FIRST
    clock.go_on(seconds=1)
    assert keys.find(FIRST.kid) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (302, b""), (200, b"<html>"), (200, b"[]"), (200, b" " * 300_000)],
    ids=["an error", "a redirect", "no JSON", "no key set", "too long"],
)
def test_an_answer_that_is_no_key_set_leaves_what_is_known_for_an_hour(
    server: Serving, keys: FetchedKeys, clock: Hand, status: int, body: bytes
) -> None:
    keys.find(FIRST.kid)
    server.status, server.body = status, body
    clock.go_on(minutes=59)
    assert keys.find(FIRST.kid) == FIRST
    assert server.asked == 2
    clock.go_on(minutes=1)
    with pytest.raises(KeysUnavailableError, match=r"no keys could be fetched from http://127"):
        keys.find(FIRST.kid)
    server.publish(FIRST)
    clock.go_on(seconds=30)
    assert keys.find(FIRST.kid) == FIRST


def test_without_any_answer_nothing_is_trusted(clock: Hand) -> None:
    with serving() as gone:
        url = gone.url
    with pytest.raises(KeysUnavailableError):
        FetchedKeys(url, clock=clock).find(FIRST.kid)


def test_threads_that_ask_at_once_fetch_once(server: Serving, keys: FetchedKeys) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(keys.find, [FIRST.kid] * 40))
    assert found == [FIRST] * 40
    assert server.asked == 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "jwks.json", "ftp://x/jwks.json"])
def test_only_addresses_of_the_web_are_fetched(url: str) -> None:
    with pytest.raises(ValueError, match="https://"):
        FetchedKeys(url)


def test_keys_of_other_kinds_are_left_out() -> None:
    others: list[object] = [{"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}, {}, "words"]
    fixed = FixedKeys({"keys": [FIRST.as_jwk(), *others]})
    assert fixed.find(FIRST.kid) == FIRST
    assert fixed.find("secret") is None


@pytest.mark.parametrize(
    "document", [None, [], {}, {"keys": {}}, {"keys": [{}] * (MOST_KEYS + 1)}], ids=type
)
def test_what_is_no_key_set_is_refused(document: object) -> None:
    with pytest.raises(KeySetFormatError, match="expected a key set"):
        FixedKeys(document)
