"""The range of the limits that an operator sets for a tenant."""

from typing import Final

HIGHEST_LIMIT: Final = 100_000
HIGHEST_WEIGHT: Final = 100
# The weight of a tenant for which none is set.
DEFAULT_WEIGHT: Final = 1
# A tenant may have no schedules at all; one that may run nothing is suspended instead.
LIMIT_RANGES: Final = {
    "max_schedules": (0, HIGHEST_LIMIT),
    "max_concurrent": (1, HIGHEST_LIMIT),
    # Its share of scarce slots.
    "weight": (1, HIGHEST_WEIGHT),
}
