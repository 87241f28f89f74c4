"""The policy file: its keys, where it is found, and its errors."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from support.manifests import check_data, codes, manifest

from tenantcron.core.egress import Egress
from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.quotas import DeclaredQuotas
from tenantcron.core.values import JsonValue
from tenantcron.manifests.check import CheckedManifest
from tenantcron.manifests.files import Policies
from tenantcron.manifests.policy import default_policy, find_policy, load_policy


def policy_file(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tenantcron.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_a_file_the_documented_defaults_apply() -> None:
    policy = default_policy()
    assert policy.minimum_interval == timedelta(minutes=15)
    assert policy.max_schedules_per_tenant == 20
    assert policy.max_size_per_tenant == 4 * 1024**2
    assert policy.max_timeout == timedelta(hours=1)
    assert policy.presets == {}
    assert policy.egress == Egress(hosts=(), networks=(), ports=None)
    assert policy.allowed_secrets == ()
    assert policy.allowed_audiences == ()
    assert policy.idempotency_retention == timedelta(hours=24)


@pytest.mark.parametrize("text", ["", "[settings]\nlease = '60s'\n", "[policy]\n"])
def test_a_file_without_a_policy_table_means_the_defaults(tmp_path: Path, text: str) -> None:
    assert load_policy(policy_file(tmp_path, text)) == default_policy()


def test_every_key_of_the_policy_is_read(tmp_path: Path) -> None:
    text = """
    [policy]
    minimum_interval = "1h"
    max_schedules_per_tenant = 3
    max_size_per_tenant = "64KiB"
    max_timeout = "6h"
    allowed_hosts = ["billing.internal", "*.grid.internal", "http://localhost", "[::1]"]
    allowed_networks = ["10.20.0.0/16", "::1/128"]
    allowed_ports = [443, 8443]
    allowed_secrets = ["env:BILLING_*", "file:/run/secrets/{tenant}/*"]
    allowed_audiences = ["billing", "https://ledger.internal"]
    idempotency_retention = "7d"
    [policy.quotas]
    pending_tasks = 500
    payload_bytes = "64KiB"
    [policy.tenants.acme.quotas]
    stored_bytes = "2GiB"
    [policy.presets]
    hourly = "0 * * * *"
    nightly = { daily = { at = "02:00" }, timezone = "Europe/London", timeout = "15m" }
    launch = { once = 2099-01-01T09:00:00Z }
    """
    policy = load_policy(policy_file(tmp_path, text))
    assert policy.minimum_interval == timedelta(hours=1)
    assert policy.max_schedules_per_tenant == 3
    assert policy.max_size_per_tenant == 64 * 1024
    assert policy.max_timeout == timedelta(hours=6)
    assert policy.egress == Egress(
        hosts=("billing.internal", "*.grid.internal", "http://localhost", "[::1]"),
        networks=("10.20.0.0/16", "::1/128"),
        ports=(443, 8443),
    )
    assert policy.allowed_secrets == ("env:BILLING_*", "file:/run/secrets/{tenant}/*")
    assert policy.allowed_audiences == ("billing", "https://ledger.internal")
    assert policy.idempotency_retention == timedelta(days=7)
    assert {name: preset.cron for name, preset in policy.presets.items()} == {
        "hourly": "0 * * * *",
        "nightly": "0 2 * * *",
        "launch": "@at 2099-01-01T09:00:00Z",
    }
    assert policy.presets["nightly"].settings.timeout == timedelta(minutes=15)
    assert policy.quotas == DeclaredQuotas(
        {"pending_tasks": 500, "payload_bytes": 64 * 1024},
        {TenantId("acme"): {"stored_bytes": 2 * 1024**3}},
    )


def test_zero_is_a_valid_value(tmp_path: Path) -> None:
    text = (
        "[policy]\nminimum_interval = '0s'\nidempotency_retention = '0s'\n"
        "max_schedules_per_tenant = 0\n"
    )
    policy = load_policy(policy_file(tmp_path, text))
    assert policy.minimum_interval == timedelta(0)
    assert policy.idempotency_retention == timedelta(0)
    assert policy.max_schedules_per_tenant == 0


@dataclass(frozen=True)
class Bad:
    """A policy, and a line of its error."""

    text: str
    line: str


BAD = (
    Bad("minimum_intervall = '1h'", "policy.minimum_intervall: TC101 `policy` has no key"),
    Bad("minimum_interval = 15", "policy.minimum_interval: TC103 "),
    Bad("minimum_interval = '15 min'", "policy.minimum_interval: TC106 "),
    Bad("max_schedules_per_tenant = -1", "policy.max_schedules_per_tenant: TC106 "),
    Bad("max_schedules_per_tenant = 1.5", "policy.max_schedules_per_tenant: TC103 "),
    Bad("max_schedules_per_tenant = nan", "policy.max_schedules_per_tenant: TC103 "),
    Bad("max_size_per_tenant = 4096", "policy.max_size_per_tenant: TC103 "),
    Bad("max_size_per_tenant = '4MB'", "policy.max_size_per_tenant: TC106 "),
    Bad("max_size_per_tenant = '1B'", "policy.max_size_per_tenant: TC305 "),
    Bad("max_size_per_tenant = '17MiB'", "policy.max_size_per_tenant: TC305 "),
    Bad("quotas = { pending = 1 }", "policy.quotas.pending: TC101 "),
    Bad("quotas = { starts_per_minute = 0 }", "policy.quotas.starts_per_minute: TC106 "),
    Bad("quotas = { payload_bytes = '2MiB' }", "policy.quotas.payload_bytes: TC305 "),
    Bad(
        "tenants = { acme = { quotas = { stored_bytes = 5 } } }",
        "policy.tenants.acme.quotas.stored_bytes: TC103 ",
    ),
    Bad("max_timeout = 60", "policy.max_timeout: TC103 "),
    Bad("max_timeout = '0s'", "policy.max_timeout: TC305 "),
    Bad("max_timeout = '25h'", "policy.max_timeout: TC305 "),
    Bad("presets = { a = { every = '1d', timeout = '2h' } }", "policy.presets.a.timeout: TC307 "),
    Bad("allowed_hosts = 'billing.internal'", "policy.allowed_hosts: TC103 "),
    Bad("allowed_hosts = ['https://billing.internal']", "policy.allowed_hosts.0: TC106 "),
    Bad("allowed_hosts = ['billing.internal:8443']", "policy.allowed_hosts.0: TC106 "),
    Bad("allowed_hosts = ['billing.internal/run']", "policy.allowed_hosts.0: TC106 "),
    Bad("allowed_hosts = ['*']", "policy.allowed_hosts.0: TC106 "),
    Bad("allowed_hosts = ['a.*.internal']", "policy.allowed_hosts.0: TC106 "),
    Bad("allowed_hosts = ['']", "policy.allowed_hosts.0: TC106 "),
    Bad("tenants = { Acme = {} }", "policy.tenants.Acme: TC107 "),
    Bad("tenants = { acme = { max_timeout = '1h' } }", "policy.tenants.acme.max_timeout: TC101 "),
    Bad("tenants = { acme = { max_schedules = -1 } }", "policy.tenants.acme.max_schedules: TC106 "),
    Bad("tenants = { acme = { allowed_hosts = ['*'] } }", "policy.tenants.acme.allowed_hosts.0: "),
    Bad("allowed_networks = ['10.0.0.1/8']", "policy.allowed_networks.0: TC106 "),
    Bad("allowed_networks = ['10.0.0.0/33']", "policy.allowed_networks.0: TC106 "),
    Bad("allowed_networks = ['10.0.0.0']", "policy.allowed_networks.0: TC106 "),
    Bad("allowed_networks = ['localhost']", "policy.allowed_networks.0: TC106 "),
    Bad("allowed_ports = [0]", "policy.allowed_ports.0: TC106 "),
    Bad("allowed_ports = [65536]", "policy.allowed_ports.0: TC106 "),
    Bad("allowed_ports = ['443']", "policy.allowed_ports.0: TC103 "),
    Bad("allowed_audiences = ['']", "policy.allowed_audiences.0: TC106 "),
    Bad("allowed_audiences = [' a']", "policy.allowed_audiences.0: TC106 "),
    Bad("allowed_audiences = ['b\u00fc']", "policy.allowed_audiences.0: TC106 "),
    Bad("allowed_secrets = ['BILLING']", "policy.allowed_secrets.0: TC106 "),
    Bad("allowed_secrets = ['env:*']", "policy.allowed_secrets.0: TC106 "),
    Bad("allowed_secrets = ['env:A_{tenant}']", "policy.allowed_secrets.0: TC106 "),
    Bad("allowed_secrets = ['file:run/secrets']", "policy.allowed_secrets.0: TC106 "),
    Bad("allowed_secrets = ['file:/run/../etc']", "policy.allowed_secrets.0: TC106 "),
    Bad("allowed_secrets = ['file:/*']", "policy.allowed_secrets.0: TC106 "),
    Bad("presets = { Nightly = '0 2 * * *' }", "policy.presets.Nightly: TC107 "),
    Bad("presets = { nightly = '0 2 * *' }", "policy.presets.nightly: TC201 "),
    Bad("presets = { nightly = {} }", "policy.presets.nightly: TC111 "),
    Bad("presets = { often = '*/5 * * * *' }", "policy.presets.often: TC301 "),
    Bad(
        "presets = { a = { every = '1h', timezone = 'Mars' } }", "policy.presets.a.timezone: TC205 "
    ),
    Bad("presets = { a = '0 2 * * *', b = { preset = 'a' } }", "policy.presets.b.preset: TC206 "),
    Bad(
        "presets = { a = { every = '1h', payload = { b = '{{c}}' } } }",
        "policy.presets.a.payload.b: TC304 ",
    ),
)


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.text[:50])
def test_an_invalid_policy_is_rejected_with_the_key_and_the_reason(
    tmp_path: Path, bad: Bad
) -> None:
    file = policy_file(tmp_path, f"[policy]\n{bad.text}\n")
    with pytest.raises(UsageError) as caught:
        load_policy(file)
    first, *rest = str(caught.value).splitlines()
    assert first == f"{file}: the policy is not valid"
    assert any(line.strip().startswith(bad.line.strip()) for line in rest), rest


def test_all_problems_of_a_policy_are_reported_at_once(tmp_path: Path) -> None:
    file = policy_file(tmp_path, "[policy]\nminimum_interval = 1\nextra = 1\nallowed_hosts = 1\n")
    with pytest.raises(UsageError) as caught:
        load_policy(file)
    assert len(str(caught.value).splitlines()) == 4


def test_presets_must_comply_with_the_minimum_interval(tmp_path: Path) -> None:
    text = "[policy]\nminimum_interval = '1m'\npresets = { often = '*/5 * * * *' }\n"
    assert load_policy(policy_file(tmp_path, text)).presets["often"].cron == "*/5 * * * *"


@pytest.mark.parametrize("content", [b"[policy", b"\xff\xfe", b"policy = [1"])
def test_a_file_that_is_not_toml_is_rejected(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tenantcron.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="the policy cannot be read"):
        load_policy(file)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[polcy]\nminimum_interval = '1h'\n", r"`polcy`; did you mean \[policy\]\?"),
        ("minimum_interval = '1h'\n", "`minimum_interval`; the tables are policy and settings"),
    ],
)
def test_keys_outside_the_tables_are_rejected(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        load_policy(policy_file(tmp_path, text))


def test_the_errors_of_a_policy_are_sorted_by_key(tmp_path: Path) -> None:
    presets = "presets = {b = 'nonsense', a = 'nonsense'}\n"
    file = policy_file(tmp_path, f"[policy]\n{presets}minimum_interval = 1\nallowed_hosts = 1\n")
    with pytest.raises(UsageError) as caught:
        load_policy(file)
    places = [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]]
    keys = ("allowed_hosts", "minimum_interval", "presets.a", "presets.b")
    assert places == [f"policy.{key}" for key in keys]


def test_a_policy_that_is_not_a_table_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the policy is not valid"):
        load_policy(policy_file(tmp_path, "policy = 5"))


def test_a_missing_policy_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the policy cannot be read"):
        load_policy(tmp_path / "none.toml")


def test_the_policy_in_the_folder_of_the_manifest_comes_first(tmp_path: Path) -> None:
    policy_file(tmp_path, "")
    near = policy_file(tmp_path / "a", "")
    assert find_policy(tmp_path / "a") == near


def test_the_policy_of_a_parent_folder_is_found(tmp_path: Path) -> None:
    file = policy_file(tmp_path, "")
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    assert find_policy(folder) == file


def test_the_policy_at_the_root_of_the_repository_is_found(tmp_path: Path) -> None:
    file = policy_file(tmp_path / "repo", "")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / "a").mkdir()
    assert find_policy(tmp_path / "repo" / "a") == file


@pytest.mark.parametrize("is_worktree", [False, True])
def test_a_policy_outside_the_repository_is_ignored(tmp_path: Path, is_worktree: bool) -> None:
    policy_file(tmp_path, "")
    (tmp_path / "repo" / "a").mkdir(parents=True)
    git = tmp_path / "repo" / ".git"
    git.write_text("gitdir: elsewhere") if is_worktree else git.mkdir()
    assert find_policy(tmp_path / "repo" / "a") is None


def test_each_manifest_is_checked_with_its_nearest_policy(tmp_path: Path) -> None:
    policy_file(tmp_path, "[policy]\nmax_schedules_per_tenant = 1\n")
    policy_file(tmp_path / "b", "[policy]\nmax_schedules_per_tenant = 2\n")
    policies = Policies(None)
    caps = [
        policies.of(tmp_path / folder / "m.yaml").max_schedules_per_tenant
        for folder in ("a", "b", "b/c")
    ]
    assert caps == [1, 2, 2]


def test_a_given_policy_takes_precedence(tmp_path: Path) -> None:
    policy_file(tmp_path, "[policy]\nmax_schedules_per_tenant = 1\n")
    given = policy_file(tmp_path / "given", "[policy]\nmax_schedules_per_tenant = 7\n")
    assert Policies(given).of(tmp_path / "m.yaml").max_schedules_per_tenant == 7


def test_a_minimum_interval_of_zero_allows_every_timetable(tmp_path: Path) -> None:
    policy = load_policy(policy_file(tmp_path, "[policy]\nminimum_interval = '0s'\n"))
    assert codes(check_data(manifest({"every": "1s"}), policy=policy)) == []


def test_a_host_of_one_tenant_is_rejected_for_all_others(tmp_path: Path) -> None:
    text = """
    [policy]
    allowed_hosts = ["billing.internal"]
    [policy.tenants.acme]
    allowed_hosts = ["meters.acme.example"]
    """
    policy = load_policy(policy_file(tmp_path, text))

    def found(tenant: str, host: str) -> list[str]:
        target: JsonValue = {"http": {"url": f"https://{host}/run"}}
        data = {"tenant": tenant, **manifest({"every": "1h"}, target=target)}
        return codes(check_data(data, policy=policy))

    assert found("acme", "meters.acme.example") == []
    assert found("globex", "meters.acme.example") == ["TC402"]
    assert found("acme", "billing.internal") == found("globex", "billing.internal") == []


def test_a_tenant_can_have_its_own_cap(tmp_path: Path) -> None:
    text = "[policy]\nmax_schedules_per_tenant = 2\n[policy.tenants.acme]\nmax_schedules = 3\n"
    policy = load_policy(policy_file(tmp_path, text))

    def found(tenant: str, number: int) -> list[str]:
        trigger: JsonValue = {"scheduled": {"every": "1h"}}
        sagas: JsonValue = [{"name": f"s{index}", "trigger": trigger} for index in range(number)]
        return codes(check_data({"tenant": tenant, "sagas": sagas}, policy=policy))

    assert (found("acme", 3), found("acme", 4)) == ([], ["TC302"])
    assert (found("globex", 2), found("globex", 3)) == ([], ["TC302"])


def test_an_owner_may_have_as_many_schedules_as_the_quota_of_the_tenant(tmp_path: Path) -> None:
    text = (
        "[policy.quotas]\nschedules_per_owner = 1\n"
        "[policy.tenants.acme.quotas]\nschedules_per_owner = 2\n"
    )
    policy = load_policy(policy_file(tmp_path, text))

    def checked(tenant: str, *owners: str | None) -> CheckedManifest:
        triggers: list[JsonValue] = [
            {"scheduled": {"every": "1h", **({"owner": owner} if owner else {})}}
            for owner in owners
        ]
        sagas: JsonValue = [
            {"name": f"s{index}", "trigger": trigger} for index, trigger in enumerate(triggers)
        ]
        return check_data({"tenant": tenant, "sagas": sagas}, policy=policy)

    ada, ben = "user:ada", "user:ben"
    assert codes(checked("acme", ada, ben, None, ada, ben, None, None)) == []
    assert codes(checked("globex", ada, ada, ben, ben, ben)) == ["TC309", "TC309"]
    (problem,) = checked("acme", ada, None, ben, ada, ada, ada).problems
    assert (problem.code, problem.pointer) == ("TC309", ("sagas", 4, "trigger", "scheduled"))
    assert problem.message == "`user:ada` owns 4 schedules, 2 are allowed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("[policy.tenants.acme]\nallowed_hosts = []\n", False),
        ("[policy.tenants.acme]\nallowed_hosts = ['a.test']\n", True),
        ("[policy]\nallowed_hosts = ['a.test']\n", True),
    ],
)
def test_a_policy_knows_whether_any_host_may_be_called(
    tmp_path: Path, text: str, expected: bool
) -> None:
    assert load_policy(policy_file(tmp_path, text)).calls_hosts is expected


_HOSTS = 'allowed_hosts = ["billing.internal", "*.grid.internal", "http://localhost", "[::1]"]'


def test_rate_limits_are_read_by_host_in_lower_case(tmp_path: Path) -> None:
    text = f"""
    [policy]
    {_HOSTS}
    [policy.rate_limits]
    "Billing.internal" = "50/s"
    "a.grid.internal" = "600/m"
    localhost = "1/h"
    "[::1]" = "5/s"
    [policy.tenants.acme]
    allowed_hosts = ["own.acme.example"]
    """
    text = text.replace('localhost = "1/h"', 'localhost = "1/h"\n"own.acme.example" = "2/s"')

    limits = load_policy(policy_file(tmp_path, text)).rate_limits

    assert {host: str(rate) for host, rate in limits.items()} == {
        "billing.internal": "50/s",
        "a.grid.internal": "600/m",
        "localhost": "1/h",
        "::1": "5/s",
        "own.acme.example": "2/s",
    }


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('"billing.internal" = "50 per second"', "must be a rate such as 50/s, 600/m or 1000/h"),
        ('"billing.internal" = "0/s"', "must be a rate such as"),
        ('"billing.internal" = 50', "must be a rate such as"),
        ('"https://billing.internal" = "1/s"', "is not a host such as billing.internal"),
        ('"billing.internal:443" = "1/s"', "is not a host such as billing.internal"),
        ('"*.grid.internal" = "1/s"', "is not a host such as billing.internal"),
        ('"biling.internal" = "1/s"', "allowed_hosts does not list it"),
        ('"localhost" = "1/s"\n"LOCALHOST" = "2/s"', "LOCALHOST has two rate limits"),
    ],
)
def test_a_wrong_rate_limit_is_reported_with_its_place(
    tmp_path: Path, entry: str, message: str
) -> None:
    text = f"[policy]\n{_HOSTS}\n[policy.rate_limits]\n{entry}\n"

    with pytest.raises(UsageError, match=r"(?s)policy\.rate_limits\..*" + message) as raised:
        load_policy(policy_file(tmp_path, text))

    assert "the policy is not valid" in str(raised.value)
