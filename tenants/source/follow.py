"""Follow: the refresh of tenants on a replica. Replicas take turns.

A notification reaches all replicas at about the same time. Each waits a moment before it takes the
turn, so all of them have received it by the time the first refresh begins, and one refresh serves
all.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from uuid import UUID, uuid4

import structlog

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor
from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.schema_names import SchemaPattern
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenant_sources
from tenantcron.store.rows.tenant_sources import RefreshDue
from tenantcron.tenants.source.reading import SourceError, TenantSource
from tenantcron.tenants.source.refresh import Refresher, SourceRefresh, TurnLostError

log = structlog.get_logger(__name__)

_SHORTEST_DELAY, _RANDOM_DELAY = 0.2, 0.3
# How soon to try again while a refresh is in progress that began before the notification.
_AGAIN = 1.0


@dataclass(slots=True)
class Follower:
    """Refreshes the tenants whenever it is due and no other replica does."""

    database: Database
    source: TenantSource
    actor: Actor
    interval: timedelta
    max_age: timedelta
    pattern: SchemaPattern | None = None
    clock: Clock = database_clock
    random: Random = field(default_factory=Random)
    # Time of the newest notification that no refresh has served yet, by the loop's clock.
    _heard: float | None = None

    def hear(self) -> None:
        """Record a notification that the platform's tenants have changed."""
        self._heard = asyncio.get_running_loop().time()

    async def step(self) -> float:
        """Refresh if it is this replica's turn; return the seconds until the next try."""
        early = self._delay()
        if early > 0:
            return early
        heard, token = self._heard, uuid4()
        due = RefreshDue(self.interval, self._ago(heard))
        async with self.database.transaction() as connection:
            await tenant_sources.declare(connection, self.source.name, self.max_age, self.clock())
            is_ours = await tenant_sources.take_turn(connection, token, due, self.clock())
            is_served = is_ours or heard is None
            if not is_served and due.heard_ago is not None:
                is_served = await tenant_sources.has_begun_since(
                    connection, due.heard_ago, self.clock()
                )
        if is_ours:
            who = Attribution(self.actor, token)
            refresher = Refresher(self.database, self.source, who, self.pattern)
            await _refresh(refresher, token, self.clock)
        if is_served and self._heard == heard:
            self._heard = None
        return self._pace() if is_served else _AGAIN

    def _delay(self) -> float:
        if self._heard is None:
            return 0.0
        wait = _SHORTEST_DELAY + _RANDOM_DELAY * self.random.random()
        return self._heard + wait - asyncio.get_running_loop().time()

    def _ago(self, heard: float | None) -> timedelta | None:
        if heard is None:
            return None
        return timedelta(seconds=asyncio.get_running_loop().time() - heard)

    def _pace(self) -> float:
        """Return an interval with jitter, so that replicas share the refreshes."""
        return self.interval.total_seconds() * (1 + self.random.random() / 10)


async def _refresh(refresher: Refresher, token: UUID, clock: Clock) -> None:
    source = refresher.source.name
    try:
        done = await refresher.refresh(token, at=clock())
    except SourceError as error:
        log.error("tenant_source_failed", source=source, error=str(error))
    except TurnLostError:
        log.info("tenant_refresh_superseded", source=source)
    else:
        _report(source, done)


def _report(source: str, done: SourceRefresh) -> None:
    plan = done.plan
    if plan.held:
        log.error("tenants_held", source=source, tenants=len(plan.held), first=plan.held[0])
    for found in done.problems:
        log.warning("tenant_row_refused", tenant=found.tenant_id, problem=found.problem)
    if done.registered or plan.changes:
        log.info(
            "tenants_refreshed",
            source=source,
            registered=len(done.registered),
            changed=len(plan.changes),
        )
