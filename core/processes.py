"""Worker processes: how they start and how they end.

A killed process cannot stop its workers, and a worker that waits for work does not notice. So each
worker watches its parent and exits with it. Workers ignore the signals that a terminal or a service
manager sends to a process group: the parent stops them when there is no more work.
"""

import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread, active_count
from typing import Literal

from tenantcron.core.memory import FLEET, collect_rarely

# Workers are copies of this process, copies of a small preloaded process, or new processes.
Method = Literal["fork", "forkserver", "spawn"]


def process_pool(
    method: Method, *, workers: int | None = None, niceness: int = 0, preload: Sequence[str] = ()
) -> ProcessPoolExecutor:
    """Return a pool that starts processes on demand; `workers` defaults to the number of cores.

    `preload` names the modules that the fork server imports.
    """
    context = get_context(method)
    if preload:
        context.set_forkserver_preload(list(preload))
    return ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(niceness,))


def forks_safely() -> bool:
    """Whether this process may fork workers, which then have all modules imported.

    A fork can hang if another thread runs, such as a progress bar's, and on macOS always.
    """
    return sys.platform == "linux" and active_count() == 1


def _begin(niceness: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The work creates many objects and no cycles.
    collect_rarely(FLEET)
    if niceness:
        os.nice(niceness)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
