"""Refresh: sync the registered tenants with the source. Decision 27 has the protocol.

The caller has the turn. The comparison comes first, without a lock. The writes follow in
transactions that begin by locking the turn, so a refresh that lost it writes nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.actor.attribution import Attribution
from tenantcron.core.batches import batches
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import SchemaPattern
from tenantcron.store.connection.driver_errors import first_line
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import DatabaseAwayError, MissingRightsError
from tenantcron.store.rows import audit_records, tenant_sources, tenants
from tenantcron.store.rows.tenant_sources import Compared, SourceProblem, TenantChange
from tenantcron.store.schema import tenant_objects
from tenantcron.store.steps import claiming
from tenantcron.tenants.creation import create_tenant, create_tenant_on
from tenantcron.tenants.source.plan import PlannedTenantChange, SourcePlan, make_plan
from tenantcron.tenants.source.reading import SourceError, TenantSource
from tenantcron.tenants.source.rows import CheckedRow

# Each change is recorded and updates identities, so a fleet takes more than one transaction.
CHANGES_A_TRANSACTION = 1_000
# The turn is renewed after this many new tenants.
_TENANTS_A_TURN = 100


_CANNOT_RETURN = "its tables were dropped, so it cannot come back"


class TurnLostError(TenantcronError):
    """Another refresh has taken the turn; it does the rest."""

    def __init__(self) -> None:
        super().__init__("another refresh of the tenants has begun: it does the rest")


@dataclass(frozen=True, slots=True)
class SourceRefresh:
    """The result of a refresh."""

    plan: SourcePlan
    # The number of rows in the source.
    given: int
    registered: tuple[TenantId, ...]
    # All problems: of rows, and of tenants that could not be registered.
    problems: tuple[SourceProblem, ...]


@dataclass(frozen=True, slots=True)
class Refresher:
    """Syncs tenants with a source on behalf of an actor."""

    database: Database
    source: TenantSource
    who: Attribution
    # The schema names of tenants for which the source has none.
    pattern: SchemaPattern | None = None

    async def plan(self, max_missing: int | None = None) -> tuple[Compared, SourcePlan]:
        """Compare and plan; nothing is written."""
        compared = await self.source.compare(self.database)
        return compared, make_plan(compared, max_missing)

    async def refresh(
        self, token: UUID, max_missing: int | None = None, at: datetime | None = None
    ) -> SourceRefresh:
        """Sync with the source. If the source cannot be read, the turn ends as well."""
        try:
            compared, plan = await self.plan(max_missing)
        except SourceError as error:
            await self._end(token, [SourceProblem(tenant_sources.SOURCE_ITSELF, str(error))], at)
            raise
        returning = [change for change in plan.changes if change.is_return]
        await self._change(token, plan, compared, at)
        registered, problems = await self._register(token, plan.new, at)
        problems += await self._bring_back(returning)
        found = (*plan.problems, *problems)
        await self._end(token, found, at)
        return SourceRefresh(plan, compared.given, tuple(registered), found)

    async def _change(
        self, token: UUID, plan: SourcePlan, compared: Compared, at: datetime | None
    ) -> None:
        """Change registered tenants; the last transaction marks them as synced."""
        changes = [change for change in plan.changes if not change.is_return]
        *first, last = list(batches(changes, CHANGES_A_TRANSACTION)) or [[]]
        for some in first:
            async with self.database.transaction() as connection:
                await self._change_some(connection, token, some, at)
        async with self.database.transaction() as connection:
            await self._change_some(connection, token, last, at)
            was_stale = await tenant_sources.mark_refreshed(
                connection, compared, len(plan.held), at
            )
            if was_stale or changes:
                # Pending executions may start now.
                await claiming.notify(connection, claiming.LIMITS)

    async def _change_some(
        self,
        connection: AsyncConnection,
        token: UUID,
        changes: Sequence[PlannedTenantChange],
        at: datetime | None,
    ) -> None:
        if not await tenant_sources.renew_turn(connection, token, at):
            raise TurnLostError
        if not changes:
            return
        await audit_records.act(connection, self.who)
        ids = [change.after.id for change in changes]
        # Ordered by id, like all code that locks several tenants.
        await tenants.lock_many(connection, ids)
        now = at or await tenant_sources.moment(connection)
        changed = json.dumps([_as_json(change.after) for change in changes])
        await tenant_sources.change_tenants(connection, changed, ids, now)
        if any(change.ends_or_returns for change in changes):
            await tenants.announce(connection)

    async def _register(
        self, token: UUID, rows: Sequence[CheckedRow], at: datetime | None
    ) -> tuple[list[TenantId], list[SourceProblem]]:
        registered: list[TenantId] = []
        problems: list[SourceProblem] = []
        for some in batches(rows, _TENANTS_A_TURN):
            await self._renew(token, at)
            for row in some:
                try:
                    await self._create(row)
                except MissingRightsError as error:
                    # The same for all of them: they wait for a role with the rights.
                    waiting = rows[len(registered) + len(problems) :]
                    return registered, [*problems, *_waiting(waiting, error)]
                except DatabaseAwayError:
                    raise
                except (TenantcronError, DBAPIError) as error:
                    cause = error.orig if isinstance(error, DBAPIError) else error
                    problems.append(SourceProblem(row.id, f"not registered: {first_line(cause)}"))
                else:
                    registered.append(row.id)
        return registered, problems

    async def _create(self, row: CheckedRow) -> None:
        """Register one tenant; if it exists by now, the next refresh changes it."""
        async with self.database.transaction() as connection:
            await audit_records.act(connection, self.who)
            if row.schema_name is None:
                created = await create_tenant(connection, row.id, self.pattern)
            else:
                created = await create_tenant_on(connection, row.id, row.schema_name)
            if created is not None:
                await self._set(connection, _as_change(row))

    async def _bring_back(self, changes: Sequence[PlannedTenantChange]) -> list[SourceProblem]:
        """Resume deprovisioned tenants whose tables still exist; few, so one by one."""
        problems = []
        for change in changes:
            async with self.database.transaction() as connection:
                await audit_records.act(connection, self.who)
                row = await tenants.lock(connection, change.after.id)
                if row is None:
                    continue
                if await tenant_objects.has_tenant_tables(connection, row.schema_name):
                    await self._set(connection, change.after)
                    await tenants.announce(connection)
                else:
                    problems.append(SourceProblem(row.id, _CANNOT_RETURN))
        return problems

    async def _set(self, connection: AsyncConnection, change: TenantChange) -> None:
        now = await tenant_sources.moment(connection)
        changed = json.dumps([_as_json(change)])
        await tenant_sources.change_tenants(connection, changed, [change.id], now)

    async def _renew(self, token: UUID, at: datetime | None) -> None:
        async with self.database.transaction() as connection:
            if not await tenant_sources.renew_turn(connection, token, at):
                raise TurnLostError

    async def _end(
        self, token: UUID, problems: Sequence[SourceProblem], at: datetime | None
    ) -> None:
        async with self.database.transaction() as connection:
            if not await tenant_sources.end_turn(connection, token, problems, at):
                raise TurnLostError


def _waiting(rows: Sequence[CheckedRow], error: MissingRightsError) -> list[SourceProblem]:
    words = f"waits for a role that may create its tables: {first_line(error)}"
    return [SourceProblem(row.id, words) for row in rows]


def _as_change(row: CheckedRow) -> TenantChange:
    if row.status is None:
        raise ValueError("a row without a valid status registers no tenant")
    return TenantChange(
        row.id, row.status, row.status_reason, row.weight or 1, row.labels or {}, is_missing=False
    )


def _as_json(change: TenantChange) -> dict[str, object]:
    return {**asdict(change), "status": change.status.value, "labels": dict(change.labels)}
