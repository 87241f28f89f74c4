"""How a process that works through many manifests uses memory."""

import gc

# For a command that works through a fleet and ends.
FLEET = 200_000


def collect_rarely(objects: int = 30_000) -> None:
    """Look for cycles after so many new objects: they are few, and looking costs a quarter."""
    gc.set_threshold(objects, 20, 20)
