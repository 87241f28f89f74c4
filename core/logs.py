"""Logs: events with fields, formatted for people on a terminal and as JSON lines elsewhere.

Only commands that log import this: importing structlog takes longer than a run of `validate`.
"""

import atexit
import logging
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from tenantcron.core.credentials import without_credentials
from tenantcron.core.log_lines import CAN_POLL, NonBlockingLines
from tenantcron.core.settings import LogFormat, Settings
from tenantcron.core.standard_logging import route_standard_logging

_FIRST: Final = ("timestamp", "level", "event")
# The fields that a reader looks for first, in this order.
_SUBJECT: Final = ("tenant", "schedule", "execution")
# Lists show the same length of an id, and every command accepts it.
_SHORT_ID: Final = 8


def configure_logs(settings: Settings, stream: TextIO, *more: Processor) -> None:
    """Write events to the stream from now on; `more` adds fields, such as the actor."""
    as_json = _format(settings, stream) is LogFormat.JSON
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            *more,
            structlog.processors.add_log_level,
            *(_json() if as_json else _console(stream)),
        ],
        # An event below the level costs one empty call.
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level.value),
        logger_factory=_loggers(stream),
        cache_logger_on_first_use=True,
    )
    route_standard_logging(logging.getLevelNamesMapping()[settings.log_level.value.upper()])


def _loggers(stream: TextIO) -> Callable[..., WrappedLogger]:
    """Return the factory of loggers that write to a stream and never wait for its reader."""
    try:
        descriptor = stream.fileno()
    except OSError:  # a stream in memory
        return structlog.WriteLoggerFactory(file=stream)
    if not CAN_POLL:
        return structlog.WriteLoggerFactory(file=stream)
    lines = NonBlockingLines(descriptor)
    atexit.register(lines.close)
    return lambda *_: lines


def _format(settings: Settings, stream: TextIO) -> LogFormat:
    if settings.log_format is not None:
        return settings.log_format
    return LogFormat.CONSOLE if stream.isatty() else LogFormat.JSON


def _json() -> Sequence[Processor]:
    return [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _without_credentials,
        _in_order,
        # Types that JSON lacks (ids, times) become text.
        structlog.processors.JSONRenderer(default=str),
    ]


def _console(stream: TextIO) -> Sequence[Processor]:
    return [
        structlog.processors.TimeStamper(fmt="%H:%M:%SZ", utc=True),
        _without_credentials,
        _for_people,
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(),
            sort_keys=False,
            # The default shows local variables, and with them passwords.
            exception_formatter=_plain_traceback,
        ),
    ]


def _without_credentials(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide passwords in URLs, also in the events of libraries and handlers."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = without_credentials(value)
        elif isinstance(value, Exception | list | tuple | dict) and key != "exc_info":
            # Replaced by its text only if there is something to hide.
            text = str(value)
            hidden = without_credentials(text)
            event[key] = value if hidden == text else hidden
    return event


def _plain_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    stream.write(without_credentials(text.getvalue()))


def _in_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put the fields of every event first, so that they line up."""
    return {**{key: event[key] for key in _FIRST}, **event}


def _for_people(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Begin with the subject of the event and drop repeated values: lines should fit a terminal."""
    short = {**{key: event[key] for key in _SUBJECT if key in event}, **event}
    if short.get("correlation_id") == short.get("execution"):
        short.pop("correlation_id", None)
    if short.get("saga") == short.get("schedule"):
        short.pop("saga", None)
    if "execution" in short:
        short["execution"] = str(short["execution"])[:_SHORT_ID]
    return short
