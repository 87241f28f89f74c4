"""Targets: URLs that can be called safely, hosts that may be called, headers to send along."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from support.manifests import check_data, codes, manifest, only_schedule, policy_with

from tenantcron.manifests.document import JsonValue

POLICY = policy_with(
    hosts=("billing.internal", "*.grid.internal", "http://localhost", "[::1]", "kilo.internal")
)


def check_http(policy_hosts: tuple[str, ...] | None = None, **http: JsonValue) -> list[str]:
    policy = POLICY if policy_hosts is None else policy_with(hosts=policy_hosts)
    return codes(check_data(manifest({"every": "1h"}, target={"http": http}), policy=policy))


@pytest.mark.parametrize(
    "url",
    [
        "https://billing.internal",
        "https://billing.internal/",
        "https://billing.internal/run?month=2026-12&dry=%20",
        "https://billing.internal?x=1",
        "https://billing.internal:8443/run",
        "https://billing.internal:65535/",
        "https://billing.internal:1/",
        "HTTPS://Billing.INTERNAL/Run",
        "https://a.grid.internal/",
        "https://a.b.grid.internal/",
        "https://billing.internal/a:b@c",
        "https://[::1]/run",
        "https://[::1]:8443/run",
        "http://localhost:8080/run",
    ],
)
def test_urls_that_may_be_called(url: str) -> None:
    assert check_http(url=url) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "billing.internal/run",
        "//billing.internal/run",
        "ftp://billing.internal/",
        "file:///etc/passwd",
        "https:/billing.internal",
        "https://",
        "https:///run",
        "https://user@billing.internal/",
        "https://user:secret@billing.internal/",
        "https://billing.internal@evil.com/",
        "https://evil.com\\@billing.internal/",
        "https://evil.com#@billing.internal/",
        "https://billing.internal/#part",
        "https://billing.internal#",
        "https://billing.internal:0/",
        "https://billing.internal:65536/",
        "https://billing.internal:99999/",
        "https://billing.internal:/",
        "https://billing.internal:80x/",
        "https://billing.internal:-1/",
        "https://billing.internal./",
        "https://.internal/",
        "https://billing..internal/",
        "https://-billing.internal/",
        "https://billing_.internal/",
        f"https://{'a' * 64}.grid.internal/",
        "https://billing.internal/a b",
        " https://billing.internal/",
        "https://billing.internal/ ",
        "https://billing.internal/\n",
        "https://billing.inter\nnal/",
        "https://bill\ting.internal/",
        "https://billing.internal/\r\nX-Evil: 1",
        "https://billing.internal\uff0fevil/",
        "https://b\u00fclling.internal/",
        "https://\u212ailo.internal/",
        "https://\u0131.grid.internal/",
        "http\u017f://billing.internal/",
        "https://billing\u3002internal/",
        "https://[::1/",
        "https://::1/",
        "https://[fe80::1%25eth0]/",
        "https://billing.internal/{{tenant}}",
        "https://billing.internal/\u00fc",
    ],
)
def test_urls_that_cannot_be_called_safely(url: str) -> None:
    assert check_http(url=url) == ["TC401"]


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.com/.internal",
        "https://evil.com/billing.internal",
        "https://billing.internal.evil.com/",
        "https://evilbilling.internal/",
        "https://internal/",
        "https://grid.internal/",
        "https://evilgrid.internal/",
        "https://a.billing.internal/",
        "https://localhost/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::2]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "http://evil.com/",
    ],
)
def test_hosts_that_may_not_be_called(url: str) -> None:
    assert check_http(url=url) == ["TC402"]


def test_no_host_may_be_called_by_default() -> None:
    assert check_http((), url="https://billing.internal/") == ["TC402"]


def test_plain_http_needs_an_entry_that_says_so() -> None:
    data = manifest({"every": "1h"}, target={"http": {"url": "http://billing.internal/"}})
    (problem,) = check_data(data, policy=POLICY).problems
    assert problem.code == "TC401"
    assert problem.message == "billing.internal may be called by https only"
    assert check_http(("http://*.internal",), url="http://a.internal/") == []
    assert check_http(("http://*.internal",), url="https://a.internal/") == ["TC402"]


def test_entries_of_the_policy_may_be_in_capitals() -> None:
    assert check_http(("Billing.Internal", "*.GRID.internal"), url="https://billing.internal") == []
    assert check_http(("*.GRID.internal",), url="https://a.grid.internal") == []


def test_a_host_that_is_not_allowed_is_told_with_the_entry_to_add() -> None:
    data = manifest({"every": "1h"}, target={"http": {"url": "http://a.example:81/x"}})
    (problem,) = check_data(data, policy=POLICY).problems
    assert problem.hint == (
        'the platform team can add "http://a.example" to allowed_hosts in the [policy] table'
    )
    assert problem.pointer == ("sagas", 0, "target", "http", "url")


def test_a_url_has_at_most_2048_characters() -> None:
    base = "https://billing.internal/"
    assert check_http(url=base + "a" * (2048 - len(base))) == []
    assert check_http(url=base + "a" * (2049 - len(base))) == ["TC106"]


@dataclass(frozen=True)
class Header:
    """A header, and whether it may be sent."""

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
            "Trailer", "Idempotency-Key", "idempotency-key", "Proxy-Authorization", "Traceparent",
            "tracestate", "X-Tenantcron-Tenant", "x-tenantcron-anything",
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: f"{header.name[:24]!r}")
def test_headers(header: Header) -> None:
    found = check_http(url="https://billing.internal/", headers={header.name: header.value})
    assert found == ([] if header.is_good else ["TC403"])


def test_a_value_of_a_header_is_a_string() -> None:
    assert check_http(url="https://billing.internal/", headers={"X-Team": 5}) == ["TC103"]


def test_a_target_is_judged_whatever_triggers_its_saga() -> None:
    data: JsonValue = {
        "sagas": [
            {"name": "a", "trigger": "webhook:x", "target": {"http": {"url": "https://evil.com"}}}
        ]
    }
    assert codes(check_data(data)) == ["TC402"]


def test_a_target_is_kept_with_its_defaults() -> None:
    data = manifest({"every": "1h"}, target={"http": {"url": "https://billing.internal/run"}})
    target = only_schedule(check_data(data, policy=POLICY)).target
    assert target is not None
    assert (target.url, target.method, target.headers) == (
        "https://billing.internal/run",
        "POST",
        {},
    )


@dataclass(frozen=True)
class Retention:
    """Timeouts and attempts against what a target remembers."""

    timeout: str
    max_attempts: int
    remembers: timedelta
    is_good: bool


@pytest.mark.parametrize(
    "case",
    [
        Retention("1h", 2, timedelta(hours=2, seconds=1), True),
        Retention("1h", 2, timedelta(hours=2), False),
        Retention("1h", 1, timedelta(hours=1), True),
        Retention("1d", 1, timedelta(hours=24), True),
        Retention("12h", 2, timedelta(hours=24), False),
        Retention("1s", 1, timedelta(0), False),
    ],
)
def test_retries_must_end_before_the_target_forgets(case: Retention) -> None:
    policy = policy_with(hosts=("billing.internal",), retention=case.remembers)
    scheduled: JsonValue = {
        "every": "1h",
        "timeout": case.timeout,
        "retry": {"max_attempts": case.max_attempts},
    }
    http: JsonValue = {"http": {"url": "https://billing.internal/"}}
    found = codes(check_data(manifest(scheduled, target=http), policy=policy))
    assert found == ([] if case.is_good else ["TC404"])
    assert codes(check_data(manifest(scheduled), policy=policy)) == []
