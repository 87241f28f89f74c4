"""The row of `tenant_source`: the turn of refreshes, and the age of the tenants' statuses.

Decision 27 has the protocol. One statement reads a source, compares it with the registered tenants
and returns only the differences.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    DateTime,
    delete,
    func,
    insert,
    literal,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.labels import Labels
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.store.connection import times
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.store.schema.tables import tenant, tenant_source, tenant_source_problem
from tenantcron.store.steps.statements import statement

# The platform notifies this channel when its registry has changed; only a hint.
TENANTS_CHANGED = "tenantcron_tenants"
# The tenant id of a problem of the source itself.
SOURCE_ITSELF = "*"
# Further problems are only counted.
PROBLEMS_KEPT = 100
# A refresh that was not renewed for this long is dead.
TURN = timedelta(minutes=1)
# Repeated notifications cause at most one refresh in this time.
_SHORTEST_INTERVAL = timedelta(seconds=1)

_source, _problem = tenant_source.c, tenant_source_problem.c


@dataclass(frozen=True, slots=True)
class SourceRow:
    """The state of the tenant source."""

    name: str
    max_age: timedelta
    columns: tuple[str, ...]
    # The registered tenants match the source as of this time.
    refreshed_at: datetime
    # Missing tenants that were left unchanged.
    held: int
    # How many problems the last refresh found.
    problems: int

    def is_stale(self, now: datetime) -> bool:
        """Whether the last read is so old that no execution starts."""
        return self.refreshed_at + self.max_age < now


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A problem with a row of the source, or with the source itself."""

    tenant_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class DifferingTenant:
    """A tenant that differs between the source and the registry."""

    given: JsonObject | None
    live: JsonObject | None
    # The source has more than one row with this id, or with this schema.
    is_twice: bool
    is_shared: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison."""

    at: datetime
    # The number of rows in the source, and of registered tenants that it managed before.
    given: int
    sourced: int
    columns: tuple[str, ...]
    differing: tuple[DifferingTenant, ...]


@dataclass(frozen=True, slots=True)
class TenantChange:
    """The new values of a sourced tenant."""

    id: TenantId
    status: TenantStatus
    status_reason: str | None
    weight: int
    labels: Labels
    is_missing: bool = False


_OF_QUERY = """
WITH given AS MATERIALIZED (
    SELECT pg_catalog.to_jsonb(source) AS document FROM (
{query}
) AS source
),
"""
_OF_ROWS = """
WITH given AS MATERIALIZED (
    SELECT document FROM pg_catalog.jsonb_array_elements(%(rows)s::jsonb) AS given (document)
),
"""


async def compare_query(connection: AsyncConnection, query: str) -> Compared:
    """Compare the rows of a query, which comes from the operator's settings.

    The transaction becomes read-only. The query has no parameters, so `%` has no special meaning.
    """
    await connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    found = await connection.exec_driver_sql(
        comparison(query), execution_options={"no_parameters": True}
    )
    return _compared(found.one())


def comparison(query: str) -> str:
    """Return the statement that compares the rows of a query with the registered tenants."""
    return _OF_QUERY.replace("{query}", query) + statement("compare_source")


async def compare_rows(connection: AsyncConnection, rows: str) -> Compared:
    """Compare rows from a JSON array of objects."""
    await connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    text = _OF_ROWS + statement("compare_source")
    return _compared((await connection.exec_driver_sql(text, {"rows": rows})).one())


def _compared(row: Sequence[object]) -> Compared:
    match tuple(row):
        case (datetime() as at, int(given), int(sourced), list(columns), list(differing)):
            return Compared(
                at,
                given,
                sourced,
                tuple(columns),
                tuple(DifferingTenant(*tenant) for tenant in differing),
            )
        case _:
            raise TypeError("the comparison returned unexpected columns")


async def read(connection: AsyncConnection) -> SourceRow | None:
    """Return the state of the source; None if there is no source."""
    columns = (
        *(_source.name, _source.max_age, _source.columns, _source.refreshed_at),
        *(_source.held, _source.problems),
    )
    row = (await connection.execute(select(*columns))).one_or_none()
    return None if row is None else SourceRow(**{**row._mapping, "columns": tuple(row.columns)})


async def first_problems(connection: AsyncConnection, limit: int) -> list[SourceProblem]:
    """Return the first problems of the last refresh."""
    statement = select(_problem.tenant_id, _problem.problem).order_by(_problem.place).limit(limit)
    return [SourceProblem(*row) for row in await connection.execute(statement)]


async def missing(connection: AsyncConnection, limit: int) -> tuple[int, tuple[TenantId, ...]]:
    """Count the tenants that are missing from the source, and return the first."""
    gone = tenant.c.missing_since.is_not(None)
    number = await connection.scalar(select(func.count()).select_from(tenant).where(gone))
    ids = await connection.scalars(
        select(tenant.c.id).where(gone).order_by(tenant.c.id).limit(limit)
    )
    return int(number or 0), tuple(TenantId(row) for row in ids)


async def declare(
    connection: AsyncConnection, name: str, max_age: timedelta, at: datetime | None
) -> None:
    """Record the current source; a new one counts as read now, so it is not stale immediately."""
    values = {"name": name, "max_age": max_age}
    insertion = upsert(tenant_source).values(**values, refreshed_at=_now(at))
    differs = (_source.name != name) | (_source.max_age != max_age)
    await connection.execute(
        insertion.on_conflict_do_update(index_elements=["only_row"], set_=values, where=differs)
    )


@dataclass(frozen=True, slots=True)
class RefreshDue:
    """When a refresh is due: after an interval, or because a notification arrived that long ago."""

    interval: timedelta
    heard_ago: timedelta | None = None


async def take_turn(
    connection: AsyncConnection, token: UUID, due: RefreshDue | None, at: datetime | None
) -> bool:
    """Take the turn if a refresh is due and none is in progress; without `due` always."""
    now = _now(at)
    values = {"token": token, "started_at": now, "renewed_at": now, "finished_at": None}
    statement = update(tenant_source).values(values).returning(_source.token)
    if due is not None:
        is_idle = _source.finished_at.is_not(None) | (_source.renewed_at < now - TURN)
        is_due = _source.started_at <= now - due.interval
        if due.heard_ago is not None:
            is_new = _source.started_at < now - due.heard_ago
            is_due |= is_new & (_source.started_at <= now - _SHORTEST_INTERVAL)
        statement = statement.where(_source.started_at.is_(None) | is_idle & is_due)
    return (await connection.execute(statement)).first() is not None


async def has_begun_since(connection: AsyncConnection, ago: timedelta, at: datetime | None) -> bool:
    """Whether a refresh has begun within that time, so that it sees everything committed before."""
    found = await connection.scalar(select(_source.started_at >= _now(at) - ago))
    return bool(found)


async def renew_turn(connection: AsyncConnection, token: UUID, at: datetime | None) -> bool:
    """Lock the turn until the transaction ends; False if another refresh has taken it."""
    statement = update(tenant_source).where(_source.token == token).values(renewed_at=_now(at))
    return (await connection.execute(statement)).rowcount == 1


_CHANGE = """
UPDATE tenantcron.tenant AS t
SET
    status = c.status,
    status_reason = c.status_reason,
    weight = c.weight,
    labels = c.labels,
    sourced = true,
    missing_since = CASE WHEN c.is_missing THEN coalesce(t.missing_since, %(now)s) END,
    -- The schedules of a deprovisioned tenant do not count.
    schedule_revision = t.schedule_revision
    + (t.status <> c.status AND 'deprovisioned' IN (t.status, c.status))::int,
    updated_at = %(now)s
