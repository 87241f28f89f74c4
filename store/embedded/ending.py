"""Exit a process immediately, without leaving an embedded server running.

A graceful shutdown closes everything in order. Two cases skip it: a second signal, and a shutdown
that takes too long. Both exit with `os._exit`, because threads and open requests could delay an
ordinary exit. Leases make this safe for executions. An embedded server would keep running, so it is
stopped first if this process is its last user.
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
    """Exit the process now."""
    # In its own thread: a signal handler may have interrupted code that holds locks.
    leaving = threading.Thread(target=leave_all, daemon=True)
    leaving.start()
    leaving.join(_LEAVE_SECONDS)
    os._exit(code)


def end_after(seconds: float) -> None:
    """Exit the process after this time, unless it has exited by then."""

    def force() -> None:
        log.error("stop_forced", seconds=seconds)
        end_at_once(TOOK_TOO_LONG)

    timer = threading.Timer(seconds, force)
    timer.daemon = True
    timer.start()
