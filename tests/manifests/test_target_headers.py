"""Headers of a target, and secrets that they must not contain."""

from dataclasses import dataclass
from time import process_time

import pytest
from support.http_targets import POLICY, check_http
from support.manifests import check_data, manifest

from tenantcron.core.values import JsonValue


@dataclass(frozen=True)
class Header:
    """A header, and whether it is allowed."""

    name: str
    value: str
    is_good: bool


HEADERS = (
    Header("X-Team", "billing", True),
    Header("x-team", "a b\tc; d=\"e\", f", True),
    Header("Accept", "application/json", True),
    Header("X" * 128, "1", True),
    Header("X-Team", "x" * 4096, True),
    Header("X-Team", "x" * 4097, False),
    Header("X" * 129, "1", False),
    Header("", "1", False),
    Header("X Team", "1", False),
    Header("X-Team:", "1", False),
    Header("X-Team\r\nX-Evil", "1", False),
    Header("X-T\u00e4m", "1", False),
    Header("X-Team", "", False),
    Header("X-Team", " padded", False),
    Header("X-Team", "padded ", False),
    Header("X-Team", "a\r\nX-Evil: 1", False),
    Header("X-Team", "a\n", False),
    Header("X-Team", "\u00fc", False),
    *(
        Header(name, "1", False)
        for name in (
            "Authorization", "AUTHORIZATION", "authorization", "Host", "hOsT", "Cookie",
            "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "TE",
            "Accept-Encoding", "Trailer", "Idempotency-Key", "idempotency-key",
            "Proxy-Authorization", "Traceparent", "tracestate", "X-Tenantcron-Tenant",
            "x-tenantcron-anything", "X_Tenantcron_Tenant", "Idempotency_Key",
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: f"{header.name[:24]!r}")
def test_headers(header: Header) -> None:
    found = check_http(url="https://billing.internal/", headers={header.name: header.value})
    assert found == ([] if header.is_good else ["TC403"])


def test_the_value_of_a_header_is_a_string() -> None:
    assert check_http(url="https://billing.internal/", headers={"X-Team": 5}) == ["TC103"]


@dataclass(frozen=True)
class Text:
    """A header, and whether it looks like a secret."""

    name: str
    value: str
    is_secret: bool


TEXTS = (
    Text("X-Api-Key", "correct-horse", True),
    Text("x-api_key", "12345678", True),
    Text("X-Auth-Token", "correct-horse", True),
    Text("X-Client-Secret", "correct-horse", True),
    Text("X-Password", "correct-horse", True),
    Text("X-Team", "Bearer correct-horse", True),
    Text("X-Team", "basic dXNlcjpwYXNz", True),
    Text("X-Team", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", True),
    Text("X-Team", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", True),
    Text("X-Team", "AKIAIOSFODNN7EXAMPLE", True),
    Text("X-Team", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", True),
    Text("X-Team", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", True),
    Text("X-Team", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", True),
    Text("X-Team", "billing", False),
    Text("X-Token-Kind", "execution", False),
    Text("X-Auth", "none", False),
    Text("X-Keywords", "invoices,monthly,energy", False),
    Text("X-Commit", "da39a3ee5e6b4b0d3255bfef95601890afd80709", False),
    Text("X-Contract", "3f2a9c1e-6c0e-5b63-9d0e-3d1f0c3a7b54", False),
    Text("X-Run", "generate-monthly-invoices-of-all-customers", False),
    Text("X-Run", "GenerateMonthlyInvoicesOfAllCustomers", False),
    Text("Accept", "application/vnd.acme.billing.v2+json", False),
    Text("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0)", False),
    Text("X-Padding", "0" * 64, False),
    Text("X-Callback", "https://billing.internal/v2/Callbacks/2026/12/Invoices", False),
    Text("X-Period", "2026-12-01T00:00:00Z/2027-01-01T00:00:00Z", False),
)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: f"{text.name}-{text.value[:12]}")
def test_secrets_are_distinguished_from_other_values(text: Text) -> None:
    found = check_http(url="https://billing.internal/", headers={text.name: text.value})
    assert found == (["TC407"] if text.is_secret else [])


def test_the_diagnostic_of_a_secret_does_not_repeat_it() -> None:
    http: JsonValue = {
        "url": "https://billing.internal/",
        "headers": {"X-Api-Key": "hunter2hunter2"},
    }
    (problem,) = check_data(
        manifest({"every": "1h"}, target={"http": http}), policy=POLICY
    ).problems
    assert "hunter2" not in problem.message + str(problem.hint)
    assert problem.pointer == ("sagas", 0, "target", "http", "headers", "X-Api-Key")


@pytest.mark.parametrize("piece", ["a", "eyJa.", "-", "sk_live_", "0f", "token."])
def test_long_values_are_checked_quickly(piece: str) -> None:
    """A second is a thousand times what is needed; a mistake in a pattern takes hours."""
    began = process_time()
    check_http(url="https://billing.internal/", headers={"X-Team": piece * 100_000})
    assert process_time() - began < 5


def test_secrets_in_the_query_of_a_url_are_found() -> None:
    assert check_http(url="https://billing.internal/run?token=0123456789") == ["TC407"]
    assert check_http(url="https://billing.internal/run?a=1&sig=0123456789") == ["TC407"]
    assert check_http(url="https://billing.internal/run?month=2026-12&dry=1") == []
