"""Targets: URLs that can be called safely, hosts that may be called, headers to send along."""

from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter

import pytest
from support.manifests import check_data, codes, manifest, only_schedule, policy_with

from tenantcron.manifests.desired import HttpTarget
from tenantcron.manifests.document import JsonValue

POLICY = policy_with(
    hosts=(
        "billing.internal",
        "*.grid.internal",
        "http://localhost",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "10.0.0.1",
        "10.0.0.2",
        "169.254.169.254",
        "2130706433",
        "kilo.internal",
    ),
    networks=("::1/128", "10.0.0.1/32"),
    ports=(1, 443, 8080, 8443, 65535),
    secrets=("env:BILLING_*", "file:/run/secrets/{tenant}/*"),
)
SIGNED: JsonValue = {"hmac": {"secret": {"env": "BILLING_HMAC"}}}


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
        "https://10.0.0.1/",
        "https://[::ffff:10.0.0.1]/",
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
        "https://2130706433/",
        "https://0x7f000001/",
        "https://017700000001/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.0.1.5/",
        "https://256.0.0.1/",
        "https://billing.0x7f/",
        "https://[127.0.0.1]/",
        "https://[:::]/",
        "https://\uff11\uff12\uff17.0.0.1/",
        "https://\u2460\u2461\u2466.0.0.1/",
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
        "https://169.254.169.253/latest/meta-data",
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


@pytest.mark.parametrize("url", ["https://10.0.0.2/", "https://169.254.169.254/latest"])
def test_an_address_of_a_network_that_the_policy_does_not_name(url: str) -> None:
    assert check_http(url=url) == ["TC406"]


def test_the_diagnostic_of_an_address_names_the_line_to_add() -> None:
    data = manifest({"every": "1h"}, target={"http": {"url": "https://10.0.0.2/"}})
    (problem,) = check_data(data, policy=POLICY).problems
    assert problem.message == "10.0.0.2 is not a public address: private"
    assert problem.hint == (
        'the platform team can add "10.0.0.2/32", or the network around it, to allowed_networks '
        "in the [policy] table"
    )


@dataclass(frozen=True)
class Port:
    """A URL, the ports of a policy, and whether the one may be called by the other."""

    url: str
    ports: tuple[int, ...] | None
    is_good: bool


@pytest.mark.parametrize(
    "case",
    [
        Port("https://billing.internal/", None, True),
        Port("https://billing.internal:443/", None, True),
        Port("https://billing.internal:80/", None, False),
        Port("https://billing.internal:8443/", None, False),
        Port("http://localhost/", None, True),
        Port("http://localhost:443/", None, False),
        Port("http://localhost/", (443,), False),
        Port("https://billing.internal:8443/", (443, 8443), True),
        Port("https://billing.internal/", (8443,), False),
        Port("https://billing.internal/", (), False),
    ],
    ids=str,
)
def test_ports(case: Port) -> None:
    policy = policy_with(hosts=("billing.internal", "http://localhost"), ports=case.ports)
    data = manifest({"every": "1h"}, target={"http": {"url": case.url}})
    assert codes(check_data(data, policy=policy)) == ([] if case.is_good else ["TC405"])


def test_the_diagnostic_of_a_port_names_the_line_to_write() -> None:
    policy = policy_with(hosts=("billing.internal",))
    data = manifest({"every": "1h"}, target={"http": {"url": "https://billing.internal:8443"}})
    (problem,) = check_data(data, policy=policy).problems
    assert problem.hint == (
        "the platform team can write allowed_ports = [443, 8443] in the [policy] table"
    )


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
            "Accept-Encoding", "Trailer", "Idempotency-Key", "idempotency-key",
            "Proxy-Authorization", "Traceparent", "tracestate", "X-Tenantcron-Tenant",
            "x-tenantcron-anything",
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: f"{header.name[:24]!r}")
def test_headers(header: Header) -> None:
    found = check_http(url="https://billing.internal/", headers={header.name: header.value})
    assert found == ([] if header.is_good else ["TC403"])


