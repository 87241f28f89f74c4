"""Log output that never blocks: a stalled reader must not stop the process that logs.

A pipe that is not read fills up after a few hundred lines, and then a write blocks. So a line is
written only if the pipe has room. Other lines are buffered, in order, until the next line or the
end of the process. When the buffer is full, lines are dropped, and the log reports their number.
"""

import json
import os
import select
from collections import deque
from datetime import UTC, datetime
from threading import Lock
from typing import Final

# Windows has no poll.
CAN_POLL: Final = hasattr(select, "poll")
# A pipe that is ready for writing takes this many bytes without blocking.
_CHUNK: Final = 4096 if not hasattr(select, "PIPE_BUF") else select.PIPE_BUF
MAX_BUFFERED: Final = 2_000
# How long a process that ends waits for the reader, in milliseconds.
_FINAL_WAIT: Final = 500


class NonBlockingLines:
    """Writes lines to a file descriptor; structlog uses it as a logger."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._chunks: deque[bytes] = deque()
        self._lost = 0
        # Handlers that are plain functions log from their own threads.
        self._lock = Lock()

    def msg(self, line: str) -> None:
        """Write a line, or buffer it."""
        with self._lock:
            self._flush(0)
            self._buffer(line)
            self._flush(0)

    debug = info = warning = error = critical = exception = fatal = msg

    def close(self) -> None:
        """Write the buffered lines, if the reader still reads."""
        with self._lock:
            self._flush(_FINAL_WAIT)

    def _buffer(self, line: str) -> None:
        if len(self._chunks) >= MAX_BUFFERED:
            self._lost += 1
            return
        if self._lost:
            line = f"{self._loss_event()}\n{line}"
            self._lost = 0
        data = f"{line}\n".encode(errors="backslashreplace")
        self._chunks.extend(data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))

    def _loss_event(self) -> str:
        """Return the line that reports lost lines; logging it as an event would recurse."""
        at = datetime.now(UTC).isoformat()
        event = {"timestamp": at, "level": "warning", "event": "log_lines_lost"}
        return json.dumps({**event, "lines": self._lost})

    def _flush(self, wait: int) -> None:
        while self._chunks and self._has_room(wait):
            chunk = self._chunks.popleft()
            try:
                count = os.write(self._descriptor, chunk)
            except BlockingIOError:  # another process made the descriptor non-blocking
                count = 0
            except OSError:  # the reader is gone, or the disk is full: the process continues
                self._lost += 1
                continue
            if count < len(chunk):
                self._chunks.appendleft(chunk[count:])
                if not count:
                    return

    def _has_room(self, wait: int) -> bool:
        return any(event & ~select.POLLNVAL for _, event in self._poll.poll(wait))
