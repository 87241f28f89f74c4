"""`tenantcron tenant`."""

import json
import re
from pathlib import Path

import pytest
from support.fleet import Shell, footprint, query

KEYS = {
    "tenant",
    "schema",
    "schema_adopted",
    "status",
    "status_reason",
    "max_schedules",
    "max_concurrent",
    "weight",
    "quotas",
    "labels",
    "sourced",
    "missing_since",
    "schedule_revision",
    "created_at",
    "updated_at",
}


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def json_of(shell: Shell, *arguments: str) -> dict[str, object]:
    """Call an action on a tenant, and return the tenant from its JSON output."""
    called = shell("tenant", *arguments, "--format", "json")
    assert (called.code, called.err) == (0, "")
    (tenant,) = json.loads(called.out)["tenants"]
    assert isinstance(tenant, dict)
    return tenant


def test_the_life_of_a_tenant(shell: Shell, database_url: str) -> None:
    created = json_of(shell, "create", "acme", "--max-concurrent", "10")
    assert created.keys() == KEYS
    assert (created["status"], created["schema"], created["max_concurrent"]) == (
        "active",
        "tenant_acme",
        10,
    )
    assert json_of(shell, "set", "acme", "--max-schedules", "50")["max_schedules"] == 50
    assert json_of(shell, "set", "acme", "--max-schedules", "default")["max_schedules"] is None
    suspended = json_of(shell, "suspend", "acme", "--reason", "unpaid")
    assert (suspended["status"], suspended["status_reason"]) == ("suspended", "unpaid")
    assert json_of(shell, "resume", "acme")["status"] == "active"
    assert json_of(shell, "show", "acme")["status"] == "active"
    gone = json_of(shell, "deprovision", "acme", "--reason", "contract ended")
    assert gone["status"] == "deprovisioned"
    assert query(database_url, "SELECT * FROM {}.tenant_schedule", "tenant_acme") == []


def test_the_actor_is_recorded(shell: Shell, database_url: str) -> None:
    json_of(shell, "create", "acme", "--actor", "maria")
    shell("tenant", "suspend", "acme", "--reason", "x", LOGNAME="joe")
    github = {"GITHUB_ACTIONS": "true", "GITHUB_ACTOR": "octocat"}
    shell("tenant", "resume", "acme", **github)

    records = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY id")
    who = [
        (record["changed_by"], record["actor_type"], record["actor_source"]) for record in records
    ]
    assert who == [
        ("maria", "human", "cli"),
        ("joe", "human", "cli"),
        ("github:octocat", "pipeline", "github-actions"),
    ]
    assert not any(record["authenticated"] for record in records)


def test_the_list_shows_all_tenants(shell: Shell) -> None:
    assert "no tenants yet" in shell("tenant", "list").out
    for tenant in ("beta", "acme"):
        json_of(shell, "create", tenant)
    shell("tenant", "suspend", "beta", "--reason", "unpaid \x1b[2J since October")

    listed = shell("tenant", "list")

    assert [line.split() for line in listed.out.splitlines()] == [
        ["tenant", "status", "revision", "max", "schedules", "max", "concurrent", "reason"],
        ["acme", "active", "0", "default", "default"],
        ["beta", "suspended", "0", "default", "default", "unpaid", "�[2J", "since", "October"],
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "unknown"],
        ["suspend", "unknown", "--reason", "x"],
        ["resume", "unknown"],
        ["set", "unknown", "--max-schedules", "3"],
        ["deprovision", "unknown", "--reason", "x", "--drop-schema", "--confirm", "unknown"],
        ["create", "acme"],
        ["resume", "acme"],
    ],
    ids=" ".join,
)
def test_a_refused_change_prints_one_line_and_exits_with_1(
    shell: Shell, database_url: str, arguments: list[str]
) -> None:
    json_of(shell, "create", "acme")
    before = footprint(database_url)

    called = shell("tenant", *arguments)

    assert called.code == 1
    assert called.err.startswith("error: ")
    assert len(called.err.splitlines()) == 1
    assert footprint(database_url) == before


