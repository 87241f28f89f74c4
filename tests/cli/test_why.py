"""`tenantcron why`."""

import json
from pathlib import Path

import pytest
from support.fleet import Shell, footprint, manifest

TASK = "019a9c1e-7d1c-7b3e-9f0a-3f2a9c1e5d77"


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    schedules = {"nightly": "cron: '0 2 * * *'", "off": "cron: '0 1 * * *', enabled: false"}
    (tmp_path / "acme.yaml").write_text(manifest("acme", schedules), encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    return shell


def test_the_main_reason_comes_first_and_nothing_is_changed(
    shell: Shell, database_url: str
) -> None:
    before = footprint(database_url)
    called = shell("why", "acme/off")
    assert (called.code, called.err) == (0, "")
    lines = called.out.splitlines()
    assert lines[0] == "`acme/off` is disabled in its manifest."
    assert lines[1].startswith("  = Set `enabled: true` and apply")
    assert "- No scheduler is running, so nothing fires or starts." in lines
    assert "- `acme/off` is declared, but no scheduler has picked it up yet." in lines
    assert footprint(database_url) == before


def test_the_json_has_the_answer_and_all_findings(shell: Shell) -> None:
    shell("schedule", "pause", "acme/nightly", "--reason", "odd \x1b[2J", "--actor", "maria")
    answer = json.loads(shell("why", "acme/nightly", "--format", "json").out)
    assert answer.keys() == {"tenant", "schedule", "answer", "findings"}
    assert (answer["tenant"], answer["schedule"]) == ("acme", "nightly")
    assert answer["answer"] == answer["findings"][0]["message"]
    assert "by maria" in answer["answer"]
    assert answer["findings"][0]["code"] == "paused"
    assert all(finding.keys() == {"code", "message", "hint"} for finding in answer["findings"])
    assert "\x1b" not in shell("why", "acme/nightly").out


@pytest.mark.parametrize(
    ("ref", "hint"),
    [
        ("acme/nigthly", "did you mean `acme/nightly`?"),
        ("acne/nightly", "did you mean `acme`?"),
        ("acme/something", "`tenantcron schedule list acme` lists all schedules"),
        (f"acme/{TASK}", "`tenantcron task list` shows tasks"),
    ],
)
def test_an_unknown_schedule_is_a_reason_and_exits_with_1(
    shell: Shell, ref: str, hint: str
) -> None:
    called = shell("why", ref)
    assert called.code == 1
    assert hint in called.out
    (finding,) = json.loads(shell("why", ref, "--format", "json").out)["findings"]
    assert (finding["code"], finding["hint"]) == ("unknown", hint)


@pytest.mark.parametrize("ref", ["acme", "Acme/nightly", "acme/", "acme/no such", TASK])
def test_wrong_usage_exits_with_2(shell: Shell, ref: str) -> None:
    assert shell("why", ref).code == 2
