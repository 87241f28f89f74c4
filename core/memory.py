"""How a process that works on a whole fleet uses memory."""

import gc


def collect_rarely() -> None:
    """Look for cycles less often: a fleet is many objects and no cycles, looking costs a third."""
    gc.set_threshold(100_000, 50, 50)
