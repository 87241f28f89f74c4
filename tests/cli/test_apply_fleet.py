"""Applies of many tenants: the failure of a tenant does not affect the others."""

import json
from pathlib import Path

import pytest
from support.fleet import RAISED_CAP, Called, Shell, footprint, manifest, names, numbered, query

HEALTHY = ("aaron", "milo", "zoe")


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def write(shell: Shell, tenant: str, count: int, file: str | None = None) -> None:
    text = manifest(tenant, numbered(count))
    (shell.folder / f"{file or tenant}.yaml").write_text(text, encoding="utf-8")


def apply(shell: Shell, *options: str) -> Called:
    return shell("apply-manifest", ".", "--format", "json", *options)


def errors(called: Called) -> dict[str, str]:
    tenants = json.loads(called.out)["tenants"]
    return {
        tenant["tenant"] or tenant["file"]: tenant["error"]["code"]
        for tenant in tenants
        if "error" in tenant
    }


def test_every_kind_of_failure_is_reported_and_the_others_are_applied(
    shell: Shell, database_url: str
) -> None:
    created = ("broken", "gone", "lost", "readonly", *HEALTHY)
    for tenant in created:
        write(shell, tenant, 1)
    assert apply(shell, "--create-tenants").code == 0
    query(database_url, "DROP TABLE {}.tenant_schedule", "tenant_broken")
    query(database_url, "DROP SCHEMA {} CASCADE", "tenant_lost")
    shell("tenant", "deprovision", "gone", "--reason", "contract ended")
    query(
        database_url,
        "CREATE FUNCTION public.stop() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'read only'; END $$;"
        "CREATE TRIGGER stop BEFORE INSERT ON {}.tenant_schedule EXECUTE FUNCTION public.stop()",
        "tenant_readonly",
    )
    for tenant in (*created, "unknown"):
        write(shell, tenant, 3)
    write(shell, "twice", 1, file="one-of-two")
    write(shell, "twice", 1, file="two-of-two")
    (shell.folder / "invalid.yaml").write_text("sagas: 7\n", encoding="utf-8")
    (shell.folder / "garbage.yaml").write_text("[", encoding="utf-8")

    called = apply(shell)

    assert called.code == 1
    assert errors(called) == {
        "broken": "TC606",
        "garbage.yaml": "TC605",
        "gone": "TC602",
        "invalid": "TC605",
        "lost": "TC606",
        "readonly": "TC606",
        "twice": "TC605",
        "unknown": "TC601",
    }
    for tenant in HEALTHY:
        assert names(database_url, tenant) == list(numbered(3))
    assert names(database_url, "readonly") == ["s000"]
    assert json.loads(called.out)["summary"] == {
        "tenants": 12,
        "create": 6,
        "update": 0,
        "delete": 0,
        "unchanged": 3,
        "failed": 9,
    }


def test_two_manifests_for_one_tenant_are_both_refused_and_name_the_problem(
    shell: Shell, database_url: str
) -> None:
    write(shell, "acme", 1)
    assert apply(shell, "--create-tenants").code == 0
    before = footprint(database_url)
    write(shell, "acme", 2, file="second")

    called = apply(shell)

    assert called.code == 1
    tenants = json.loads(called.out)["tenants"]
    assert [(tenant["tenant"], tenant["status"]) for tenant in tenants] == [("acme", "failed")] * 2
    assert {found["code"] for tenant in tenants for found in tenant["diagnostics"]} == {"TC501"}
    assert footprint(database_url) == before


def test_text_and_markdown_name_the_failures_too(shell: Shell) -> None:
    write(shell, "acme", 1)
    (shell.folder / "invalid.yaml").write_text(
        manifest("invalid", {"a": "cron: '* * * * *'"}), encoding="utf-8"
    )
    page = shell.folder / "page.md"

    called = shell("apply-manifest", ".", GITHUB_STEP_SUMMARY=str(page))

    assert called.code == 1
    assert "error[TC601] tenant `acme` does not exist" in called.out
    assert "error[TC301]" in called.out
    assert " --> invalid.yaml:6:25" in called.out
    assert called.out.splitlines()[-1].endswith("2 failed")
    assert "> **TC601** tenant \\`acme\\` does not exist" in page.read_text(encoding="utf-8")


