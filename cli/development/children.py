"""The processes of `tenantcron dev`: a scheduler and a server, whose output it shows.

Each has its own process group: Ctrl-C in the terminal reaches `dev` only, which then asks them to
stop, exactly once. `lifeline` ends them if `dev` is killed.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line that a child has printed."""

    source: str
    text: str


@dataclass(slots=True)
class ChildProcess:
    """A command that runs until it is stopped, and can be started again."""

    name: str
    command: Sequence[str]
    folder: Path
    variables: Mapping[str, str]
    lines: "SimpleQueue[OutputLine]"
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _readers: list[threading.Thread] = field(default_factory=list, init=False)

    def start(self) -> None:
        """Start the command."""
        self._process = subprocess.Popen(  # noqa: S603 -- our own command
            [sys.executable, "-m", "tenantcron.cli.development.lifeline", *self.command],
            cwd=self.folder,
            env={**os.environ, **self.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def exit_code(self) -> int | None:
        """Return the exit code of a command that has ended by itself."""
        return None if self._process is None else self._process.poll()

    def request_stop(self) -> None:
        """Ask the command to stop; a second request stops it at once."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def finish(self) -> None:
        """Wait for the end of the command and of its output."""
        if self._process is None:
            return
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._process = None

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.lines.put(OutputLine(self.name, line.decode(errors="replace").rstrip()))
