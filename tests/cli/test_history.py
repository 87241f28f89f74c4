"""`tenantcron history`."""

import json
from pathlib import Path

import pytest
from support.fleet import NIGHTLY, Called, Shell, manifest


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    shell = Shell(tmp_path, database_url)
    for timetable in (NIGHTLY, "cron: '0 3 * * *'"):
        text = manifest("acme", {"nightly": timetable, "weekly": "cron: '0 4 * * 1'"})
        (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
        assert shell("apply-manifest", ".", "--create-tenants", "--actor", "maria").code == 0
    pause = ("schedule", "pause", "acme/nightly", "--reason", "partner is down", "--actor", "joe")
    assert shell(*pause).code == 0
    assert shell("tenant", "suspend", "acme", "--reason", "unpaid", "--actor", "joe").code == 0
    return shell


def rows(called: Called) -> list[list[str]]:
    """Return the cells of the table, without the times."""
    assert (called.code, called.err) == (0, "")
    return [line.split("  ", 1)[1].split() for line in called.out.splitlines()[1:]]


def test_a_schedule_shows_its_changes_and_pauses_newest_first(shell: Shell) -> None:
    assert rows(shell("history", "acme/nightly")) == [
        ["pause", "acme/nightly", "pause:", "partner", "is", "down", "joe", "cli"],
        ["schedule", "nightly", "update:", "cron_expr", "maria", "cli"],
        ["schedule", "nightly", "create", "maria", "cli"],
    ]


@pytest.mark.parametrize("arguments", [("acme",), ("--tenant", "acme")])
def test_a_tenant_shows_all_its_changes(shell: Shell, arguments: tuple[str, ...]) -> None:
    shown = rows(shell("history", *arguments))

    assert shown[0][:2] == ["tenant", "acme"]
    assert {tuple(cells[:2]) for cells in shown} == {
        ("tenant", "acme"),
        ("pause", "acme/nightly"),
        ("schedule", "nightly"),
        ("schedule", "weekly"),
    }


def test_the_json_is_that_of_the_api_and_is_limited(shell: Shell) -> None:
    called = shell("history", "acme", "--limit", "2", "--format", "json")

    records = json.loads(called.out)["audit_records"]
    assert [record["entity_type"] for record in records] == ["tenant", "pause"]
    assert records[0]["changed_by"]["id"] == "joe"


def test_changes_before_since_are_not_shown(shell: Shell) -> None:
    for scope in ("acme", "acme/nightly"):
        assert shell("history", scope, "--since", "+1h").out == "no changes\n"


def test_a_deleted_schedule_still_has_its_history(shell: Shell) -> None:
    text = manifest("acme", {"weekly": "cron: '0 4 * * 1'"})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    assert shell("apply-manifest", ".", "--max-deletes", "5").code == 0

    assert ["schedule", "nightly", "delete"] in [
        cells[:3] for cells in rows(shell("history", "acme/nightly"))
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "name a tenant or a schedule"),
        (("acme/nightl",), 1, "did you mean `acme/nightly`?"),
        (("acm",), 1, "did you mean `acme`?"),
    ],
)
def test_an_unknown_tenant_or_schedule_is_an_error(
    shell: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    called = shell("history", *arguments)

    assert called.code == code
    assert words in called.err
