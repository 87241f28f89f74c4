"""Credentials in URLs of quoted text are hidden, whatever characters they have."""

import json
from time import perf_counter

import pytest

from tenantcron.core.credentials import masked, without_credentials
from tenantcron.core.errors import UsageError
from tenantcron.core.words import shortened

HIDDEN = {
    "cannot reach postgresql://ada:pw@db:5432/x": "cannot reach postgresql://***@db:5432/x",
    "postgresql://ada:pw@a:1,b:2/x": "postgresql://***@a:1,b:2/x",
    "postgresql://ada:p%2Fw%40@db/x": "postgresql://***@db/x",
    "'https://ada:p/w@db/x' is not": "'https://***@db/x' is not",
    "https://ada:p@w@db/x": "https://***@db/x",
    'https://ada:p"w@db/x': "https://***@db/x",
    "https://ada:p'w@db/x": "https://***@db/x",
    "https://token@db/x": "https://***@db/x",
    "https:/ada:pw@db/x.yaml": "https:/***@db/x.yaml",
    "https://db/x?a=1&api_key=pw&b=2": "https://db/x?a=1&api_key=***&b=2",
    "https://db/x?Password=pw": "https://db/x?Password=***",
    "https://ada:pw@db/x?token=pw": "https://***@db/x?token=***",
    "amqp://a:b@c and redis://:d@e": "amqp://***@c and redis://***@e",
}
SHOWN = (
    "https://db.internal/run?month=12",
    "write to ada@example.com",
    "expected postgresql://user:password@host:port/database?parameter=value",
    "2026-12-01T02:00:00+00:00",
    json.dumps({"url": "https://a.internal/x", "owner": "ada@example.com"}, separators=(",", ":")),
    "",
)


@pytest.mark.parametrize(("text", "expected"), HIDDEN.items())
def test_credentials_are_hidden(text: str, expected: str) -> None:
    assert without_credentials(text) == expected
    assert "pw" not in masked(text)
    assert len(masked(text)) == len(text)


@pytest.mark.parametrize("text", SHOWN)
def test_everything_else_is_shown(text: str) -> None:
    assert without_credentials(text) == text
    assert masked(text) == text


def test_error_messages_quote_no_credentials() -> None:
    error = UsageError("https://ada:pw@db/x is not an address")
    assert str(error) == "https://***@db/x is not an address"
    assert shortened(f"https://ada:{'p' * 1000}@db/x") == "https://***@db/x"


@pytest.mark.parametrize("part", ["a:/", "://", "a://b@"])
def test_a_hostile_text_is_processed_quickly(part: str) -> None:
    began = perf_counter()
    shortened(part * 400_000)
    assert perf_counter() - began < 1
