"""A saga that does nothing but note how late it was started."""

import atexit
import json
import os
import time
from pathlib import Path

from tenantcron import Execution, saga

# When each was due, and how late it was.
_lateness: list[tuple[float, float]] = []


@saga("noop")
async def noop(execution: Execution) -> None:
    """Do nothing; the machine's clock is the database's here."""
    due = execution.scheduled_for.timestamp()
    _lateness.append((due, time.time() - due))


@atexit.register
def _write() -> None:
    folder = os.environ.get("BENCH_LATENESS")
    if folder:
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(_lateness), encoding="utf-8")