def test_a_value_of_a_header_is_a_string() -> None:
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
def test_secrets_are_told_from_other_values(text: Text) -> None:
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
def test_long_values_are_judged_quickly(piece: str) -> None:
    """A second would be a thousand times what it takes; a slip in a pattern takes hours."""
    began = perf_counter()
    check_http(url="https://billing.internal/", headers={"X-Team": piece * 100_000})
    assert perf_counter() - began < 5


def test_secrets_in_the_query_of_a_url_are_found() -> None:
    assert check_http(url="https://billing.internal/run?token=0123456789") == ["TC407"]
    assert check_http(url="https://billing.internal/run?a=1&sig=0123456789") == ["TC407"]
    assert check_http(url="https://billing.internal/run?month=2026-12&dry=1") == []


GOOD_AUTH: tuple[JsonValue, ...] = (
    "none",
    "execution_token",
    {"execution_token": {}},
    {"execution_token": {"audience": "https://billing.internal"}},
    {"hmac": {"secret": {"env": "BILLING_HMAC"}}},
    {"hmac": {"secret": {"file": "/run/secrets/acme/hmac"}}},
)


@pytest.mark.parametrize("auth", GOOD_AUTH, ids=str)
def test_auth_that_may_be_used(auth: JsonValue) -> None:
    assert check_http(url="https://billing.internal/", auth=auth) == []


@dataclass(frozen=True)
class BadAuth:
    """An auth section, and what is said about it."""

    auth: JsonValue
    codes: list[str]


BAD_AUTH = (
    BadAuth("basic", ["TC106"]),
    BadAuth({}, ["TC102"]),
    BadAuth({"execution_token": {}, "hmac": {"secret": {"env": "BILLING_HMAC"}}}, ["TC106"]),
    BadAuth({"execution_token": {"audience": "b\u00fc"}}, ["TC106"]),
    BadAuth({"execution_token": {"audience": "a\tb"}}, ["TC106"]),
    BadAuth({"execution_token": {"audience": "x" * 256}}, ["TC106"]),
    BadAuth({"execution_token": None}, ["TC104"]),
    BadAuth({"hmac": {}}, ["TC102"]),
    BadAuth({"hmac": {"secret": {}}}, ["TC102"]),
    BadAuth({"hmac": {"secret": {"env": "A B"}}}, ["TC106"]),
    BadAuth({"hmac": {"secret": {"env": "BILLING_A", "file": "/run/secrets/acme/b"}}}, ["TC106"]),
    BadAuth({"hmac": {"secret": {"env": "DATABASE_URL"}}}, ["TC408"]),
    BadAuth({"hmac": {"secret": {"env": "BILLING_"}}}, ["TC408"]),
    BadAuth({"hmac": {"secret": {"file": "/run/secrets/umbrella/hmac"}}}, ["TC408"]),
    BadAuth({"hmac": {"secret": {"file": "/run/secrets/acme/a/b"}}}, ["TC408"]),
    BadAuth({"hmac": {"secret": {"file": "/run/secrets/acme/../umbrella"}}}, ["TC106"]),
    BadAuth({"hmac": {"secret": {"file": "secret"}}}, ["TC106"]),
    BadAuth({"hmac": {"secret": "correct-horse"}}, ["TC103", "TC407"]),
    BadAuth({"hmac": {"secret": {"env": "sk_live_4eC39HqLyjWDarjtT1zdp7dc"}}}, ["TC407", "TC408"]),
)


@pytest.mark.parametrize("case", BAD_AUTH, ids=lambda case: str(case.auth))
def test_auth_that_is_refused(case: BadAuth) -> None:
    assert check_http(url="https://billing.internal/", auth=case.auth) == case.codes


def test_the_diagnostic_of_a_secret_that_may_not_be_used_names_the_entry_to_add() -> None:
    http: JsonValue = {"url": "https://billing.internal/", "auth": SIGNED}
    data = manifest({"every": "1h"}, target={"http": http})
    (problem,) = check_data(data, policy=policy_with(hosts=("billing.internal",))).problems
    assert problem.code == "TC408"
    assert problem.hint == (
        'the platform team can add "env:BILLING_HMAC" to allowed_secrets in the [policy] table'
    )
    assert problem.pointer[-3:] == ("hmac", "secret", "env")


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
    assert target == HttpTarget("https://billing.internal/run", "POST", {}, auth=None)


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
