"""How a process that works through many manifests uses memory."""

import gc


def collect_rarely() -> None:
    """Look for cycles less often: they are few, looking costs a quarter."""
    gc.set_threshold(30_000, 20, 20)
