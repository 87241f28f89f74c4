"""Changes in plans and job summaries are shown in the words of the manifest."""

from pathlib import Path

import pytest
from support.fleet import Shell, manifest

BEFORE = "monthly: {day: 1, at: '02:00'}, timezone: Europe/London"


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    shell = Shell(tmp_path, database_url)
    edit(shell, BEFORE)
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    return shell


def edit(shell: Shell, timetable: str) -> None:
    text = manifest("acme", {"billing": timetable})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")


CHANGES = {
    "monthly: {day: 1, at: '03:00'}, timezone: Europe/London": ["monthly.at: 02:00 → 03:00"],
    "monthly: {day: last, at: '03:00'}, timezone: UTC": [
        "monthly.day: 1 → last",
        "monthly.at: 02:00 → 03:00",
        "timezone: Europe/London → UTC",
    ],
    "cron: '0 3 1 * *', timezone: Europe/London": ["cron: 0 2 1 * * → 0 3 1 * *"],
    "daily: {at: '03:00'}, timezone: Europe/London": ["daily: 0 2 1 * * → 0 3 * * *"],
    f"{BEFORE}, starts: 2026-12-01": ["starts: nothing → 2026-12-01"],
    f"{BEFORE}, retry: {{max_attempts: 5}}, timeout: 90s": [
        "retry.max_attempts: 3 → 5",
        "timeout: 5m → 1m30s",
    ],
    f"{BEFORE}, enabled: false": ["enabled: true → false"],
    f"{BEFORE}, payload: {{text: 'a|b <i>*c*</i>'}}": [
        "payload.text: nothing → a|b <i>*c*</i>",
    ],
}


@pytest.mark.parametrize(("timetable", "lines"), CHANGES.items(), ids=str)
def test_a_plan_shows_before_and_after_of_each_key(
    shell: Shell, timetable: str, lines: list[str]
) -> None:
    edit(shell, timetable)
    page = shell.folder / "page.md"

    shown = shell("plan", "acme.yaml", GITHUB_STEP_SUMMARY=str(page)).out.splitlines()

    assert [line.strip() for line in shown if line.startswith("      ")] == lines
    summary = page.read_text(encoding="utf-8").splitlines()
    listed = [line.removeprefix("  - ") for line in summary if line.startswith("  - ")]
    assert [line.replace("\\", "") for line in listed] == lines


def test_values_are_escaped_for_markdown(shell: Shell) -> None:
    edit(shell, f"{BEFORE}, description: '<b>*x*</b>'")
    page = shell.folder / "page.md"

    shell("plan", "acme.yaml", GITHUB_STEP_SUMMARY=str(page))

    assert r"  - description: nothing → \<b\>\*x\*\</b\>" in page.read_text(encoding="utf-8")


def test_the_summary_shows_the_timetable_of_a_new_schedule(shell: Shell) -> None:
    text = manifest("acme", {"billing": BEFORE, "nightly": "daily: {at: '02:00'}"})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    page = shell.folder / "page.md"

    shell("plan", "acme.yaml", GITHUB_STEP_SUMMARY=str(page))

    line = r"- `+` create nightly: 0 2 \* \* \* in UTC, saga nightly"
    assert line in page.read_text(encoding="utf-8").splitlines()
