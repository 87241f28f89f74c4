"""Request signatures: what they cover, and what a receiver rejects."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenantcron.actor.signatures import (
    SIGNATURE,
    SIGNATURE_V1,
    TIMESTAMP,
    TOLERANCE,
    InvalidSignatureError,
    SignedRequest,
    verify_signature,
)

SECRET = b"correct-horse-battery-staple"
NOW = datetime(2026, 12, 1, 2, 0, 3, tzinfo=UTC)
KEY = "sched:00000000-0000-0000-0000-000000000002:1764554400000"
REQUEST = SignedRequest(
    method="POST",
    url="https://billing.internal/run?month=12",
    timestamp=str(int(NOW.timestamp())),
    key=KEY,
    body=b'{"tenant":"acme"}',
)
HEADERS = {"Idempotency-Key": KEY, **REQUEST.headers(SECRET)}
PAGE = Path(__file__).parents[2] / "docs" / "targets-http.md"


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it reaches a receiver."""

    method: str = REQUEST.method
    url: str = REQUEST.url
    headers: tuple[tuple[str, str], ...] = tuple(HEADERS.items())
    body: bytes = REQUEST.body
    secret: bytes = SECRET

    def without(self, *names: str) -> "ReceivedRequest":
        return replace(self, headers=tuple(kept for kept in self.headers if kept[0] not in names))

    def having(self, name: str, value: str) -> "ReceivedRequest":
        return replace(self.without(name), headers=(*self.without(name).headers, (name, value)))


def verify(received: ReceivedRequest, **options: Any) -> None:
    options = {"now": NOW, **options}
    verify_signature(
        received.secret,
        method=received.method,
        url=received.url,
        headers=dict(received.headers),
        body=received.body,
        **options,
    )


def test_an_unchanged_request_is_accepted() -> None:
    verify(ReceivedRequest())
    verify(ReceivedRequest().without(SIGNATURE_V1))
    verify(
        replace(
            ReceivedRequest(), headers=tuple((name.lower(), text) for name, text in HEADERS.items())
        )
    )


CHANGED = {
    "another method": replace(ReceivedRequest(), method="DELETE"),
    "another path": replace(ReceivedRequest(), url="https://billing.internal/delete?month=12"),
    "another query": replace(ReceivedRequest(), url="https://billing.internal/run?month=11"),
    "another host": replace(ReceivedRequest(), url="https://ledger.internal/run?month=12"),
    "another scheme": replace(ReceivedRequest(), url="http://billing.internal/run?month=12"),
    "another body": replace(ReceivedRequest(), body=b'{"tenant":"globex"}'),
    "another key": ReceivedRequest().having("Idempotency-Key", f"{KEY}0"),
    "another time": ReceivedRequest().having(TIMESTAMP, str(int(NOW.timestamp()) + 1)),
    "another secret": replace(ReceivedRequest(), secret=b"wrong"),
    "no signature": ReceivedRequest().without(SIGNATURE, SIGNATURE_V1),
    "the old signature only": ReceivedRequest().without(SIGNATURE),
    "a signature that is none": ReceivedRequest().having(SIGNATURE, "\u00fc"),
    "a signature with a surrogate": ReceivedRequest().having(SIGNATURE, "\udcff"),
    "a key with a surrogate": ReceivedRequest().having("Idempotency-Key", "\udcff"),
    "a URL with a surrogate": replace(ReceivedRequest(), url="https://billing.internal/\udcff"),
    "no timestamp": ReceivedRequest().without(TIMESTAMP),
    "a timestamp that is none": ReceivedRequest().having(TIMESTAMP, "\u0661"),
    "no key": ReceivedRequest().without("Idempotency-Key"),
}


@pytest.mark.parametrize("received", CHANGED.values(), ids=CHANGED.keys())
def test_a_changed_request_is_rejected(received: ReceivedRequest) -> None:
    with pytest.raises(InvalidSignatureError):
        verify(received)


@pytest.mark.parametrize("off", [-TOLERANCE, TOLERANCE])
def test_an_old_request_is_rejected(off: timedelta) -> None:
    verify(ReceivedRequest(), now=NOW + off)
    beyond = off + timedelta(seconds=1 if off > timedelta(0) else -1)
    with pytest.raises(InvalidSignatureError, match="not within 300 s of now"):
        verify(ReceivedRequest(), now=NOW + beyond)


def test_version_1_is_accepted_on_demand_and_deprecated() -> None:
    with pytest.deprecated_call():
        verify(ReceivedRequest().without(SIGNATURE), accept_v1=True)


def test_a_wrong_signature_of_version_2_is_rejected_even_with_version_1() -> None:
    with pytest.raises(InvalidSignatureError, match="does not match"):
        verify(ReceivedRequest().having(SIGNATURE, "0" * 64), accept_v1=True)


def test_text_cannot_be_moved_between_fields() -> None:
    moved = replace(REQUEST, url="https://billing.internal/run", key=f"?month=12{KEY}")
    assert moved.digest(SECRET) != REQUEST.digest(SECRET)


def vectors() -> list[dict[str, str]]:
    (text,) = re.findall(
        r"<!-- vectors -->\n+```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    read: list[dict[str, str]] = json.loads(text)
    return read


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["url"])
def test_the_documented_test_vectors_match(vector: dict[str, str]) -> None:
    request = SignedRequest(
        method=vector["method"],
        url=vector["url"],
        timestamp=vector["timestamp"],
        key=vector["idempotency_key"],
        body=vector["body"].encode(),
    )
    assert request.digest(vector["secret"].encode()) == vector["v2"]
    assert request.digest_v1(vector["secret"].encode()) == vector["v1"]


def test_the_documented_check_agrees_with_ours() -> None:
    (source,) = re.findall(
        r"<!-- verify -->\n+```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    shown: dict[str, Callable[..., bool]] = {}
    exec(source, shown)  # noqa: S102 -- our own page
    # In other languages texts hold no surrogates.
    changed = [received for name, received in CHANGED.items() if "surrogate" not in name]
    for received in (ReceivedRequest(), *changed):
        headers = dict(received.headers)
        if {TIMESTAMP, SIGNATURE, "Idempotency-Key"} <= headers.keys() and headers[
            TIMESTAMP
        ].isascii():
            genuine = shown["is_genuine"](
                received.method,
                received.url,
                headers,
                received.body,
                received.secret,
                now=NOW.timestamp(),
            )
            assert genuine == (received == ReceivedRequest())
