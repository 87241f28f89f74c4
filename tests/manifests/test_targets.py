"""Targets: safe URLs, allowed hosts, and authentication."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from support.http_targets import POLICY, check_http
from support.manifests import check_data, codes, manifest, only_schedule, policy_with

from tenantcron.core.targets import HttpTarget
from tenantcron.core.values import JsonObject, JsonValue

SIGNED: JsonValue = {"hmac": {"secret": {"env": "BILLING_HMAC"}}}


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


def test_plain_http_needs_an_explicit_entry() -> None:
    data = manifest({"every": "1h"}, target={"http": {"url": "http://billing.internal/"}})
    (problem,) = check_data(data, policy=POLICY).problems
    assert problem.code == "TC401"
    assert problem.message == "billing.internal may be called by https only"
    assert check_http(("http://*.internal",), url="http://a.internal/") == []
    assert check_http(("http://*.internal",), url="https://a.internal/") == ["TC402"]


def test_entries_of_the_policy_are_case_insensitive() -> None:
    assert check_http(("Billing.Internal", "*.GRID.internal"), url="https://billing.internal") == []
    assert check_http(("*.GRID.internal",), url="https://a.grid.internal") == []


def test_a_forbidden_host_is_reported_with_the_entry_to_add() -> None:
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
def test_an_address_outside_the_allowed_networks(url: str) -> None:
    assert check_http(url=url) == ["TC406"]


def test_the_diagnostic_of_an_address_shows_the_line_to_add() -> None:
    data = manifest({"every": "1h"}, target={"http": {"url": "https://10.0.0.2/"}})
    (problem,) = check_data(data, policy=POLICY).problems
    assert problem.message == "10.0.0.2 is not a public address: private"
    assert problem.hint == (
        'the platform team can add "10.0.0.2/32", or the network around it, to allowed_networks '
        "in the [policy] table"
    )


@dataclass(frozen=True)
class Port:
    """A URL, the ports of a policy, and whether the policy allows the URL."""

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


def test_the_diagnostic_of_a_port_shows_the_line_to_write() -> None:
    policy = policy_with(hosts=("billing.internal",))
    data = manifest({"every": "1h"}, target={"http": {"url": "https://billing.internal:8443"}})
    (problem,) = check_data(data, policy=policy).problems
    assert problem.hint == (
        "the platform team can write allowed_ports = [443, 8443] in the [policy] table"
    )


OAUTH2: JsonObject = {
    "token_url": "https://login.grid.internal/token",
    "client_id": "billing",
    "secret": {"env": "BILLING_OAUTH"},
}
MTLS: JsonObject = {
    "certificate": {"file": "/run/secrets/acme/tls.crt"},
    "key": {"file": "/run/secrets/acme/tls.key"},
}
GOOD_AUTH: tuple[JsonValue, ...] = (
    "none",
    "execution_token",
    {"execution_token": {}},
    {"execution_token": {"audience": "https://billing.internal"}},
    {"execution_token": {"audience": "billing"}},
    {"hmac": {"secret": {"env": "BILLING_HMAC"}}},
    {"hmac": {"secret": {"file": "/run/secrets/acme/hmac"}}},
    {"bearer": {"secret": {"env": "BILLING_TOKEN"}}},
    {"oauth2_client_credentials": OAUTH2},
    {"oauth2_client_credentials": {**OAUTH2, "scope": "invoices:write ledger"}},
    {"mtls": MTLS},
)


@pytest.mark.parametrize("auth", GOOD_AUTH, ids=str)
def test_allowed_auth(auth: JsonValue) -> None:
    assert check_http(url="https://billing.internal/", auth=auth) == []


@dataclass(frozen=True)
class BadAuth:
    """An auth section, and its problems."""

    auth: JsonValue
    codes: list[str]


BAD_AUTH = (
    BadAuth("basic", ["TC106"]),
    BadAuth({}, ["TC102"]),
    BadAuth({"execution_token": {}, "hmac": {"secret": {"env": "BILLING_HMAC"}}}, ["TC106"]),
    BadAuth({"execution_token": {"audience": "b\u00fc"}}, ["TC106"]),
    BadAuth({"execution_token": {"audience": "a\tb"}}, ["TC106"]),
    BadAuth({"execution_token": {"audience": "x" * 256}}, ["TC106"]),
    BadAuth({"execution_token": {"audience": "https://payroll.internal"}}, ["TC409"]),
    BadAuth({"execution_token": {"audience": "https://billing.internal/"}}, ["TC409"]),
    BadAuth({"execution_token": {"audience": "billing2"}}, ["TC409"]),
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
    BadAuth("bearer", ["TC106"]),
    BadAuth({"bearer": {"secret": "correct-horse"}}, ["TC103", "TC407"]),
    BadAuth({"bearer": {"secret": {"env": "DATABASE_URL"}}}, ["TC408"]),
    BadAuth({"oauth2_client_credentials": {"secret": {"env": "BILLING_A"}}}, ["TC102", "TC102"]),
    BadAuth(
        {"oauth2_client_credentials": {**OAUTH2, "token_url": "https://evil.example/"}}, ["TC402"]
    ),
    BadAuth(
        {"oauth2_client_credentials": {**OAUTH2, "token_url": "http://login.grid.internal/"}},
        ["TC401"],
    ),
    BadAuth({"oauth2_client_credentials": {**OAUTH2, "token_url": "token"}}, ["TC401"]),
    BadAuth({"oauth2_client_credentials": {**OAUTH2, "client_id": ""}}, ["TC106"]),
    BadAuth({"oauth2_client_credentials": {**OAUTH2, "scope": "a  b"}}, ["TC106"]),
    BadAuth({"oauth2_client_credentials": {**OAUTH2, "secret": {"env": "PGPASSWORD"}}}, ["TC408"]),
    BadAuth({"oauth2_client_credentials": {**OAUTH2, "secret": "horse"}}, ["TC103", "TC407"]),
    BadAuth({"mtls": {"certificate": MTLS["certificate"]}}, ["TC102"]),
    BadAuth({"mtls": {**MTLS, "key": {"env": "BILLING_KEY"}}}, ["TC102", "TC101"]),
    BadAuth({"mtls": {**MTLS, "key": {"file": "/etc/tenantcron/master.key"}}}, ["TC408"]),
    BadAuth({"hmac": {"secret": {"env": "sk_live_4eC39HqLyjWDarjtT1zdp7dc"}}}, ["TC407", "TC408"]),
)


@pytest.mark.parametrize("case", BAD_AUTH, ids=lambda case: str(case.auth))
def test_rejected_auth(case: BadAuth) -> None:
    assert check_http(url="https://billing.internal/", auth=case.auth) == case.codes


def test_a_client_certificate_needs_https() -> None:
    assert check_http(url="http://localhost:8080/run", auth={"mtls": MTLS}) == ["TC401"]


def test_the_diagnostic_of_a_forbidden_secret_shows_the_entry_to_add() -> None:
    http: JsonValue = {"url": "https://billing.internal/", "auth": SIGNED}
    data = manifest({"every": "1h"}, target={"http": http})
    (problem,) = check_data(data, policy=policy_with(hosts=("billing.internal",))).problems
    assert problem.code == "TC408"
    assert problem.hint == (
        'the platform team can add "env:BILLING_HMAC" to allowed_secrets in the [policy] table'
    )
    assert problem.pointer[-3:] == ("hmac", "secret", "env")


def test_the_diagnostic_of_an_audience_shows_the_entry_to_add() -> None:
    auth: JsonValue = {"execution_token": {"audience": "https://payroll.internal"}}
    http: JsonValue = {"url": "https://billing.internal/", "auth": auth}
    data = manifest({"every": "1h"}, target={"http": http})
    (problem,) = check_data(data, policy=policy_with(hosts=("billing.internal",))).problems
    assert problem.code == "TC409"
    assert problem.hint == (
        "leave it out for https://billing.internal; or the platform team can add "
        '"https://payroll.internal" to allowed_audiences in the [policy] table'
    )
    assert problem.pointer[-2:] == ("execution_token", "audience")


def test_a_target_is_checked_for_every_kind_of_trigger() -> None:
    data: JsonValue = {
        "sagas": [
            {"name": "a", "trigger": "webhook:x", "target": {"http": {"url": "https://evil.com"}}}
        ]
    }
    assert codes(check_data(data)) == ["TC402"]


def test_a_target_is_stored_with_its_defaults() -> None:
    data = manifest({"every": "1h"}, target={"http": {"url": "https://billing.internal/run"}})
    target = only_schedule(check_data(data, policy=POLICY)).target
    assert target is not None
    assert target == HttpTarget("https://billing.internal/run", "POST", {}, auth=None)


@dataclass(frozen=True)
class Retention:
    """Timeouts and attempts, and whether they end before the target forgets the key."""

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
    policy = policy_with(
        hosts=("billing.internal",), retention=case.remembers, max_timeout=timedelta(days=1)
    )
    scheduled: JsonValue = {
        "every": "1h",
        "timeout": case.timeout,
        "retry": {"max_attempts": case.max_attempts},
    }
    http: JsonValue = {"http": {"url": "https://billing.internal/"}}
    found = codes(check_data(manifest(scheduled, target=http), policy=policy))
    assert found == ([] if case.is_good else ["TC404"])
    assert codes(check_data(manifest(scheduled), policy=policy)) == []
