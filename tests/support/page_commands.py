"""The commands shown on pages: run them, and compare their output with the page."""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from support.fleet import call
from support.page_tables import made_table
from support.pages import BLOCK, ROOT, TABLE

from tenantcron.store.connection.database_urls import DatabaseTarget
from tenantcron.store.embedded.home import FOLDER
from tenantcron.store.embedded.server import ServerUse

# Every other command opens a database.
WITHOUT_DATABASE = {"init", "dev", "validate", "next", "explain", "schema"}
COMMAND = re.compile(r"^\$ (?P<command>tenantcron .*)$", re.MULTILINE)
MOVES = "moves with the clock"
CUT = "; definitions cut"
DEFINITION = re.compile(r'^( *)"definition": \{\n.*?^\1\}', re.MULTILINE | re.DOTALL)
MANUALLY = "manually"
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
SHELL = re.compile(r"[|&;<>$`*?\[~\\]")
# `Tue 2026-12-01 02:00 GMT`, `2026-12-01 02:00`, `2026-12-01T02:00:00+00:00`; `in 14 d 20 h`.
MOMENT = re.compile(
    r"(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?"
    r"(?: [A-Z]{3,4}\b|[+-]\d\d:\d\d)?"
)
DISTANCE = re.compile(r"\bin \d+ (?:d|h|min|s)\b(?: \d+ (?:h|min)\b)?")
# Variables that would make a command act for a pipeline, or on another database.
FOREIGN = ("TENANTCRON_", "GITHUB_", "GITLAB_", "CI_")


def refreshed(text: str, folder: Path) -> str:
    """Return a page with all generated parts regenerated."""
    examples(folder)
    text = TABLE.sub(made_table, text)
    with served(COMMAND.findall(text), folder) as database:
        return BLOCK.sub(lambda match: _block(match, folder, database), text)


def examples(folder: Path) -> None:
    """Create the folder in which the commands of a page run."""
    shutil.copytree(ROOT / "examples", folder)


@contextmanager
def served(commands: Iterable[str], folder: Path) -> Iterator[DatabaseTarget | None]:
    """Keep the folder's embedded server running between commands, if one of them needs it."""
    if all(command.split()[1] in WITHOUT_DATABASE for command in commands):
        yield None
        return
    use = ServerUse(folder / FOLDER)
    try:
        yield use.join()
    finally:
        use.leave()


@dataclass(frozen=True, slots=True)
class Output:
    """The exit code of a command, and both of its outputs combined."""

    code: int
    text: str


def run(command: str, folder: Path, variables: dict[str, str] | None = None) -> Output:
    """Run a command as a shell would; in this process if it needs no shell."""
    own_commands = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    environment = kept | {"PATH": own_commands, "NO_COLOR": "1", "COLUMNS": "100"}
    environment |= variables or {}
    if is_plain(command):
        both = io.StringIO()
        code = call(shlex.split(command)[1:], folder, environment, both, both)
        return Output(code, both.getvalue())
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return Output(done.returncode, done.stdout)


def is_plain(command: str) -> bool:
    """Whether a command is ours and contains nothing that a shell would interpret.

    A scheduler does not qualify: it configures the logging of its process.
    """
    bare = QUOTED.sub("''", command)
    program, action = bare.split()[:2]
    return program == "tenantcron" and action != "run" and not SHELL.search(bare)


def without_times(text: str) -> str:
    """Replace what depends on the clock: moments, and distances to them."""
    return DISTANCE.sub("in DISTANCE", MOMENT.sub("MOMENT", text))


def _block(match: re.Match[str], folder: Path, database: DatabaseTarget | None) -> str:
    """Process a block, and return it with its current output."""
    mark = match["mark"] or ""
    put(match, folder)
    if match["language"] == "sql" and mark == MANUALLY:
        assert database, "a page without database commands has no database to change"
        with psycopg.connect(make_conninfo(**database.parameters)) as connection:
            connection.execute(match["body"])
    if match["language"] != "console" or mark.startswith("not run: "):
        return match[0]
    shown = _outputs(match["body"], folder)
    if mark.endswith(CUT):
        shown = DEFINITION.sub(r'\1"definition": {…}', shown)
    if mark.startswith(MOVES) and without_times(shown) == without_times(match["body"]):
        return match[0]
    return match[0].replace(match["body"], shown)


def put(match: re.Match[str], folder: Path) -> None:
    """Write the file that a block shows."""
    if (match["mark"] or "").startswith("file: "):
        file = folder / match["mark"].removeprefix("file: ")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(match["body"], encoding="utf-8")


def _outputs(body: str, folder: Path) -> str:
    """Run the commands of a block and return it with their output."""
    commands = [line for line in body.splitlines() if line.startswith("$ ")]
    foreign = [command for command in commands if not command.startswith("$ tenantcron ")]
    assert commands, f"no command in a console block:\n{body}"
    assert not foreign, f"not a tenantcron command, so use a sh block: {foreign}"
    shown = (f"{command}\n{run(command[2:], folder).text}" for command in commands)
    return "".join(f"{line.rstrip()}\n" for text in shown for line in text.splitlines())
