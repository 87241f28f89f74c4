"""The output of an attempt: the last lines of its log, and the result of its handler.

Both belong to the context of the handler's task or thread. A log line of a handler goes to the log
of the process and, through `keep_line`, to the output of its attempt. Threads that a handler starts
are outside its context, unless it copies the context.

A result never decides how an attempt ends: the work is done, and a failed attempt would repeat it.
So a value that cannot be stored is logged and dropped.
"""

import json
from collections import deque
from contextvars import ContextVar
from threading import Lock
from typing import Final, NamedTuple

import structlog
from structlog.typing import EventDict, WrappedLogger

from tenantcron.core.values import has_nul
from tenantcron.targets.faults import storable
from tenantcron.targets.responses import redacted

LONGEST_LOG: Final = 64 * 1024
LONGEST_RESULT: Final = 16 * 1024
# Fields that the attempt has anyway.
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

# Shared by all outputs: a lock for each attempt costs more than contention does.
_lock: Final = Lock()

log = structlog.get_logger(__name__)


class LogLines(NamedTuple):
    """Consecutive lines of a log; positions are in characters, from the start of the attempt."""

    position: int
    end_position: int
    text: str
    # In bytes.
    size: int


class Output:
    """The output of one attempt; log lines may come from several threads."""

    __slots__ = ("_bytes", "_end", "_lines", "_was_cut", "result")

    def __init__(self) -> None:
        # JSON, ready to be stored.
        self.result: str | None = None
        # None until the first line: most attempts log nothing, and there are thousands per second.
        self._lines: deque[str] | None = None
        self._bytes = 0
        # How many characters were logged, including lines that were dropped.
        self._end = 0
        self._was_cut = False

    def add_line(self, line: str) -> None:
        """Add a line, and drop the oldest lines beyond the limit."""
        line = _fit(line)
        with _lock:
            if self._lines is None:
                self._lines = deque()
            self._lines.append(line)
            self._bytes += len(line.encode())
            self._end += len(line)
            while self._bytes > LONGEST_LOG:
                self._bytes -= len(self._lines.popleft().encode())
                self._was_cut = True

    @property
    def is_empty(self) -> bool:
        """Whether there is no output, as for most attempts."""
        return self.result is None and self._lines is None

    @property
    def log(self) -> str | None:
        """The last lines, oldest first; None if there are none."""
        with _lock:
            if self._lines is None:
                return None
            return (_CUT if self._was_cut else "") + "".join(self._lines)

    def lines_after(self, position: int, longest: int = LONGEST_LOG) -> LogLines | None:
        """Return the lines after a position, at most the last ones that fit; None: no such lines.

        They begin later than requested if earlier lines do not fit, or were dropped.
        """
        with _lock:
            if self._lines is None or self._end <= position:
                return None
            found, start, size = list[str](), self._end, 0
            for line in reversed(self._lines):
                length = len(line.encode())
                if start <= position or (found and size + length > longest):
                    break
                found.append(line)
                start -= len(line)
                size += length
            return LogLines(start, self._end, "".join(reversed(found)), size)


_current: ContextVar[Output | None] = ContextVar("tenantcron_output", default=None)


def collect_from_here() -> Output:
    """Collect the output of the current task or thread."""
    output = Output()
    _current.set(output)
    return output


def keep_result(value: object) -> None:
    """Store the result of a handler, if it is JSON and small."""
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
    """Store a result that is JSON already, if it is small."""
    output, size = _current.get(), len(text.encode())
    if size > LONGEST_RESULT:
        error = f"{size} bytes of JSON; at most {LONGEST_RESULT} are stored"
        log.warning("result_not_kept", error=error)
    elif output is not None:
        output.result = text


def keep_line(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Add an event to the output of its attempt: a structlog processor."""
    output = _current.get()
    if output is not None:
        explained = structlog.processors.format_exc_info(logger, method, dict(event))
        output.add_line(_line(method, explained))
    return event


def _as_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A backslash before `u0000` may be text itself, so only then all strings are read.
    if storable(text) != text or ("\\u0000" in text and has_nul(json.loads(text))):
        raise ValueError("text with NUL or an unpaired surrogate, which PostgreSQL cannot store")
    return text


def _line(level: str, event: EventDict) -> str:
    """Return an event as text, without the fields that the attempt has anyway."""
    fields = "".join(f" {name}={value}" for name, value in event.items() if name not in _KNOWN)
    traceback = f"\n{event['exception']}" if "exception" in event else ""
    text = redacted(storable(f"{level} {event.get('event', '')}{fields}{traceback}"), ())
    return text.rstrip("\n") + "\n"


def _fit(line: str) -> str:
    """Truncate a line that is longer than the log may be."""
    if len(line.encode()) <= LONGEST_LOG:
        return line
    return line.encode()[: LONGEST_LOG - len(_CUT.encode())].decode(errors="ignore") + _CUT
