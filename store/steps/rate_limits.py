"""Rate limits, the database side: how often the cluster calls a host.

An execution whose host has a rate limit requires `http:<host>` instead of `http`. No claim of other
executions reads it, so it neither holds a slot nor delays anything while it waits for the limit.
Each host has one more claim, of as many executions as may call the host now. Its transaction has
three steps, under the lock of all claims:

1. `take_turn` reads the calls that the host has left, and whose turn it is.
2. The claim (`claiming`) starts at most that many executions. All other limits apply as well.
3. `spend` records the number of calls. If anything fails, no execution starts and no call is spent.

The calls are counted by the generic cell rate algorithm: `spent_until` is the time until which the
calls are spent at the rate. A start moves it by the interval between two calls. It may be ahead of
the clock by the burst, so within any time span there are at most the calls of that span and of the
burst. The clock is the database's. There is no counter in a process, and the rows of the host are
the only state.

Tenants take turns: `last_tenant` is the last one whose turn is over. In each turn a tenant has as
many calls as its weight. So a tenant with a long queue delays another one by its turn only. If all
tenants with pending executions can have their turn at once, the claim shares the calls between
them, as it shares slots.

Which hosts have a limit is up to the policy of the replica. It sets the requirement when it fires.
If it claims an execution for a host with a limit in another way (triggered by an operator, fired
before the limit existed), it releases the execution with the right requirement. If no live replica
has the limit any more, `lift` removes the host from the requirement.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.rates import Rate
from tenantcron.core.requirements import limited_host
from tenantcron.schedules.execution_reasons import ReasonCode
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.locks import Lock, take_lock
from tenantcron.store.steps.claiming import MOST_VERDICTS, Claim, Skipped, skipped_rows
from tenantcron.store.steps.statements import statement

_MICROSECONDS: Final = 1_000_000
_MILLISECOND: Final = 0.001
# A process has no room for more.
_MOST_CALLS: Final = 1600

_SPEND = """
INSERT INTO tenantcron.rate_limit AS r (host, kind, spent_until, last_tenant, turn_calls)
VALUES (
    %(host)s, %(kind)s, %(spent_until)s::timestamptz + make_interval(secs => %(seconds)s::float8),
    %(last_tenant)s, %(turn_calls)s
)
ON CONFLICT (host, kind) DO UPDATE
SET
    spent_until = excluded.spent_until, last_tenant = excluded.last_tenant,
    turn_calls = excluded.turn_calls
"""
_LIFT = """
UPDATE tenantcron.execution_live AS e
SET requires = split_part(e.requires, ':', 1)
WHERE e.state <> 'RUNNING' AND e.requires = ANY(%(requires)s::text[])
"""
# Rows of hosts that have not been called for a day are as good as none.
_FORGET = """
DELETE FROM tenantcron.rate_limit WHERE spent_until < statement_timestamp() - interval '1 day'
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """The calls that may start now, and the tenants that may make them."""

    # The time that the calls are counted by. The claim uses it as well: if its starts were later
    # than their calls by varying milliseconds, a time span could contain more starts than calls.
    at: datetime
    calls: int
    spent_until: datetime
    # Whether the host was called in the last minute.
    is_busy: bool
    # The last tenant whose turn is over, and the calls that the next one has made in its turn.
    after: str
    turn_calls: int
    # The tenants whose turn it is now, the calls that they may make, and whether they are the last.
    tenants: int
    calls_of_tenants: int
    is_end: bool

    @property
    def considers_all(self) -> bool:
        """Whether all tenants with pending executions can have their turn at once."""
        return self.is_end and not self.after

    @property
    def batch(self) -> int:
        """The largest number of starts."""
        return self.calls if self.considers_all else min(self.calls, self.calls_of_tenants)

    def after_claim(self, claim: Claim) -> tuple[str, int]:
        """Return the last tenant whose turn is over, and the calls of the next one."""
        starts = len(claim.started)
        if self.calls_of_tenants > self.calls == starts:
            return self.after, self.turn_calls + starts
        return claim.last_tenant, 0


@dataclass(frozen=True, slots=True)
class LimitedPending:
    """Pending executions for one kind of target at a host, and seconds from now."""

    requires: str
    # Until the first one may start, apart from the limit.
    starts_in: float
    # Until when the calls of the host are spent; in the past if negative.
    spent_for: float

    def wait(self, rate: Rate) -> float:
        """Return the seconds until the next group of calls may start."""
        # As in rate_turn.sql: a later time does not count.
        spent_for = self.spent_for if self.spent_for <= rate.burst + _MILLISECOND else 0.0
        return max(self.starts_in, spent_for + rate.group - rate.burst, 0.0)


async def glance(
    database: Database, requires: Sequence[str], at: datetime | None
) -> list[LimitedPending]:
    """Return the requirements with pending executions, with one round trip; see `glances`."""
    parameters = {"requires": list(requires), "hosts": _hosts(requires), "at": at}
    rows = await database.glance(statement("rate_glance"), parameters)
    return [
        LimitedPending(str(required), _seconds(starts_in), _seconds(spent_for))
        for required, starts_in, spent_for in rows
    ]


def _seconds(microseconds: object) -> float:
    """Return the seconds; a host without a row has never been called."""
    return microseconds / _MICROSECONDS if isinstance(microseconds, int) else float("-inf")


async def take_turn(
    connection: AsyncConnection, required: str, rate: Rate, at: datetime | None
) -> Turn:
    """Read what may start now, and keep other replicas from claiming until the commit."""
    await take_lock(connection, Lock.CLAIM)
    kind, host = limited_host(required) or (required, "")
    parameters = {
        "at": at,
        "requires": required,
        "kind": kind,
        "host": host,
        "burst": rate.burst,
        "interval": rate.interval,
        "most": _MOST_CALLS,
    }
    row = (await connection.exec_driver_sql(statement("rate_turn"), parameters)).one()
    return Turn(**row._mapping)


async def spend(
    connection: AsyncConnection, required: str, rate: Rate, turn: Turn, claim: Claim
) -> None:
    """Record the calls of a turn, and where the next turn continues."""
    last_tenant, turn_calls = turn.after_claim(claim)
    if not claim.started and last_tenant == turn.after:
        return
    kind, host = limited_host(required) or (required, "")
    parameters = {
        "host": host,
        "kind": kind,
        "spent_until": turn.spent_until,
        "seconds": len(claim.started) * rate.interval,
        "last_tenant": last_tenant,
        "turn_calls": turn_calls,
    }
    await connection.exec_driver_sql(_SPEND, parameters)


async def end_late(
    connection: AsyncConnection, requires: Sequence[str], at: datetime | None
) -> tuple[Skipped, ...]:
    """End executions that may not wait any longer for the limit of their host."""
    parameters = {
        "requires": list(requires),
        "hosts": _hosts(requires),
        "rate_limit": ReasonCode.RATE_LIMIT.value,
        "most": MOST_VERDICTS,
        "at": at,
    }
    ended = await connection.exec_driver_sql(statement("skip_rate_limited"), parameters)
    return skipped_rows(ended)


async def lift(connection: AsyncConnection, requires: Collection[str]) -> int:
    """Remove the host from these requirements of pending executions; return how many."""
    return (await connection.exec_driver_sql(_LIFT, {"requires": list(requires)})).rowcount


async def forget_old(connection: AsyncConnection) -> None:
    """Delete the rows of hosts that are not called any more."""
    await connection.exec_driver_sql(_FORGET)


def _hosts(requires: Sequence[str]) -> list[str]:
    return [host for _, host in filter(None, map(limited_host, requires))]
