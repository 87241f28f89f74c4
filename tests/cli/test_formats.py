"""Formats of diagnostics: text, JSON, GitHub annotations and SARIF."""

import json
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from support.cli import tenantcron

from tenantcron.cli.formats import text
from tenantcron.cli.formats.github import annotation
from tenantcron.cli.main import main
from tenantcron.cli.terminal import Palette
from tenantcron.manifests.diagnostics import Diagnostic, Problem, Span
from tenantcron.service.responses.diagnostics import as_json

SMALL = """\
version: "1.0"
sagas:
  - name: reconcile
    trigger:
      scheduled:
        cron: "*/14 * * * *"
        timezon: UTC
  - name: rollup
    trigger: "scheduled:rollup:0 2 13 * fri"
"""
SHOWN = """\
error[TC301] the shortest gap of `*/14 * * * *` is 4m; the platform requires at least 15m
 --> acme.yaml:6:15 (interval-below-floor)
  |
6 |         cron: "*/14 * * * *"
  |               ^^^^^^^^^^^^^^
  = help: `every: 15m` is the shortest interval allowed

error[TC101] `scheduled` has no key `timezon`
 --> acme.yaml:7:9 (unknown-key)
  |
7 |         timezon: UTC
  |         ^^^^^^^
  = help: did you mean `timezone`?

warning[TC204] `0 2 13 * fri` fires when the day of month or the weekday matches
 --> acme.yaml:9:14 (both-day-fields)
  |
9 |     trigger: "scheduled:rollup:0 2 13 * fri"
  |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: restrict only one of the two if both must match

1 manifest checked: 2 errors, 1 warning
"""


def small(folder: Path) -> Path:
    (folder / "acme.yaml").write_text(SMALL, encoding="utf-8")
    return folder


def test_text_shows_the_line_and_marks_the_place(tmp_path: Path) -> None:
    run = tenantcron("validate", "acme.yaml", cwd=small(tmp_path))
    assert run.stdout == SHOWN
    assert run.stderr == ""


@dataclass(frozen=True)
class Colour:
    """Variables that affect colours without a terminal, and their effect."""

    environment: dict[str, str]
    is_coloured: bool


@pytest.mark.parametrize(
    "case",
    [
        Colour({}, False),
        Colour({"FORCE_COLOR": "1"}, True),
        Colour({"FORCE_COLOR": ""}, False),
        Colour({"NO_COLOR": "1"}, False),
    ],
    ids=str,
)
def test_colours_are_for_terminals_unless_forced(tmp_path: Path, case: Colour) -> None:
    run = tenantcron("validate", "acme.yaml", cwd=small(tmp_path), env=case.environment)
    assert ("\x1b[1;31merror[TC301]\x1b[0m" in run.stdout) == case.is_coloured
    assert ("\x1b" in run.stdout) == case.is_coloured


