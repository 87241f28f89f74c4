"""How a scheduler that ends by itself reports why to its supervisor."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes after which a supervisor starts a new process."""

    # A handler blocked the event loop for two leases.
    LOOP_BLOCKED = 70
    # The process used more memory than `max_memory`, and has drained.
    OUT_OF_MEMORY = 75