@pytest.mark.parametrize("tenant", ["a'b", 'a"; drop', "Acme", "a" * 49, "public", "pg_x", "é", ""])
@pytest.mark.parametrize("action", ["create", "show", "resume"])
def test_an_invalid_id_is_a_usage_error_and_changes_nothing(
    shell: Shell, database_url: str, action: str, tenant: str
) -> None:
    before = footprint(database_url)

    called = shell("tenant", action, tenant)

    assert called.code == 2
    assert called.err.startswith("error: ")
    assert "Traceback" not in called.err
    assert footprint(database_url) == before


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-concurrent", "0"),
        ("--max-concurrent", "-1"),
        ("--max-concurrent", "1000000000000"),
        ("--max-concurrent", "many"),
        ("--max-concurrent", "1.5"),
        pytest.param("--max-concurrent", "9" * 5000, id="thousands of digits"),
        ("--max-schedules", "-1"),
        ("--max-schedules", "1000000000000"),
        ("--max-schedules", "٣"),
        ("--max-schedules", ""),
        ("--weight", "0"),
        ("--weight", "101"),
    ],
)
@pytest.mark.parametrize("action", ["set", "create"])
def test_an_invalid_limit_is_a_usage_error_and_changes_nothing(
    shell: Shell, database_url: str, action: str, option: str, value: str
) -> None:
    json_of(shell, "create", "acme")
    before = footprint(database_url)

    called = shell("tenant", action, "acme" if action == "set" else "beta", f"{option}={value}")

    assert called.code == 2
    assert "is not a number from" in called.err
    assert "Traceback" not in called.err
    assert footprint(database_url) == before


def test_the_weight_of_a_tenant_is_set_recorded_and_restored(
    shell: Shell, database_url: str
) -> None:
    json_of(shell, "create", "acme", "--weight", "7")

    assert json_of(shell, "set", "acme", "--weight", "3")["weight"] == 3
    assert json_of(shell, "set", "acme", "--weight", "default")["weight"] == 1

    statement = (
        "SELECT before ->> 'weight' AS before, after ->> 'weight' AS after"
        " FROM tenantcron.audit_record WHERE entity_type = 'tenant' AND operation = 'update'"
        " ORDER BY id"
    )
    found = [(row["before"], row["after"]) for row in query(database_url, statement)]
    assert found[-2:] == [("7", "3"), ("3", "1")]


def test_quotas_are_set_shown_with_their_source_and_restored(shell: Shell) -> None:
    json_of(shell, "create", "acme", "--quota", "pending_tasks=20000")

    json_of(shell, "set", "acme", "--quota", "stored_bytes=4GiB")
    shown = shell("tenant", "show", "acme").out
    assert re.search(r"pending_tasks +20000 +operator", shown)
    assert re.search(r"stored_bytes +4GiB +operator", shown)
    assert re.search(r"starts_per_minute +1000 +default", shown)
    restored = json_of(shell, "set", "acme", "--quota", "pending_tasks=default")
    assert restored["quotas"] == {"stored_bytes": 4 * 1024**3}


@pytest.mark.parametrize(
    "quota", ["pending_task=1", "pending_tasks=-1", "pending_tasks=1GiB", "starts_per_minute=0"]
)
def test_an_invalid_quota_is_a_usage_error_and_changes_nothing(shell: Shell, quota: str) -> None:
    json_of(shell, "create", "acme")

    called = shell("tenant", "set", "acme", "--quota", quota)

    assert called.code == 2
    assert quota.partition("=")[0] in called.err
    assert json_of(shell, "show", "acme")["quotas"] == {}


def test_the_cap_of_a_tenant_may_be_zero(shell: Shell) -> None:
    assert json_of(shell, "create", "acme", "--max-schedules", "0")["max_schedules"] == 0


