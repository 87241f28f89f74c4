"""Exit codes that report to the supervisor why a scheduler stopped itself."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes after which the supervisor starts a new process."""

    # A handler blocked the event loop for two leases.
    LOOP_BLOCKED = 70
    # The process exceeded `max_memory` and has drained.
    OUT_OF_MEMORY = 75
