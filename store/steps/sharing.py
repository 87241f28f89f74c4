"""Shares: how tenants and priorities divide slots over time, when there are too few of them.

This concerns periods of scarcity only. A period begins when a claim leaves executions pending for
lack of slots, or pending executions of several priorities of one tenant. It ends when no claim has
done so for a minute. Otherwise nothing is written, and claims use the plain form of their
statement. A plain claim that leaves such executions pending is rolled back and repeated in the
other form.

**Between tenants.** A claim orders executions by round first: what a tenant runs, divided by its
weight. Within a round, the tenant with the least virtual time comes first. Virtual time is the
processing time of a tenant in the period, divided by its weight (start-time fair queuing).

1. A claim charges the least charge for each start, in `tenant_share`.
2. When an attempt ends, the transaction that ends it charges the rest of its time, in
   `tenant_usage`. Short attempts cost no additional write.
3. The next claim that starts an execution of the tenant divides what was charged since by the
   tenant's weight and adds it to the virtual time. So a changed weight applies from then on.
4. To compare tenants, a claim adds the time of their running executions so far, without storing it.
   Otherwise a tenant with a long execution would seem to have used nothing until it ends.
5. The period has a virtual time, too: the least one of the tenants with pending executions, as of
   the last claim. A tenant that had nothing pending begins there, so it saves up nothing.

**Between the priorities of a tenant.** Each start moves its priority forward by 12 divided by its
share, and the priority that would get least far is next (stride scheduling). `passes` has the
positions, relative to the last one. No clock is involved, so the shares also hold with one slot and
executions that take hours.

Each table has one writer. Claims write `share_period` and `tenant_share`, under their lock. The
ends of attempts write `tenant_usage`, in the order of tenants, and claims read it without a lock.
So a replica that stalls while it ends attempts blocks no claim, and there is no deadlock. The
charges of a transaction that is rolled back are rolled back with it.

`tests/support/sharing.py` has the same rules in Python. Tests compare the two.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.store.steps.statements import statement

# How long slots count as scarce after a claim had too few.
SCARCE_FOR: Final = timedelta(minutes=1)
# Every attempt counts at least this long. So only longer ones are charged when they end.
LEAST_CHARGE: Final = timedelta(milliseconds=125)
# The shares of the priorities, from critical to low.
SHARES: Final = (4, 3, 2, 1)
_SECOND: Final = timedelta(seconds=1)

_CHARGE = """
INSERT INTO tenantcron.tenant_usage AS u (tenant_id, since, seconds)
SELECT tenant_id, %(since)s, seconds
FROM unnest(%(tenant_ids)s::text[], %(seconds)s::float8[]) AS g (tenant_id, seconds)
ORDER BY tenant_id
ON CONFLICT (tenant_id) DO UPDATE
SET
    since = excluded.since,
    seconds = excluded.seconds + CASE WHEN u.since = excluded.since THEN u.seconds ELSE 0 END
"""


async def has_mixed(
    connection: AsyncConnection,
    tenant_ids: Collection[str],
    requires: Sequence[str],
    at: datetime | None,
) -> bool:
    """Whether one of the tenants has pending executions of lower priority than others it has."""
    parameters = {"tenant_ids": list(tenant_ids), "requires": list(requires), "at": at}
    found = await connection.exec_driver_sql(statement("mixed_priorities"), parameters)
    return bool(found.scalar_one())


class Started(Protocol):
    """An attempt that ends."""

    @property
    def tenant_id(self) -> str: ...
    @property
    def started_at(self) -> datetime: ...


async def charge(
    connection: AsyncConnection, ended: Iterable[Started], since: datetime, now: datetime
) -> None:
    """Charge attempts to their tenants, except for what the claim has charged."""
    charges: defaultdict[str, float] = defaultdict(float)
    for attempt in ended:
        took = now - max(attempt.started_at, since) - LEAST_CHARGE
        if took > timedelta(0):
            charges[attempt.tenant_id] += took / _SECOND
    if charges:
        parameters = {
            "since": since,
            "tenant_ids": list(charges),
            "seconds": list(charges.values()),
        }
        await connection.exec_driver_sql(_CHARGE, parameters)
