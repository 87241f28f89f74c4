"""Shells in a terminal, with keys pressed by a test."""

import os
import pty
import select
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.patience import PATIENCE

# Set where the shells are required; elsewhere the tests are skipped without them.
REQUIRED = "SHELL_TESTS"
TAB = "\t"
_PROMPT = "READY>"


def require(program: str) -> str:
    """Return the path of a program, or skip the test."""
    found = shutil.which(program)
    if found is None:
        assert not os.environ.get(REQUIRED), f"{program} is missing: apt-get install {program}"
        pytest.skip(f"{program} is not installed")
    return found


@dataclass(frozen=True, slots=True)
class TypingShell:
    """An interactive shell."""

    terminal: int

    def enter(self, keys: str) -> str:
        """Type keys and Enter, and return what the shell prints until its next prompt."""
        os.write(self.terminal, f"{keys}\n".encode())
        return self.until_prompt()

    def until_prompt(self) -> str:
        """Return the output up to the next prompt."""
        output, deadline = "", time.monotonic() + PATIENCE
        while not output.endswith(_PROMPT):
            ready, _, _ = select.select([self.terminal], [], [], deadline - time.monotonic())
            assert ready, f"no prompt after: {output!r}"
            output += os.read(self.terminal, 65_536).decode(errors="replace")
        return output.removesuffix(_PROMPT)


@contextmanager
def typing_shell(
    command: list[str], setup: str, folder: Path, **variables: str
) -> Iterator[TypingShell]:
    """Start a shell in a terminal and run its set-up."""
    environment = {key: os.environ[key] for key in ("LANG", "PATH") if key in os.environ}
    environment |= {"HOME": str(folder), "TERM": "dumb", "PS1": "", **variables}
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)  # noqa: S606 -- a shell to test in
    try:
        shell = TypingShell(terminal)
        # Not in the words of the line: the terminal echoes them.
        os.write(terminal, f"{setup}; PS1='READY''>' PROMPT_COMMAND=\n".encode())
        shell.until_prompt()
        yield shell
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
