"""Worker processes: when they are worth it, how they start, and how they end.

A process that is killed runs no code that could end its workers, and a worker that waits for work
does not notice. So each worker watches its parent, and ends with it. Signals that a terminal or a
service manager sends to all processes of a group are the parent's to handle: it ends the workers
when it has no more work for them.
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

# Copies of this process, of a small process that has the modules already, or fresh ones.
Method = Literal["fork", "forkserver", "spawn"]


def process_pool(
    method: Method, *, workers: int | None = None, niceness: int = 0, preload: Sequence[str] = ()
) -> ProcessPoolExecutor:
    """Return a pool whose processes start when there is work; None: as many as there are cores.

    `preload` names the modules that the process has which others are forked from.
    """
    context = get_context(method)
    if preload:
        context.set_forkserver_preload(list(preload))
    return ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(niceness,))


def forks_safely() -> bool:
    """Whether processes may begin as copies of this one, with everything imported already.

    A fork beside another thread, such as a progress bar's, can hang, and on macOS any can.
    """
    return sys.platform == "linux" and active_count() == 1


def _begin(niceness: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The work makes many objects and no cycles.
    collect_rarely(FLEET)
    if niceness:
        os.nice(niceness)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