FROM
    jsonb_to_recordset(%(changes)s::jsonb) AS c (
        id text, status text, status_reason text, weight smallint, labels jsonb, is_missing boolean
    )
-- The ids again, because the planner has no statistics about the rows of a function.
WHERE t.id = ANY(%(ids)s::text[]) AND t.id = c.id
"""


async def moment(connection: AsyncConnection) -> datetime:
    """Return the time of the database's clock."""
    return await times.moment(connection, None)


async def change_tenants(
    connection: AsyncConnection, changes: str, ids: Collection[TenantId], now: datetime
) -> None:
    """Change registered tenants with one statement; the changes are a JSON array."""
    parameters = {"changes": changes, "ids": list(ids), "now": now}
    await connection.exec_driver_sql(_CHANGE, parameters)


async def mark_refreshed(
    connection: AsyncConnection, compared: Compared, held: int, at: datetime | None
) -> bool:
    """Record that the tenants match the source; return whether it was stale before."""
    before = await read(connection)
    values: Mapping[str, object] = {
        "refreshed_at": compared.at if at is None else at,
        "columns": list(compared.columns),
        "held": held,
    }
    await connection.execute(update(tenant_source).values(**values))
    return before is not None and before.is_stale(compared.at if at is None else at)


async def end_turn(
    connection: AsyncConnection,
    token: UUID,
    problems: Sequence[SourceProblem],
    at: datetime | None,
) -> bool:
    """End the turn and record its problems; False if another refresh has the turn."""
    statement = (
        update(tenant_source)
        .where(_source.token == token)
        .values(finished_at=_now(at), problems=len(problems))
    )
    if (await connection.execute(statement)).rowcount != 1:
        return False
    rows = [
        {"place": place, "tenant_id": found.tenant_id, "problem": found.problem}
        for place, found in enumerate(problems[:PROBLEMS_KEPT])
    ]
    kept = select(_problem.place, _problem.tenant_id, _problem.problem).order_by(_problem.place)
    if [tuple(row) for row in await connection.execute(kept)] == [tuple(r.values()) for r in rows]:
        return True
    await connection.execute(delete(tenant_source_problem))
    if rows:
        await connection.execute(insert(tenant_source_problem), rows)
    return True


async def release(connection: AsyncConnection, tenant_id: TenantId) -> None:
    """Let the operator manage a tenant that is missing from the source, until it reappears."""
    values = {"sourced": False, "missing_since": None}
    await connection.execute(update(tenant).where(tenant.c.id == tenant_id).values(values))


async def detach(connection: AsyncConnection) -> int:
    """Remove the source; the operator manages its tenants from now on. Return how many."""
    await connection.execute(delete(tenant_source_problem))
    await connection.execute(delete(tenant_source))
    values = {"sourced": False, "missing_since": None, "updated_at": func.now()}
    released = update(tenant).where(tenant.c.sourced == true()).values(values)
    return (await connection.execute(released)).rowcount


def _now(at: datetime | None) -> ColumnElement[datetime]:
    """Return the time for a statement: the given one, else the database's clock."""
    kind: DateTime = DateTime(timezone=True)
    return func.statement_timestamp(type_=kind) if at is None else literal(at, kind)
