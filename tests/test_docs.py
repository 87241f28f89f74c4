"""The documentation is true: what it shows is what comes out, what it lists is what there is.

Some parts of the pages are made from the code, and a page is right if making it again changes
nothing. `python tests/test_docs.py` writes them anew; read the difference before it is committed.

- In a `console` block, what stands behind `$ tenantcron …` is that command's output, without blanks
  at the ends of lines. Commands run in a copy of `examples/`, on an embedded server of that folder,
  one after the other. `<!-- not run: reason -->` before a block leaves it as it is.
- `<!-- moves with the clock -->` before such a block: moments and distances (`in 3 h 20 min`) count
  from now, so they are those of the run that was looked at. All else must be what comes out, and
  where an output has a moment the page has one, too (`settled` is the rule).
- `<!-- moves with the clock; definitions cut -->`: and each `definition` of a JSON answer is shown
  as `{…}`.
- A block behind `<!-- file: NAME -->` is put into that copy under that name when its turn comes. A
  later block of the same name is the file after an edit.
- An `sql` block behind `<!-- by hand -->` is run on the embedded server, as its superuser.
- A table behind `<!-- fields: SCHEMA DEFINITION -->` lists the keys of one part of a JSON Schema.
- A table behind `<!-- checked: KIND -->` has questions on the left and computed answers on the
  right; `ANSWERS` has the kinds.
- A table behind `<!-- listed: KIND -->` has a row for each of what there is, and no other; `LISTS`
  has the kinds. Cells behind the listed ones are words for people, and must be there.
"""

import tempfile
from pathlib import Path

import pytest
from support.page_commands import examples, is_plain, put, refreshed, run, served, settled
from support.pages import BLOCK, PAGES, TABLE, each_page_with, pipeline_commands


def made_parts(page: Path) -> list[str]:
    """Return the parts of a page that are made from the code."""
    text = page.read_text(encoding="utf-8")
    tables = [match[0] for match in TABLE.finditer(text)]
    return tables + [match[0] for match in BLOCK.finditer(text) if match["language"] == "console"]


@pytest.fixture
def folder(run_folder: Path) -> Path:
    """A folder to be made, in which an embedded server can live, too."""
    return Path(tempfile.mkdtemp(dir=run_folder)) / "examples"


@each_page_with(made_parts)
def test_what_a_page_shows_is_what_comes_out(page: Path, folder: Path) -> None:
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


def test_moments_settle_and_nothing_else_does() -> None:
    shown = "  nightly  Tue 2026-12-01 02:00 GMT  2026-12-01 02:00  in 14 d 20 h\n"
    later = "  nightly  Thu 2027-07-01 02:00 BST  2027-07-01 01:00  in 5 min\n"
    assert settled(shown) == settled(later)
    assert settled('"at": "2026-12-01T02:00:00+00:00"') == settled(
        '"at": "2027-07-01T01:00:00.5+01:00"'
    )
    assert settled(shown) != settled(shown.replace("nightly", "weekly"))
    assert settled(shown) != settled(shown.replace("in 14 d 20 h", "paused"))
    assert (
        settled("0 2 1 * * in Europe/London, version 3") == "0 2 1 * * in Europe/London, version 3"
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
def test_a_shell_is_asked_wherever_it_would_make_something_of_a_command(
    command: str, plain: bool
) -> None:
    assert is_plain(command) is plain


def main() -> None:
    """Write every page anew."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch:
            page.write_text(refreshed(text, Path(scratch) / "examples"), encoding="utf-8")


if __name__ == "__main__":
    main()
