"""A saga that only records its lateness."""

import atexit
import json
import os
import time
from pathlib import Path

from tenantcron import Execution, saga

# Due time and lateness of each execution.
_lateness: list[tuple[float, float]] = []


@saga("noop")
async def noop(execution: Execution) -> None:
    """Do nothing; the machine clock equals the database clock here."""
    due = execution.scheduled_for.timestamp()
    _lateness.append((due, time.time() - due))


@atexit.register
def _write() -> None:
    folder = os.environ.get("BENCH_LATENESS")
    if folder:
        Path(folder, f"{os.getpid()}.json").write_text(json.dumps(_lateness), encoding="utf-8")
