"""The parts of `tenantcron dev` that need no process: lines of its log, and watched files."""

import json
import os
from pathlib import Path

from tenantcron.cli.development.children import OutputLine
from tenantcron.cli.development.event_lines import EventLines
from tenantcron.cli.development.project_files import Change, WatchedFiles


def event(name: str, level: str = "info", **fields: object) -> OutputLine:
    moment = "2026-11-18T03:00:00Z"
    text = json.dumps({"timestamp": moment, "level": level, "event": name, **fields})
    return OutputLine("scheduler", text)


def shown(output: OutputLine, lines: EventLines | None = None) -> str | None:
    line = (lines or EventLines()).line(output)
    return None if line is None else line.plain[10:]


def test_lines_show_outcomes_with_their_reason() -> None:
    subject = {"tenant": "acme", "schedule": "nightly", "execution": "x"}
    first = event("execution_retrying", "warning", **subject, attempt=1, reason="no route")
    second = event("execution_succeeded", **subject, attempt=2)
    assert shown(first) == "acme/nightly  failed, will be retried: no route"
    assert shown(second) == "acme/nightly  succeeded at attempt 2"


def test_lines_of_handlers_and_warnings_are_shown_and_the_rest_is_not() -> None:
    own = event("invoiced", tenant="acme", schedule="nightly", execution="x", saga="s", total=3)
    assert shown(own) == "acme/nightly  invoiced total=3"
    assert shown(event("step_failed", "error", error="gone")) == "scheduler  step_failed error=gone"
    assert shown(event("refreshed", provider="x")) is None
    assert shown(event("api_anonymous", "warning", hint="x")) is None
    printed = OutputLine("scheduler", "printed \x1b[2J text")
    assert shown(printed) == "scheduler  printed \N{REPLACEMENT CHARACTER}[2J text"


def test_the_summary_counts_outcomes() -> None:
    lines = EventLines()
    assert lines.summary() == "No execution has ended"
    for name in ("execution_succeeded", "execution_dead", "execution_succeeded"):
        shown(event(name, tenant="acme", schedule="nightly"), lines)
    assert lines.summary() == "Executions: 2 succeeded, 1 failed"


def test_an_edit_counts_when_the_files_look_the_same_twice(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    files = WatchedFiles(tmp_path, (tmp_path / "manifests",))
    assert files.changes() == set()

    (tmp_path / "manifests" / "acme.yaml").write_text("a")
    assert files.changes() == set()
    assert files.changes() == {Change.MANIFESTS}
    assert files.changes() == set()

    (tmp_path / "tenantcron.toml").write_text("a")
    (tmp_path / "handlers.py").write_text("a")
    files.changes()
    assert files.changes() == {Change.HANDLERS, Change.CONFIGURATION}

    os.utime(tmp_path / "handlers.py", (0, 0))
    files.changes()
    assert files.changes() == {Change.HANDLERS}


def test_files_of_other_projects_are_not_watched(tmp_path: Path) -> None:
    files = WatchedFiles(tmp_path, (tmp_path / "manifests",))
    for folder in (".git", "env", "node_modules", "__pycache__"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    files.changes()
    assert files.changes() == set()
