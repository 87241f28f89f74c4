"""The log of a running attempt: prints each line once, and shows what was logged so far.

A server returns the last lines of the log and their position in it, so a poll finds the new ones by
their position. When the attempt has ended, its log has no position. If the start of that log is
missing, the last lines that were printed are searched for in it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import ExecutionDetailsResponse, RunningLogResponse

# As in stored logs: earlier lines are missing.
CUT: Final = "…"


class FollowedLog:
    """What was printed of the log of one attempt."""

    def __init__(self) -> None:
        # How many characters of the log precede the next line to print.
        self._end = 0
        # The last lines, at most as many as a log may have.
        self._lines: Sequence[str] = ()

    def more(self, running: RunningLogResponse) -> Iterator[str]:
        """Yield the new lines of the running attempt."""
        position, log = running["position"], running["log"]
        self._lines = log.splitlines()
        if position > self._end:
            yield CUT
        yield from log[max(self._end - position, 0) :].splitlines()
        self._end = max(self._end, position + len(log))

    def rest(self, log: str) -> Sequence[str]:
        """Return the lines of the complete log that were not printed yet."""
        lines = log.splitlines()
        if not self._end or lines[:1] != [CUT]:
            return log[self._end :].splitlines()
        return _after(self._lines, lines[1:])


def _after(printed: Sequence[str], lines: Sequence[str]) -> Sequence[str]:
    """Return the lines after those that were printed; the first ones may be missing."""
    for start in range(max(len(printed) - len(lines), 0), len(printed)):
        overlap = len(printed) - start
        if printed[start:] == lines[:overlap]:
            return lines[overlap:]
    return [CUT, *lines]


def print_running_log(execution: ExecutionDetailsResponse, console: Console) -> None:
    """Print what the running attempt has logged so far."""
    # A server of the release before does not return it.
    running = execution.get("running_log")
    if running is None:
        return
    console.print("      log so far:", style="dim")
    for line in FollowedLog().more(running):
        console.print(Text(visible(f"        | {line}".rstrip()), "dim"), soft_wrap=True)
