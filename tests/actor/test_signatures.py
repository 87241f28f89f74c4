"""Signatures of requests: what they cover, and what a receiver refuses."""

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
PAGE = Path(__file__).parents[2] / "docs" / "targets.md"


@dataclass(frozen=True)
class Came:
    """A request as it reaches a receiver."""

    method: str = REQUEST.method
    url: str = REQUEST.url
    headers: tuple[tuple[str, str], ...] = tuple(HEADERS.items())
    body: bytes = REQUEST.body
    secret: bytes = SECRET

    def without(self, *names: str) -> "Came":
        return replace(self, headers=tuple(kept for kept in self.headers if kept[0] not in names))

    def having(self, name: str, value: str) -> "Came":
        return replace(self.without(name), headers=(*self.without(name).headers, (name, value)))


def verify(came: Came, **options: Any) -> None:
    options = {"now": NOW, **options}
    verify_signature(
        came.secret,
        method=came.method,
        url=came.url,
        headers=dict(came.headers),
        body=came.body,
        **options,
    )


def test_a_request_as_it_was_signed_is_accepted() -> None:
    verify(Came())
    verify(Came().without(SIGNATURE_V1))
    verify(replace(Came(), headers=tuple((name.lower(), text) for name, text in HEADERS.items())))


CHANGED = {
    "another method": replace(Came(), method="DELETE"),
    "another path": replace(Came(), url="https://billing.internal/delete?month=12"),
    "another query": replace(Came(), url="https://billing.internal/run?month=11"),
    "another host": replace(Came(), url="https://ledger.internal/run?month=12"),
    "another scheme": replace(Came(), url="http://billing.internal/run?month=12"),
    "another body": replace(Came(), body=b'{"tenant":"globex"}'),
    "another key": Came().having("Idempotency-Key", f"{KEY}0"),
    "another time": Came().having(TIMESTAMP, str(int(NOW.timestamp()) + 1)),
    "another secret": replace(Came(), secret=b"wrong"),
    "no signature": Came().without(SIGNATURE, SIGNATURE_V1),
    "the old signature only": Came().without(SIGNATURE),
    "a signature that is none": Came().having(SIGNATURE, "\u00fc"),
    "a signature with a surrogate": Came().having(SIGNATURE, "\udcff"),
    "a key with a surrogate": Came().having("Idempotency-Key", "\udcff"),
    "a URL with a surrogate": replace(Came(), url="https://billing.internal/\udcff"),
    "no timestamp": Came().without(TIMESTAMP),
    "a timestamp that is none": Came().having(TIMESTAMP, "\u0661"),
    "no key": Came().without("Idempotency-Key"),
}


@pytest.mark.parametrize("came", CHANGED.values(), ids=CHANGED.keys())
def test_a_request_that_was_changed_is_refused(came: Came) -> None:
    with pytest.raises(InvalidSignatureError):
        verify(came)


@pytest.mark.parametrize("off", [-TOLERANCE, TOLERANCE])
def test_an_old_request_is_refused(off: timedelta) -> None:
    verify(Came(), now=NOW + off)
    beyond = off + timedelta(seconds=1 if off > timedelta(0) else -1)
    with pytest.raises(InvalidSignatureError, match="not within 300 s of now"):
        verify(Came(), now=NOW + beyond)


def test_the_old_version_is_accepted_on_demand_and_deprecated() -> None:
    with pytest.deprecated_call():
        verify(Came().without(SIGNATURE), accept_v1=True)


def test_a_wrong_signature_of_the_new_version_is_not_saved_by_the_old_one() -> None:
    with pytest.raises(InvalidSignatureError, match="does not match"):
        verify(Came().having(SIGNATURE, "0" * 64), accept_v1=True)


def test_lines_cannot_be_moved_between_fields() -> None:
    moved = replace(REQUEST, url="https://billing.internal/run", key=f"?month=12{KEY}")
    assert moved.digest(SECRET) != REQUEST.digest(SECRET)


def vectors() -> list[dict[str, str]]:
    (text,) = re.findall(
        r"<!-- vectors -->\n+```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    read: list[dict[str, str]] = json.loads(text)
    return read


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["url"])
def test_the_vectors_of_the_documentation_hold(vector: dict[str, str]) -> None:
    request = SignedRequest(
        method=vector["method"],
        url=vector["url"],
        timestamp=vector["timestamp"],
        key=vector["idempotency_key"],
        body=vector["body"].encode(),
    )
    assert request.digest(vector["secret"].encode()) == vector["v2"]
    assert request.digest_v1(vector["secret"].encode()) == vector["v1"]


def test_the_check_of_the_documentation_agrees_with_ours() -> None:
    (source,) = re.findall(
        r"<!-- verify -->\n+```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    shown: dict[str, Callable[..., bool]] = {}
    exec(source, shown)  # noqa: S102 -- our own page
    # In other languages texts hold no surrogates.
    changed = [came for name, came in CHANGED.items() if "surrogate" not in name]
    for came in (Came(), *changed):
        headers = dict(came.headers)
        if {TIMESTAMP, SIGNATURE, "Idempotency-Key"} <= headers.keys() and headers[
            TIMESTAMP
        ].isascii():
            genuine = shown["is_genuine"](
                came.method, came.url, headers, came.body, came.secret, now=NOW.timestamp()
            )
            assert genuine == (came == Came())