def test_set_without_a_limit_is_a_usage_error(shell: Shell) -> None:
    json_of(shell, "create", "acme")

    assert shell("tenant", "set", "acme").code == 2


@pytest.mark.parametrize("confirm", [[], ["--confirm", "beta"], ["--confirm", ""]])
def test_dropping_a_schema_needs_the_id_again(
    shell: Shell, database_url: str, confirm: list[str]
) -> None:
    json_of(shell, "create", "acme")
    before = footprint(database_url)
    drop = ["deprovision", "acme", "--reason", "x", "--drop-schema"]

    run = shell.start("tenant", *drop, *confirm)
    _, errors = run.communicate()

    assert run.returncode == 2
    assert "not confirmed, nothing was changed" in errors
    assert footprint(database_url) == before


def test_a_confirmed_deprovision_drops_the_schema(shell: Shell, database_url: str) -> None:
    json_of(shell, "create", "acme")
    drop = ["deprovision", "acme", "--reason", "x", "--drop-schema", "--confirm", "acme"]

    assert json_of(shell, *drop)["status"] == "deprovisioned"

    assert not query(database_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'tenant_acme'")
    refused = shell("tenant", "resume", "acme")
    assert refused.code == 1
    assert "the tables of `acme` were dropped" in refused.err


def test_suspend_and_deprovision_require_a_reason(shell: Shell) -> None:
    json_of(shell, "create", "acme")

    assert shell("tenant", "suspend", "acme").code == 2
    assert shell("tenant", "deprovision", "acme").code == 2


@pytest.mark.parametrize("name", ["token:ci", "OIDC:ada@example.com", " system:scheduler:billing"])
def test_a_given_actor_cannot_imitate_an_authenticated_one(
    shell: Shell, name: str, database_url: str
) -> None:
    called = shell("tenant", "create", "acme", "--actor", name)

    assert called.code == 2
    assert "are reserved for authenticated callers" in called.err
    assert query(database_url, "SELECT id FROM tenantcron.tenant") == []


def test_labels_are_set_removed_shown_and_filtered_by(shell: Shell) -> None:
    created = json_of(shell, "create", "acme", "--label", "tier=gold", "--label", "region=eu")
    assert created["labels"] == {"tier": "gold", "region": "eu"}
    json_of(shell, "create", "globex", "--label", "tier=free")
    json_of(shell, "create", "plain")
    assert json_of(shell, "label", "acme", "plan=yearly", "region-")["labels"] == {
        "tier": "gold",
        "plan": "yearly",
    }
    assert json_of(shell, "list", "--label", "tier=gold")["tenant"] == "acme"
    assert json_of(shell, "list", "--label", "tier", "--label", "plan=yearly")["tenant"] == "acme"
    assert "no tenant has these labels" in shell("tenant", "list", "--label", "tier=x").out
    listed = shell("tenant", "list").out
    assert "plan=yearly, tier=gold" in listed
    assert "labels" not in shell("tenant", "show", "plain").out


def test_an_invalid_label_is_a_usage_error(shell: Shell) -> None:
    json_of(shell, "create", "acme")
    for arguments in (
        ("label", "acme", "Tier=gold"),
        ("create", "globex", "--label", "tier-"),
        ("list", "--label", "tier="),
    ):
        called = shell("tenant", *arguments)
        assert called.code == 2
        assert "label" in called.err
    assert json_of(shell, "show", "acme")["labels"] == {}


@pytest.mark.parametrize("action", ["show", "set", "suspend"])
def test_a_misspelt_tenant_gets_a_suggestion(shell: Shell, action: str) -> None:
    assert shell("tenant", "create", "acme").code == 0
    options = {"set": ("--max-schedules", "5"), "suspend": ("--reason", "unpaid")}

    called = shell("tenant", action, "acm", *options.get(action, ()))

    assert called.code == 1
    assert called.err == "error: tenant `acm` does not exist: did you mean `acme`?\n"
