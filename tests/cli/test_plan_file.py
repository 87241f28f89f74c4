"""`plan --out` and `apply-manifest --plan`: apply exactly the reviewed plan, or nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from support.fleet import Called, Shell, footprint, manifest, names, numbered, query, schedules

from tenantcron.reconciler.document import checksum


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    shell = Shell(tmp_path, database_url)
    write(shell, "acme", 2)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    return shell


def write(shell: Shell, tenant: str, count: int) -> None:
    text = manifest(tenant, numbered(count))
    (shell.folder / f"{tenant}.yaml").write_text(text, encoding="utf-8")


def plan(shell: Shell, *options: str) -> None:
    assert shell("plan", ".", "--out", "reviewed.plan", *options).code == 0


def apply(shell: Shell, *options: str) -> Called:
    return shell("apply-manifest", "--plan", "reviewed.plan", *options)


def refusals(called: Called) -> list[tuple[str, str]]:
    tenants = json.loads(called.out)["tenants"]
    return [(tenant["tenant"], tenant["error"]["code"]) for tenant in tenants if "error" in tenant]


def test_the_reviewed_plan_is_applied_even_if_the_files_have_changed(
    shell: Shell, database_url: str
) -> None:
    write(shell, "acme", 4)
    plan(shell)
    write(shell, "acme", 9)

    called = apply(shell)

    assert called.code == 0
    assert names(database_url, "acme") == list(numbered(4))


def test_a_plan_with_another_json_layout_is_accepted(shell: Shell, database_url: str) -> None:
    write(shell, "acme", 4)
    write(shell, "beta", 1)
    plan(shell, "--create-tenants")
    file = shell.folder / "reviewed.plan"
    text = file.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2)
    file.write_text(json.dumps(json.loads(text)), encoding="utf-8")

    assert apply(shell).code == 0
    assert names(database_url, "acme") == list(numbered(4))
    assert names(database_url, "beta") == list(numbered(1))


def test_a_plan_that_is_applied_twice_is_refused(shell: Shell, database_url: str) -> None:
    write(shell, "acme", 4)
    plan(shell)
    apply(shell)
    before = footprint(database_url)

    called = apply(shell, "--format", "json")

    assert called.code == 1
    assert refusals(called) == [("acme", "TC604")]
    assert footprint(database_url) == before


@pytest.mark.parametrize("by", ["another apply", "a manual change"])
def test_a_plan_of_an_outdated_state_is_refused(shell: Shell, database_url: str, by: str) -> None:
    write(shell, "acme", 4)
    plan(shell)
    if by == "a manual change":
        query(database_url, "UPDATE {}.tenant_schedule SET enabled = false", "tenant_acme")
    else:
        write(shell, "acme", 3)
        assert shell("apply-manifest", "acme.yaml").code == 0
    before = footprint(database_url)

    called = apply(shell, "--format", "json")

    assert called.code == 1
    assert refusals(called) == [("acme", "TC604")]
    assert footprint(database_url) == before


def test_a_cap_that_was_lowered_since_applies(shell: Shell, database_url: str) -> None:
    write(shell, "acme", 4)
    plan(shell)
    assert shell("tenant", "set", "acme", "--max-schedules", "3").code == 0

    called = apply(shell, "--format", "json")

    assert called.code == 1
    assert refusals(called) == [("acme", "TC605")]
    assert names(database_url, "acme") == list(numbered(2))


def test_a_new_tenant_is_created_as_reviewed(shell: Shell, database_url: str) -> None:
    write(shell, "beta", 2)
    plan(shell, "--create-tenants")

    assert apply(shell).code == 0

    assert names(database_url, "beta") == list(numbered(2))


def test_a_tenant_that_was_created_since_is_refused(shell: Shell, database_url: str) -> None:
    write(shell, "beta", 2)
    plan(shell, "--create-tenants")
    assert shell("tenant", "create", "beta").code == 0

    called = apply(shell, "--format", "json")

    assert called.code == 1
    assert refusals(called) == [("beta", "TC604")]
    assert schedules(database_url, "beta") == []


def test_reviewed_deletes_need_no_new_permission(shell: Shell, database_url: str) -> None:
    write(shell, "acme", 12)
    assert shell("apply-manifest", "acme.yaml").code == 0
    write(shell, "acme", 0)
    plan(shell, "--max-deletes", "12")

    refused = apply(shell, "--max-deletes", "3", "--format", "json")
    assert refusals(refused) == [("acme", "TC603")]
    assert apply(shell).code == 0
    assert names(database_url, "acme") == []


def test_a_plan_with_failures_is_not_written(shell: Shell) -> None:
    write(shell, "beta", 2)

    called = shell("plan", ".", "--out", "reviewed.plan")

    assert called.code == 1
    assert not (shell.folder / "reviewed.plan").exists()


def test_a_path_that_cannot_be_written_is_a_usage_error(shell: Shell) -> None:
    called = shell("plan", ".", "--out", "no/such/folder/reviewed.plan")

    assert called.code == 2
    assert "the plan cannot be written" in called.err
    assert "Traceback" not in called.err


def edited(change: Callable[[dict[str, object]], None]) -> Callable[[str], str]:
    """Return a function that edits the plan inside a plan file."""

    def edit(text: str) -> str:
        saved = json.loads(text)
        change(saved["plan"])
        return json.dumps(saved)

    return edit


def _of_another_tenant(saved: dict[str, object]) -> None:
    tenants = saved["tenants"]
    assert isinstance(tenants, list)
    tenants[0]["tenant"] = "beta"


def _of_another_revision(saved: dict[str, object]) -> None:
    tenants = saved["tenants"]
    assert isinstance(tenants, list)
    tenants[0]["revision"] += 1


def _with_more_deletes(saved: dict[str, object]) -> None:
    saved["rules"] = {"create_tenants": True, "max_deletes": 1000}


def _with_other_times(text: str) -> str:
    return text.replace("0 2 * * *", "0 3 * * *")


BROKEN: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[:-40],
    "empty": lambda _: "",
    "not json": lambda _: "version: 1",
    "a list": lambda _: "[]",
    "another program's": lambda _: '{"format": "terraform", "plan": {}}',
    "of another version": lambda text: text.replace("tenantcron-plan/2", "tenantcron-plan/9"),
    "far too deep": lambda _: "[" * 100_000,
    "another timetable": _with_other_times,
    "another tenant": edited(_of_another_tenant),
    "another revision": edited(_of_another_revision),
    "other rules": edited(_with_more_deletes),
    "a tenant less": edited(lambda saved: saved.update(tenants=[])),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_not_a_plan_or_was_edited_is_a_usage_error_and_changes_nothing(
    shell: Shell, database_url: str, change: Callable[[str], str]
) -> None:
    write(shell, "acme", 4)
    plan(shell)
    file = shell.folder / "reviewed.plan"
    text = file.read_text(encoding="utf-8")
    assert change(text) != text
    file.write_text(change(text), encoding="utf-8")
    before = footprint(database_url)

    called = apply(shell)

    assert (called.code, called.out) == (2, "")
    assert called.err.startswith("error: reviewed.plan: ")
    assert len(called.err.splitlines()) == 1
    assert footprint(database_url) == before


def forge(shell: Shell, change: Callable[[dict[str, object]], None]) -> None:
    """Edit a plan and update its checksum."""
    file = shell.folder / "reviewed.plan"
    saved = json.loads(file.read_text(encoding="utf-8"))
    change(saved["plan"])
    saved["checksum"] = checksum(saved["plan"])
    file.write_text(json.dumps(saved), encoding="utf-8")


def _every_second(saved: dict[str, object]) -> None:
    (entry,) = cast("list[dict[str, str]]", saved["tenants"])
    entry["content"] = entry["content"].replace("0 2 * * *", "@every 1s")


def _many(saved: dict[str, object]) -> None:
    (entry,) = cast("list[dict[str, str]]", saved["tenants"])
    entry["content"] = manifest("acme", numbered(121))


def _other_schedules(saved: dict[str, object]) -> None:
    (entry,) = cast("list[dict[str, str]]", saved["tenants"])
    entry["content"] = manifest("acme", numbered(3))


FORGED = {
    "below the floor": (_every_second, "TC605"),
    "above the cap": (_many, "TC605"),
    "not what was reviewed": (_other_schedules, "TC604"),
}


@pytest.mark.parametrize(("change", "code"), FORGED.values(), ids=FORGED)
def test_a_computed_checksum_bypasses_neither_policy_nor_review(
    shell: Shell,
    database_url: str,
    change: Callable[[dict[str, object]], None],
    code: str,
) -> None:
    write(shell, "acme", 4)
    plan(shell)
    forge(shell, change)
    before = footprint(database_url)

    called = apply(shell, "--format", "json")

    assert called.code == 1
    assert refusals(called) == [("acme", code)]
    assert footprint(database_url) == before


INCOMPLETE: dict[str, Callable[[dict[str, object]], None]] = {
    "no rules": lambda saved: saved.update(rules=None),
    "no database": lambda saved: saved.__delitem__("database"),
    "an empty tenant": lambda saved: saved.update(tenants=[{}]),
    "a tenant of another kind": lambda saved: saved.update(tenants=["acme"]),
}


@pytest.mark.parametrize("change", INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_plan_with_a_computed_checksum_is_a_usage_error(
    shell: Shell, change: Callable[[dict[str, object]], None]
) -> None:
    write(shell, "acme", 4)
    plan(shell)
    forge(shell, change)

    called = apply(shell)

    assert (called.code, called.out) == (2, "")
    assert called.err.startswith("error: reviewed.plan: not a plan of this version")


def test_a_policy_that_was_tightened_since_applies(shell: Shell, database_url: str) -> None:
    write(shell, "acme", 4)
    plan(shell)
    (shell.folder / "tenantcron.toml").write_text('[policy]\nminimum_interval = "2d"\n')

    called = apply(shell, "--format", "json")

    assert refusals(called) == [("acme", "TC605")]
    assert names(database_url, "acme") == list(numbered(2))


def test_a_plan_of_another_database_is_refused(
    shell: Shell, empty_database_url: str, tmp_path: Path
) -> None:
    write(shell, "acme", 4)
    plan(shell)
    other = Shell(tmp_path, empty_database_url)
    assert other("migrate").code == 0
    before = footprint(empty_database_url)

    called = other("apply-manifest", "--plan", "reviewed.plan", "--create-tenants")

    assert called.code == 2
    assert called.err == (
        "error: reviewed.plan: the plan was made from another database; plan again\n"
    )
    assert footprint(empty_database_url) == before


def test_a_missing_or_binary_plan_is_a_usage_error(shell: Shell) -> None:
    assert apply(shell).code == 2
    (shell.folder / "reviewed.plan").write_bytes(b"\xff\xfe\x00")

    called = apply(shell)

    assert called.code == 2
    assert called.err.startswith("error: reviewed.plan: not a plan of this version")


def test_manifests_and_a_plan_together_or_neither_is_a_usage_error(shell: Shell) -> None:
    plan(shell)

    assert apply(shell, "acme.yaml").code == 2
    neither = shell("apply-manifest")
    assert neither.code == 2
    assert "give either the manifests to apply or a plan" in neither.err


KEY, OTHER_KEY = "11" * 31 + "12", "21" * 31 + "22"


def save_signed(shell: Shell) -> Path:
    write(shell, "acme", 4)
    assert shell("plan", ".", "--out", "reviewed.plan", TENANTCRON_PLAN_KEY=KEY).code == 0
    return shell.folder / "reviewed.plan"


def apply_with(shell: Shell, key: str) -> Called:
    return shell("apply-manifest", "--plan", "reviewed.plan", TENANTCRON_PLAN_KEY=key)


@pytest.mark.parametrize("keys", [KEY, f"{OTHER_KEY},{KEY}"], ids=["its key", "a replaced key"])
def test_a_signed_plan_is_applied_by_a_pipeline_that_has_the_key(
    shell: Shell, database_url: str, keys: str
) -> None:
    save_signed(shell)

    assert apply_with(shell, keys).code == 0

    assert names(database_url, "acme") == list(numbered(4))


def test_a_key_in_a_file_signs_too(shell: Shell, database_url: str) -> None:
    (shell.folder / "key").write_text(KEY, encoding="utf-8")
    write(shell, "acme", 4)
    with_key = {"TENANTCRON_PLAN_KEY_FILE": str(shell.folder / "key")}
    assert shell("plan", ".", "--out", "reviewed.plan", **with_key).code == 0

    assert apply_with(shell, KEY).code == 0
    assert names(database_url, "acme") == list(numbered(4))


def test_an_unsigned_plan_is_refused_where_a_key_is_set(shell: Shell, database_url: str) -> None:
    write(shell, "acme", 4)
    plan(shell)
    before = footprint(database_url)

    called = apply_with(shell, KEY)

    assert (called.code, "is not signed" in called.err) == (2, True)
    assert footprint(database_url) == before


def test_a_plan_signed_with_another_key_is_refused(shell: Shell, database_url: str) -> None:
    save_signed(shell)
    before = footprint(database_url)

    called = apply_with(shell, OTHER_KEY)

    assert (called.code, "signed with another key" in called.err) == (2, True)
    assert footprint(database_url) == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rules", {"create_tenants": True, "max_deletes": 100}),
        ("database", "another"),
        ("tenants", []),
    ],
)
def test_a_signed_plan_cannot_be_edited_even_with_a_computed_checksum(
    shell: Shell, database_url: str, key: str, value: object
) -> None:
    file = save_signed(shell)
    saved = json.loads(file.read_text(encoding="utf-8"))
    saved["plan"][key] = value
    saved["checksum"] = checksum(saved["plan"])
    file.write_text(json.dumps(saved, indent=2), encoding="utf-8")
    before = footprint(database_url)

    called = apply_with(shell, KEY)

    assert (called.code, "signed with another key" in called.err) == (2, True)
    assert footprint(database_url) == before


def test_an_invalid_plan_key_is_a_usage_error_and_is_not_shown(shell: Shell) -> None:
    called = shell("plan", ".", "--out", "reviewed.plan", TENANTCRON_PLAN_KEY="hunter2")

    assert (called.code, "TENANTCRON_PLAN_KEY" in called.err) == (2, True)
    assert "hunter2" not in called.out + called.err
