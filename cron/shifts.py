"""The sizes of the clock changes of a zone."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

_BEGIN = datetime(2000, 1, 1, tzinfo=UTC)
_STEP = timedelta(days=7)
# To 2038: from there on every zone repeats its last rule.
_STEPS = 38 * 366 // 7


@lru_cache(maxsize=1024)
def shifts(zone: ZoneInfo) -> frozenset[timedelta]:
    """Return the sizes of the zone's clock changes in this century; empty if there are none.

    Weekly samples are enough: clock changes are further apart, and only their size matters.
    """
    moments = (_BEGIN + _STEP * step for step in range(_STEPS))
    offsets = [moment.astimezone(zone).utcoffset() or timedelta(0) for moment in moments]
    return frozenset(abs(later - earlier) for earlier, later in pairwise(offsets)) - {timedelta(0)}
