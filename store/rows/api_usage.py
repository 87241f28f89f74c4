"""Rows of `api_usage`: the requests of each caller in the current minute, over all processes.

One statement counts and returns the count, so that two processes never both use the last request.
Windows are full minutes of the database's clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection


@dataclass(frozen=True, slots=True)
class ApiUsage:
    """The requests of a caller in this window, including the current one, and when it ends."""

    requests: int
    seconds_left: int


def usage_of(requests: object, seconds_left: object) -> ApiUsage | None:
    """Return the usage from the columns of a count; None if nothing was counted."""
    if isinstance(requests, int) and isinstance(seconds_left, int):
        return ApiUsage(requests, seconds_left)
    return None


_COUNT = """
INSERT INTO tenantcron.api_usage AS usage (caller, window_start, requests)
VALUES (%(caller)s, date_trunc('minute', statement_timestamp()), 1)
ON CONFLICT (caller) DO UPDATE SET
    window_start = greatest(usage.window_start, excluded.window_start),
    requests = CASE
        WHEN usage.window_start >= excluded.window_start THEN usage.requests + 1 ELSE 1
    END
RETURNING
    requests,
    ceil(extract(epoch FROM window_start + interval '1 minute' - statement_timestamp()))::integer
        AS seconds_left
"""


# In the order of the callers, because two processes may count the same ones.
_COUNT_ALL = """
INSERT INTO tenantcron.api_usage AS usage (caller, window_start, requests)
SELECT caller, date_trunc('minute', statement_timestamp()), count(*)
FROM unnest(%(callers)s::text[]) AS given (caller)
GROUP BY caller
ORDER BY caller
ON CONFLICT (caller) DO UPDATE SET
    window_start = greatest(usage.window_start, excluded.window_start),
    requests = CASE
        WHEN usage.window_start >= excluded.window_start
        THEN usage.requests + excluded.requests ELSE excluded.requests
    END
RETURNING
    caller,
    requests,
    ceil(extract(epoch FROM window_start + interval '1 minute' - statement_timestamp()))::integer
        AS seconds_left
"""


_FORGET = "DELETE FROM tenantcron.api_usage WHERE window_start < now() - interval '1 hour'"


async def forget_old(connection: AsyncConnection) -> int:
    """Delete the counts of callers without requests for an hour; return how many."""
    return (await connection.exec_driver_sql(_FORGET)).rowcount


async def count(connection: AsyncConnection, caller: str) -> ApiUsage:
    """Count a request of a caller."""
    found = await connection.exec_driver_sql(_COUNT, {"caller": caller})
    row = found.one()
    return ApiUsage(row.requests, row.seconds_left)


async def count_all(connection: AsyncConnection, callers: Sequence[str]) -> dict[str, ApiUsage]:
    """Count requests of several callers, one for each time that a caller is listed."""
    found = await connection.exec_driver_sql(_COUNT_ALL, {"callers": list(callers)})
    return {caller: ApiUsage(requests, left) for caller, requests, left in map(tuple, found)}
