"""Processes of one session, and their resource usage."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_TIMEOUT = 20.0
# The file in which a peer records the seconds that submitting took.
SUBMITTED = "submitted"


@dataclass(frozen=True, slots=True)
class Session:
    """A process, its session, and its children: those of Postgres have their own sessions."""

    leader: int

    def seconds(self) -> float:
        """Return the CPU time of all, including those that have ended."""
        return sum(sum(map(int, stat[11:15])) for stat in self.members().values()) / _TICK

    def megabytes(self) -> float:
        """Return the memory of all; shared memory counts once."""
        return sum(map(_proportional, self.members())) / 1_024

    def members(self) -> dict[int, list[str]]:
        """Return the fields of `/proc/*/stat` after the name, which may contain spaces."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                stat = text.rpartition(")")[2].split()
                if str(self.leader) in {stat[1], stat[3]}:
                    found[int(folder.name)] = stat
        return found


def _proportional(pid: int) -> int:
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0


def start(
    command: Sequence[str | Path], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a process in a new session."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )


def stop(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask all processes to end; kill those that do not."""
    for process in started:
        process.send_signal(signal.SIGTERM)
    for process in started:
        try:
            process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