def test_a_large_fleet_shows_its_failures_again_at_the_end(shell: Shell) -> None:
    for number in range(21):
        write(shell, f"t{number:02}", 1)
    (shell.folder / "invalid.yaml").write_text("tenant: bad\nsagas: 7\n", encoding="utf-8")

    shown = shell("apply-manifest", ".", "--create-tenants").out

    before, last = shown.split("failed: 1 tenant\n")
    assert "error[TC605]" in before
    assert last.startswith("bad  failed\n  error[TC605] the manifest has errors\n")
    assert "invalid.yaml:2:8 " in before
    assert [line for line in last.splitlines() if line.startswith("   ")] == [
        "   --> invalid.yaml:2:8 (wrong-type)",
        "    |",
        "    |        ^",
    ]
    assert "\n  2 | sagas: 7\n" in last
    assert last.splitlines()[-1].startswith("22 tenants: ")


def test_a_tenant_without_its_table_is_named_also_when_it_is_unchanged(
    shell: Shell, database_url: str
) -> None:
    """The file is unchanged, but its tenant no longer exists."""
    for tenant in HEALTHY:
        write(shell, tenant, 1)
    apply(shell, "--create-tenants")
    query(database_url, "DROP TABLE {}.tenant_schedule", "tenant_milo")

    called = apply(shell)

    assert errors(called) == {"milo": "TC606"}
    assert "does not exist" in json.loads(called.out)["tenants"][1]["error"]["message"]


def test_a_suspended_tenant_is_still_synced(shell: Shell, database_url: str) -> None:
    write(shell, "acme", 1)
    apply(shell, "--create-tenants")
    shell("tenant", "suspend", "acme", "--reason", "unpaid")
    write(shell, "acme", 2)

    assert apply(shell).code == 0
    assert names(database_url, "acme") == list(numbered(2))


def test_a_foreign_schema_is_not_taken_over(shell: Shell, database_url: str) -> None:
    query(database_url, "CREATE SCHEMA {}", "tenant_acme")
    write(shell, "acme", 1)

    called = apply(shell, "--create-tenants")

    assert errors(called) == {"acme": "TC606"}
    assert query(database_url, "SELECT * FROM tenantcron.tenant") == []


def test_a_tenants_own_cap_may_be_above_the_policys(shell: Shell, database_url: str) -> None:
    shell("tenant", "create", "acme", "--max-schedules", "25")
    write(shell, "acme", 25)

    assert apply(shell).code == 0
    assert len(names(database_url, "acme")) == 25


def test_a_tenants_own_cap_may_be_below_the_policys(shell: Shell, database_url: str) -> None:
    (shell.folder / "tenantcron.toml").write_text(RAISED_CAP, encoding="utf-8")
    shell("tenant", "create", "acme", "--max-schedules", "2")
    write(shell, "acme", 3)

    called = apply(shell)

    assert errors(called) == {"acme": "TC605"}
    (tenant,) = json.loads(called.out)["tenants"]
    assert [diagnostic["code"] for diagnostic in tenant["diagnostics"]] == ["TC302"]
    assert names(database_url, "acme") == []


@pytest.mark.parametrize("cap", ["2", "default"])
def test_a_cap_that_was_lowered_counts_also_for_a_manifest_that_was_applied_before(
    shell: Shell, cap: str
) -> None:
    shell("tenant", "create", "acme", "--max-schedules", "25")
    write(shell, "acme", 25)
    assert apply(shell).code == 0

    shell("tenant", "set", "acme", "--max-schedules", cap)

    assert errors(apply(shell)) == {"acme": "TC605"}
    shell("tenant", "set", "acme", "--max-schedules", "25")
    assert apply(shell).code == 0
