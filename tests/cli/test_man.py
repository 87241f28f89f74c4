"""The manual pages: complete, and rendered by `man` without a warning."""

import os
import subprocess
from pathlib import Path

import pytest
from support.fleet import Shell
from support.typing_shells import require

from tenantcron.cli.exit_codes import EXIT_CODES
from tenantcron.cli.main import COMMANDS
from tenantcron.cli.shells.command_table import CommandEntry, load_commands
from tenantcron.core.settings import KEYS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pages = tmp_path_factory.mktemp("man") / "man1"
    called = Shell(pages.parent)("man", "man1")
    assert called.out == f"{len(COMMANDS) + 1} pages are in man1\n"
    return pages


def rendered(page: Path) -> str:
    """Return a page as a reader sees it, without spaces at the breaks; warnings fail."""
    shown = subprocess.run(
        [require("man"), "--warnings", "-l", page],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "MANWIDTH": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stderr == ""
    return " ".join(shown.stdout.split())


def option_names(command: CommandEntry) -> set[str]:
    inner = (option_names(action) for action in command["actions"].values())
    return {*command["options"], *command["actions"]}.union(*inner)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_a_command_has_all_its_actions_options_and_exit_codes(
    folder: Path, command: str
) -> None:
    text = rendered(folder / f"tenantcron-{command}.1")

    wanted = option_names(load_commands()[command]) - {"-h", "--help"}
    codes = EXIT_CODES[command]
    assert {name for name in wanted if f" {name} " not in f"{text} "} <= {"list", "show"}
    assert COMMANDS[command] in text
    for meaning in (codes.success, codes.failure, codes.misuse):
        assert meaning.replace("`", "") in text
    assert " EXAMPLES tenantcron " in text


def test_the_overview_has_all_commands_and_variables(folder: Path) -> None:
    text = rendered(folder / "tenantcron.1")

    assert [name for name in COMMANDS if f"tenantcron-{name}(1)" not in text] == []
    assert [key for key in KEYS if f"TENANTCRON_{key.upper()}" not in text] == []
    assert "FILES tenantcron.toml" in text


def test_a_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    called = Shell(tmp_path)("man", "file")
    assert (called.code, called.err) == (2, "error: file: cannot be written: File exists\n")
