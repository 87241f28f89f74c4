"""Ending a process that cannot wait any longer, without leaving an embedded server behind.

An orderly stop closes everything in turn. Two cases skip that: a second signal, and a stop that
takes longer than it may. Both end the process with `os._exit`, because threads and open requests
could hold up an ordinary exit. Leases make that safe for executions. An embedded server would keep
running, so it is stopped first if this process is its last user.
"""

import os
import threading
from typing import Final, NoReturn

import structlog

from tenantcron.store.embedded.server import leave_all

STOPPED_AT_ONCE: Final = 130
TOOK_TOO_LONG: Final = 1
# For stopping an embedded server.
_LEAVE_SECONDS: Final = 10.0

log = structlog.get_logger(__name__)


def end_at_once(code: int = STOPPED_AT_ONCE) -> NoReturn:
    """End the process now."""
    # In its own thread: a signal handler may have interrupted code that holds locks.
    leaving = threading.Thread(target=leave_all, daemon=True)
    leaving.start()
    leaving.join(_LEAVE_SECONDS)
    os._exit(code)


def end_after(seconds: float) -> None:
    """End the process after that time, unless it has ended by itself."""

    def force() -> None:
        log.error("stop_forced", seconds=seconds)
        end_at_once(TOOK_TOO_LONG)

    timer = threading.Timer(seconds, force)
    timer.daemon = True
    timer.start()
