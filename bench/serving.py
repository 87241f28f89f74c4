"""The server that benchmarks run on."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenantcron.store.embedded import FOLDER, ServerUse


@contextmanager
def embedded_server() -> Iterator[Path]:
    """Keep one server running for all measurements; its start is not what is measured."""
    folder = Path(tempfile.mkdtemp(prefix="tenantcron-bench-"))
    use = ServerUse(folder / FOLDER)
    # Ended by another, a benchmark must not leave its server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        use.join()
        yield folder
    finally:
        use.leave()
        shutil.rmtree(folder, ignore_errors=True)
