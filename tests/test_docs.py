"""The generated parts of the documentation are current.

Some parts of the pages are generated from the code, and a page is right if regenerating it changes
nothing. `python tests/test_docs.py` regenerates all pages; review the difference before you commit
it.

- In a `console` block, the lines after `$ tenantcron …` are the output of that command, without
  trailing spaces. Commands run in a copy of `examples/`, on an embedded server of that folder, one
  after the other. `<!-- not run: reason -->` before a block skips it.
- `<!-- moves with the clock -->` before such a block: moments and distances (`in 3 h 20 min`)
  depend on the current time, so those of the last review are kept. Everything else must match, and
  the page must have a moment wherever the output has one (`without_times` is the rule).
- `<!-- moves with the clock; definitions cut -->`: in addition, each `definition` of a JSON
  response is shown as `{…}`.
- A block after `<!-- file: NAME -->` is written into that copy under that name in page order. A
  later block with the same name is the file after an edit.
- An `sql` block after `<!-- manually -->` runs on the embedded server, as its superuser.
- A table after `<!-- fields: SCHEMA DEFINITION -->` lists the keys of one part of a JSON Schema.
- A table after `<!-- checked: KIND -->` has inputs on the left and computed results on the right;
  `ANSWERS` has the kinds.
- A table after `<!-- listed: KIND -->` has exactly one row for each existing item; `LISTS` has the
  kinds. Cells after the listed ones are free text, and must not be empty.
"""

import tempfile
from pathlib import Path

import pytest
from support.page_commands import examples, is_plain, put, refreshed, run, served, without_times
from support.pages import BLOCK, PAGES, TABLE, each_page_with, pipeline_commands


def made_parts(page: Path) -> list[str]:
    """Return the generated parts of a page."""
    text = page.read_text(encoding="utf-8")
    tables = [match[0] for match in TABLE.finditer(text)]
    return tables + [match[0] for match in BLOCK.finditer(text) if match["language"] == "console"]


@pytest.fixture
def folder(run_folder: Path) -> Path:
    """A folder to be created, which can also hold an embedded server."""
    return Path(tempfile.mkdtemp(dir=run_folder)) / "examples"


@each_page_with(made_parts)
def test_generated_parts_of_a_page_are_current(page: Path, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert refreshed(text, folder) == text


@each_page_with(lambda page: list(pipeline_commands(page)))
def test_the_commands_in_pipelines_work(page: Path, folder: Path) -> None:
    text = page.read_text(encoding="utf-8")
    examples(folder)
    for match in BLOCK.finditer(text):
        put(match, folder)
    with served(pipeline_commands(page), folder):
        for command in pipeline_commands(page):
            done = run(command, folder)
            assert done.code == 0, f"{command}\n{done.text}"


def test_times_are_ignored_and_nothing_else_is() -> None:
    shown = "  nightly  Tue 2026-12-01 02:00 GMT  2026-12-01 02:00  in 14 d 20 h\n"
    later = "  nightly  Thu 2027-07-01 02:00 BST  2027-07-01 01:00  in 5 min\n"
    assert without_times(shown) == without_times(later)
    assert without_times('"at": "2026-12-01T02:00:00+00:00"') == without_times(
        '"at": "2027-07-01T01:00:00.5+01:00"'
    )
    assert without_times(shown) != without_times(shown.replace("nightly", "weekly"))
    assert without_times(shown) != without_times(shown.replace("in 14 d 20 h", "paused"))
    assert (
        without_times("0 2 1 * * in Europe/London, version 3")
        == "0 2 1 * * in Europe/London, version 3"
    )


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("tenantcron next '*/15 * * * *' --count 3", True),
        ('tenantcron schedule pause acme/nightly --reason "down | out"', True),
        ("tenantcron schema > manifest.schema.json", False),
        ("tenantcron validate manifests/*.yaml", False),
        ("tenantcron plan $FILES", False),
        ("TENANTCRON_SERVICE=x tenantcron health", False),
        ("tenantcron run --once", False),
    ],
)
def test_a_command_with_shell_syntax_runs_in_a_shell(command: str, plain: bool) -> None:
    assert is_plain(command) is plain


def main() -> None:
    """Regenerate every page."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch:
            page.write_text(refreshed(text, Path(scratch) / "examples"), encoding="utf-8")


if __name__ == "__main__":
    main()
