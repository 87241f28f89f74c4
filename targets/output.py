"""What an attempt leaves behind: the end of its log, and what its handler returned.

Both travel with the context of the handler's own task or thread. A log line of a handler reaches
the log of the process and, through `keep_line`, the output of the attempt that the line belongs to.
Threads that a handler starts are outside of its context, unless it copies the context itself.

A result never decides how an attempt ends. The work is done by then, and a failed attempt would do
it again. So a value that cannot be kept is reported in the log and dropped.
"""

import json
from collections import deque
from contextvars import ContextVar
from threading import Lock
from typing import Final

import structlog
from structlog.typing import EventDict, WrappedLogger

from tenantcron.targets.faults import storable
from tenantcron.targets.responses import redacted

LONGEST_LOG: Final = 64 * 1024
LONGEST_RESULT: Final = 16 * 1024
# Fields that the attempt itself has.
_KNOWN: Final = frozenset(
    {
        *(
            "event",
            "level",
            "timestamp",
            "exception",
            "tenant",
            "schedule",
            "saga",
            "execution",
            "attempt",
        ),
        *("correlation_id", "actor", "actor_id", "actor_type", "actor_source", "authenticated"),
        *("owner", "service", "worker"),
    }
)
_CUT: Final = "…\n"

# One for all outputs: a lock for each costs more than all that the others save.
_one_at_a_time: Final = Lock()

log = structlog.get_logger(__name__)


class Output:
    """Collects the output of one attempt; log lines may come from several threads."""

    __slots__ = ("_bytes", "_lines", "_was_cut", "result")

    def __init__(self) -> None:
        # JSON, ready to be stored.
        self.result: str | None = None
        # None until the first line: most attempts log nothing, and there are thousands a second.
        self._lines: deque[str] | None = None
        self._bytes = 0
        self._was_cut = False

    def add_line(self, line: str) -> None:
        """Keep a line, and drop the oldest ones beyond the limit."""
        line = _fit(line)
        with _one_at_a_time:
            if self._lines is None:
                self._lines = deque()
            self._lines.append(line)
            self._bytes += len(line.encode())
            while self._bytes > LONGEST_LOG:
                self._bytes -= len(self._lines.popleft().encode())
                self._was_cut = True

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to keep, as for most attempts."""
        return self.result is None and self._lines is None

    @property
    def log(self) -> str | None:
        """The last lines, oldest first; None if there are none."""
        with _one_at_a_time:
            if self._lines is None:
                return None
            return (_CUT if self._was_cut else "") + "".join(self._lines)


_current: ContextVar[Output | None] = ContextVar("tenantcron_output", default=None)


def collect_from_here() -> Output:
    """Collect the output of the task or thread whose context this is."""
    output = Output()
    _current.set(output)
    return output


def keep_result(value: object) -> None:
    """Keep what a handler returned, if it is JSON and small."""
    output = _current.get()
    if output is None or value is None:
        return
    try:
        text = _as_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        log.warning("result_not_kept", error=str(error), type=type(value).__name__)
        return
    keep_encoded_result(text)


def keep_encoded_result(text: str) -> None:
    """Keep a result that is JSON already, if it is small."""
    output, size = _current.get(), len(text.encode())
    if size > LONGEST_RESULT:
        error = f"{size} bytes of JSON; the most that is kept is {LONGEST_RESULT}"
        log.warning("result_not_kept", error=error)
    elif output is not None:
        output.result = text


def keep_line(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Add an event to the output of the attempt that it belongs to: a processor of structlog."""
    output = _current.get()
    if output is not None:
        explained = structlog.processors.format_exc_info(logger, method, dict(event))
        output.add_line(_line(method, explained))
    return event


def _as_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if storable(text) != text or "\\u0000" in text:
        raise ValueError("text with NUL or half of a surrogate pair, which PostgreSQL cannot store")
    return text


def _line(level: str, event: EventDict) -> str:
    """Return an event as text, without the fields that the attempt has anyway."""
    fields = "".join(f" {name}={value}" for name, value in event.items() if name not in _KNOWN)
    traceback = f"\n{event['exception']}" if "exception" in event else ""
    text = redacted(storable(f"{level} {event.get('event', '')}{fields}{traceback}"), ())
    return text.rstrip("\n") + "\n"


def _fit(line: str) -> str:
    """Cut a line that is longer than the log may be."""
    if len(line.encode()) <= LONGEST_LOG:
        return line
    return line.encode()[: LONGEST_LOG - len(_CUT.encode())].decode(errors="ignore") + _CUT
