"""Lines of a log that wait for nobody: a reader who stands still must not stop what is logged.

A pipe that nobody empties is full after a few hundred lines, and writing to it waits. So a line is
written only where there is room. Others are kept, in order, until the next line comes or the
process ends; beyond some thousand they are counted instead, and the log says how many it lost.
"""

import json
import os
import select
from collections import deque
from datetime import UTC, datetime
from threading import Lock
from typing import Final

# Windows cannot ask a pipe whether it has room.
CAN_ASK: Final = hasattr(select, "poll")
# What a pipe takes without waiting once it says that it has room.
_PIECE: Final = 4096 if not hasattr(select, "PIPE_BUF") else select.PIPE_BUF
KEPT: Final = 2_000
# How long the end of a process waits for a reader, in milliseconds.
_LAST_WAIT: Final = 500


class Lines:
    """Writes lines to a descriptor; structlog takes it for a logger."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._pieces: deque[bytes] = deque()
        self._lost = 0
        # Handlers that are plain functions log from threads of their own.
        self._one_at_a_time = Lock()

    def msg(self, line: str) -> None:
        """Write a line, or keep it for later."""
        with self._one_at_a_time:
            self._write_kept(0)
            self._keep(line)
            self._write_kept(0)

    debug = info = warning = error = critical = exception = fatal = msg

    def leave(self) -> None:
        """Write what is left, if somebody still reads."""
        with self._one_at_a_time:
            self._write_kept(_LAST_WAIT)

    def _keep(self, line: str) -> None:
        if len(self._pieces) >= KEPT:
            self._lost += 1
            return
        if self._lost:
            line = f"{self._told_loss()}\n{line}"
            self._lost = 0
        written = f"{line}\n".encode(errors="backslashreplace")
        self._pieces.extend(
            written[start : start + _PIECE] for start in range(0, len(written), _PIECE)
        )

    def _told_loss(self) -> str:
        """Return the line about lines; as an event of a logger it would come here again."""
        at = datetime.now(UTC).isoformat()
        told = {"timestamp": at, "level": "warning", "event": "log_lines_lost", "lines": self._lost}
        return json.dumps(told)

    def _write_kept(self, wait: int) -> None:
        while self._pieces and self._has_room(wait):
            piece = self._pieces.popleft()
            try:
                written = os.write(self._descriptor, piece)
            except BlockingIOError:  # somebody else made it a descriptor that does not wait
                written = 0
            except OSError:  # nobody reads any more, or the disk is full: the work goes on
                self._lost += 1
                continue
            if written < len(piece):
                self._pieces.appendleft(piece[written:])
                if not written:
                    return

    def _has_room(self, wait: int) -> bool:
        return any(event & ~select.POLLNVAL for _, event in self._poll.poll(wait))
