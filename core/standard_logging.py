"""The standard library's `logging`, routed into our log.

Libraries and handlers log there. Without routing, `info` records disappear and warnings appear as
plain text between the JSON lines. Each record becomes an event with the name of its logger. The
fields of the context, such as the execution, are added as to every event.
"""

import logging
from typing import Final

import structlog

log = structlog.get_logger(__name__)

# These loggers write an `info` per request: the scheduler's own calls would fill the log.
_CHATTY: Final = ("httpx", "httpcore")


class _Route(logging.Handler):
    """Passes records to structlog, which filters them by its own level."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record as an event."""
        fields = {"exc_info": record.exc_info} if record.exc_info else {}
        try:
            event = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not fit the format
            event = str(record.msg)
        level = max(record.levelno, logging.DEBUG)
        log.log(level, event, logger=record.name, **fields)


def forget_standard_logging() -> None:
    """Stop routing."""
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        if isinstance(handler, _Route):
            root.removeHandler(handler)


def route_standard_logging(level: int) -> None:
    """Route records of the standard library to structlog, from this level on."""
    forget_standard_logging()
    root = logging.getLogger()
    root.addHandler(_Route())
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
