"""Saved plans that an attacker has edited, who can change every part but has no plan key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fleet import Called, Shell, footprint, manifest, names, numbered

from tenantcron.reconciler.document import checksum

Plan = dict[str, Any]
KEY = "11" * 31 + "12"


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    """Two tenants at the same revision."""
    shell = Shell(tmp_path, database_url)
    for tenant in ("acme", "globex"):
        write(shell, tenant, 2)
        assert shell("apply-manifest", f"{tenant}.yaml", "--create-tenants").code == 0
    return shell


def write(shell: Shell, tenant: str, count: int) -> None:
    text = manifest(tenant, numbered(count))
    (shell.folder / f"{tenant}.yaml").write_text(text, encoding="utf-8")


def save(shell: Shell, **variables: str) -> None:
    write(shell, "acme", 4)
    assert shell("plan", "acme.yaml", "--out", "reviewed.plan", **variables).code == 0


def apply(shell: Shell, **variables: str) -> Called:
    return shell("apply-manifest", "--plan", "reviewed.plan", "--format", "json", **variables)


def forge(shell: Shell, change: Callable[[Plan], None]) -> None:
    file = shell.folder / "reviewed.plan"
    saved = json.loads(file.read_text(encoding="utf-8"))
    change(saved["plan"])
    saved["checksum"] = checksum(saved["plan"])
    file.write_text(json.dumps(saved, indent=2), encoding="utf-8")


def _often(plan: Plan) -> None:
    """121 schedules a second apart, in the manifest and in the reviewed schedules."""
    (entry,) = plan["tenants"]
    entry["content"] = manifest("acme", numbered(121, 'cron: "@every 1s"'))
    (row, *_) = entry["document"]["schedules"]
    entry["document"]["schedules"] = [
        {**row, "schedule_name": name, "saga_name": name, "cron_expr": "@every 1s"}
        for name in numbered(121)
    ]


def _tenant(plan: Plan) -> None:
    (entry,) = plan["tenants"]
    entry["tenant"], entry["file"] = "globex", "globex.yaml"
    entry["content"] = manifest("globex", numbered(4))


def _deletes(plan: Plan) -> None:
    (entry,) = plan["tenants"]
    entry["content"] = manifest("acme", {})
    entry["document"]["schedules"] = []
    plan["rules"]["max_deletes"] = 1000


def _creates(plan: Plan) -> None:
    (entry,) = plan["tenants"]
    entry["tenant"], entry["file"], entry["revision"] = "initech", "initech.yaml", None
    entry["content"] = manifest("initech", numbered(4))
    plan["rules"]["create_tenants"] = True


FORGED = {
    "121 schedules a second apart": _often,
    "another tenant": _tenant,
    "more deletes": _deletes,
    "a new tenant": _creates,
    "another database": lambda plan: plan.update(database="other"),
    "another revision": lambda plan: plan["tenants"][0].update(revision=99),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_no_part_of_a_signed_plan_can_be_changed(
    shell: Shell, database_url: str, change: Callable[[Plan], None]
) -> None:
    save(shell, TENANTCRON_PLAN_KEY=KEY)
    forge(shell, change)
    before = footprint(database_url)

    called = apply(shell, TENANTCRON_PLAN_KEY=KEY)

    assert (called.code, called.out) == (2, "")
    assert "edited or signed with another key" in called.err
    assert footprint(database_url) == before


def test_the_signature_of_a_plan_is_not_valid_for_another(shell: Shell, database_url: str) -> None:
    save(shell, TENANTCRON_PLAN_KEY=KEY)
    file = shell.folder / "reviewed.plan"
    signature = json.loads(file.read_text(encoding="utf-8"))["signature"]
    write(shell, "acme", 6)
    assert shell("plan", "acme.yaml", "--out", "reviewed.plan").code == 0
    other = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**other, "signature": signature}, indent=2), encoding="utf-8")

    assert apply(shell, TENANTCRON_PLAN_KEY=KEY).code == 2
    assert names(database_url, "acme") == list(numbered(2))


def test_without_a_key_the_policy_still_limits_a_forged_plan(
    shell: Shell, database_url: str
) -> None:
    save(shell)
    forge(shell, _often)
    before = footprint(database_url)

    called = apply(shell)

    assert called.code == 1
    (tenant,) = json.loads(called.out)["tenants"]
    assert {found["code"] for found in tenant["diagnostics"]} == {"TC302"}
    assert footprint(database_url) == before


def _in_a_loose_folder(plan: Plan) -> None:
    _often(plan)
    (entry,) = plan["tenants"]
    entry["file"] = "loose/acme.yaml"


def make_loose(shell: Shell) -> None:
    (shell.folder / "loose").mkdir()
    policy = '[policy]\nminimum_interval = "1s"\nmax_schedules_per_tenant = 1000\n'
    (shell.folder / "loose" / "tenantcron.toml").write_text(policy, encoding="utf-8")


def test_an_unsigned_plan_does_not_choose_its_policy_by_a_path(
    shell: Shell, database_url: str
) -> None:
    make_loose(shell)
    save(shell)
    forge(shell, _in_a_loose_folder)
    before = footprint(database_url)

    called = apply(shell)

    assert called.code == 1
    (tenant,) = json.loads(called.out)["tenants"]
    assert {found["code"] for found in tenant["diagnostics"]} == {"TC302"}
    assert footprint(database_url) == before


def test_a_signed_plan_is_checked_by_the_policy_nearest_to_its_manifest(
    shell: Shell, database_url: str
) -> None:
    make_loose(shell)
    text = manifest("acme", numbered(4, 'cron: "@every 1m"'))
    (shell.folder / "loose" / "acme.yaml").write_text(text, encoding="utf-8")
    key = {"TENANTCRON_PLAN_KEY": KEY}
    assert shell("plan", "loose", "--out", "reviewed.plan", **key).code == 0

    assert apply(shell, **key).code == 0
    assert names(database_url, "acme") == list(numbered(4))


def test_a_signed_plan_is_refused_after_another_apply(shell: Shell, database_url: str) -> None:
    save(shell, TENANTCRON_PLAN_KEY=KEY)
    assert apply(shell, TENANTCRON_PLAN_KEY=KEY).code == 0
    write(shell, "acme", 3)
    assert shell("apply-manifest", "acme.yaml").code == 0
    before = footprint(database_url)

    called = apply(shell, TENANTCRON_PLAN_KEY=KEY)

    assert called.code == 1
    (tenant,) = json.loads(called.out)["tenants"]
    assert tenant["error"]["code"] == "TC604"
    assert names(database_url, "acme") == list(numbered(3))
    assert footprint(database_url) == before