class Terminal(StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_unless_they_are_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Palette(Terminal())("error", "x") == "\x1b[1;31mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Palette(Terminal())("error", "x") == "x"


@dataclass(frozen=True)
class Marked:
    """A line with a span of columns, and how it is shown in 40 columns of text."""

    name: str
    line: str
    columns: tuple[int, int]
    shown: str
    marker: str


MARKED = (
    Marked("plain", "name: reconcile", (7, 16), "name: reconcile", "      ^^^^^^^^^"),
    Marked("tabs", "\tname:\tx", (8, 9), "    name:    x", "             ^"),
    Marked("a tab inside", "a: b\tc", (4, 7), "a: b    c", "   ^^^^^^"),
    Marked("wide before", "請求: x", (5, 6), "請求: x", "      ^"),
    Marked("wide inside", "a: 請求書", (4, 7), "a: 請求書", "   ^^^^^^"),
    Marked("emoji", "🙂: x", (4, 5), "🙂: x", "    ^"),
    Marked("accents", "e\u0301: x", (5, 6), "e\u0301: x", "   ^"),
    Marked("nothing", "a:", (3, 3), "a:", "  ^"),
    Marked("beyond the end", "a:", (9, 12), "a:", "  ^"),
    Marked("escapes", "a: \x1b[31mred\x07", (4, 9), "a: \ufffd[31mred\ufffd", "   ^^^^^"),
    Marked("invisible", "a: \u202ex\u200b", (5, 6), "a: \ufffdx\ufffd", "    ^"),
    Marked(
        "long",
        "x" * 30 + "MARK" + "y" * 30,
        (31, 35),
        "x" * 20 + "MARK" + "y" * 16,
        " " * 20 + "^^^^",
    ),
    Marked("long at its start", "MARK" + "y" * 60, (1, 5), "MARK" + "y" * 36, "^^^^"),
    Marked("long all over", "a: " + "x" * 60, (4, 64), "a: " + "x" * 37, "   " + "^" * 37),
    Marked("long and wide", "書" * 30 + "MARK", (31, 35), "書" * 10 + "MARK", " " * 20 + "^^^^"),
)


def diagnostic(file: str, span: Span, message: str = "no", hint: str | None = None) -> Diagnostic:
    return Diagnostic(file, Problem("TC106", message, ("a",), span, hint))


@pytest.mark.parametrize("case", MARKED, ids=lambda case: case.name)
def test_the_marker_is_under_the_span(tmp_path: Path, case: Marked) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(case.line + "\n", encoding="utf-8")
    begin, end = case.columns
    found = diagnostic(str(file), Span(1, begin, 1, end))
    margin = len("1 | ")
    lines = list(text.render([found], Palette(StringIO()), 40 + margin))
    assert lines[3] == f"1 | {case.shown}"
    assert lines[4] == f"  | {case.marker}"


def test_a_place_of_several_lines_is_marked_to_the_end_of_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text("a: [1,\n  2]\n", encoding="utf-8")
    lines = list(text.render([diagnostic(str(file), Span(1, 4, 2, 5))], Palette(StringIO()), 80))
    assert lines[3:5] == ["1 | a: [1,", "  |    ^^^"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_the_loader_counts_them(tmp_path: Path, newline: str) -> None:
    file = tmp_path / "acme.yaml"
    lines = ["\ufeffa: '\u2028\x0b'", "version: 3", "sagas: []", ""]
    file.write_bytes(newline.join(lines).encode())
    run = tenantcron("validate", file)
    assert "2 | version: 3" in run.stdout


SECRET_LINES = {
    "a header": "headers: {X-Api-Key: hunter2hunter2}",
    "a quoted header": 'headers: {"X-Api-Key": "hunter2hunter2"}',
    "a header beside another mistake": "headers: {X-Api-Key: hunter2hunter2}, nonsense: 1",
    "a header of several lines": 'headers: {X-Api-Key: "hunter2\n          hunter2"}',
}


@pytest.mark.parametrize("line", SECRET_LINES.values(), ids=SECRET_LINES)
def test_no_excerpt_shows_a_value_that_looks_like_a_secret(tmp_path: Path, line: str) -> None:
    text = (
        "sagas:\n  - name: a\n    trigger: 'scheduled:a:0 2 * * *'\n"
        f"    target:\n      http: {{url: 'https://127.0.0.1/', {line}}}\n"
    )
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")

    shown = tenantcron("validate", "acme.yaml", cwd=tmp_path).stdout

    assert "TC407" in shown
    assert "X-Api-Key" in shown
    assert "hunter2" not in shown


def test_escapes_in_a_manifest_do_not_reach_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(
        'sagas:\n- {name: "\\e]0;owned\\a", trigger: "\\e[2J:x"}\n# \x1b[31m\n- \x1b[31mred: 1\n',
        encoding="utf-8",
    )
    for output in ("text", "github", "json"):
        run = tenantcron("validate", "--format", output, file)
        assert run.returncode == 1
        assert not {char for char in run.stdout if ord(char) < 32} - {"\n"}


def test_json_has_the_documented_keys(tmp_path: Path) -> None:
    run = tenantcron("validate", "--format", "json", "acme.yaml", cwd=small(tmp_path))
    report = json.loads(run.stdout)
    assert {key: report[key] for key in ("files", "errors", "warnings")} == {
        "files": 1,
        "errors": 2,
        "warnings": 1,
    }
    assert report["diagnostics"][0] == {
        "code": "TC301",
        "name": "interval-below-floor",
        "severity": "error",
        "file": "acme.yaml",
        "line": 6,
        "column": 15,
        "end_line": 6,
        "end_column": 29,
        "pointer": "/sagas/0/trigger/scheduled/cron",
        "message": "the shortest gap of `*/14 * * * *` is 4m; the platform requires at least 15m",
        "hint": "`every: 15m` is the shortest interval allowed",
    }


def test_json_of_a_sound_manifest_has_the_same_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "acme.yaml").write_text("sagas: []\n", encoding="utf-8")
    assert main(["validate", "--format", "json", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "files": 1,
        "errors": 0,
        "warnings": 0,
        "policies": [],
        "diagnostics": [],
    }


def test_a_hint_that_is_missing_is_null() -> None:
    assert as_json(diagnostic("a.yaml", Span(1, 2, 3, 4)))["hint"] is None


def test_github_gets_one_workflow_command_per_finding(tmp_path: Path) -> None:
    run = tenantcron("validate", "--format", "github", "acme.yaml", cwd=small(tmp_path))
    first, _, last = run.stdout.splitlines()
    assert first == (
        "::error title=TC301 interval-below-floor,file=acme.yaml,line=6,endLine=6,col=15,"
        "endColumn=29::the shortest gap of `*/14 * * * *` is 4m; the platform requires at least 15m"
        "%0A`every: 15m` is the shortest interval allowed"
    )
    assert last == (
        "::warning title=TC204 both-day-fields,file=acme.yaml,line=9,endLine=9,col=14,"
        "endColumn=45::`0 2 13 * fri` fires when the day of month or the weekday matches"
        "%0Arestrict only one of the two if both must match"
    )


def test_github_gets_its_own_marks_escaped() -> None:
    found = diagnostic("100%,a:b.yaml", Span(1, 2, 1, 4), "50% : , ::\r\nx", "a\nb")
    assert annotation(found) == (
        "::error title=TC106 invalid-value,file=100%25%2Ca%3Ab.yaml,line=1,endLine=1,col=2,"
        "endColumn=4::50%25 : , ::%0D%0Ax%0Aa%0Ab"
    )


def test_github_gets_no_columns_for_several_lines() -> None:
    assert annotation(diagnostic("a.yaml", Span(1, 2, 3, 4))) == (
        "::error title=TC106 invalid-value,file=a.yaml,line=1,endLine=3::no"
    )


def test_a_file_name_that_is_not_unicode_is_accepted(tmp_path: Path) -> None:
    folder = Path(str(tmp_path) + "/\udcff")
    folder.mkdir()
    (folder / "acme.yaml").write_text("sagas:\n", encoding="utf-8")
    for output in ("text", "github", "sarif"):
        run = tenantcron("validate", "--format", output, tmp_path)
        assert (run.returncode, run.stderr) == (1, "")
