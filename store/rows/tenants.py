"""Rows of `tenant`. The tenant registry writes them; apply locks one and increments its revision.

A provider writes two columns: the revision that the cursors reflect, and why they cannot.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import TypedDict

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Row,
    Select,
    Text,
    bindparam,
    cast,
    column,
    exists,
    func,
    literal,
    or_,
    select,
    table,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.errors import TenantcronError
from tenantcron.core.labels import LabelFilter, Labels
from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import SchemaName
from tenantcron.core.tenant_limits import DEFAULT_WEIGHT
from tenantcron.store.schema.tables import limits as limits_row
from tenantcron.store.schema.tables import tenant, tenant_label

# Schedulers listen on this channel for tenants with changed schedules; only a hint.
SCHEDULES_CHANGED = "tenantcron_schedules"


class TenantStatus(StrEnum):
    """The status of a tenant."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DEPROVISIONED = "deprovisioned"


class TenantLimits(TypedDict, total=False):
    """A tenant's own limits; None restores the platform's default."""

    max_schedules: int | None
    max_concurrent: int | None
    weight: int | None
    # Quotas by name; others do not change.
    quotas: Mapping[str, int | None]


# No index finds a part of an id, so a search is limited to this many tenants.
MOST_SEARCHED = 100_000


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant."""

    id: TenantId
    schema_name: str
    status: TenantStatus
    status_reason: str | None
    max_schedules: int | None
    max_concurrent: int | None
    weight: int
    schedule_revision: int
    synced_revision: int
    sync_fault: str | None
    labels: Labels
    # The tenant source manages it.
    sourced: bool
    # Since when the source does not contain it.
    missing_since: datetime | None
    created_at: datetime
    updated_at: datetime
    # Whether the schema existed before the tenant.
    schema_adopted: bool = False
    # An operator's quotas by name; they take precedence over those of the policy.
    quotas: Mapping[str, int] = field(default_factory=dict)


class SchemaTakenError(TenantcronError):
    """The schema belongs to another tenant."""


_SCHEMAS = table("pg_namespace", column("nspname"), schema="pg_catalog")


def _declared_weight(tenant_id: ColumnElement[str]) -> ColumnElement[int]:
    """Return the weight that the schedulers' policy has for a tenant."""
    found = select(
        cast(func.jsonb_extract_path_text(limits_row.c.tenant_weights, tenant_id), Integer)
    )
    return func.coalesce(found.scalar_subquery(), DEFAULT_WEIGHT)


# Statements that a fleet repeats are built once.
_ADD = (
    insert(tenant)
    .values(
        id=bindparam("id"),
        schema_name=bindparam("schema_name"),
        # In the same statement, which saves a round trip per tenant.
        weight=_declared_weight(bindparam("id")),
        schema_adopted=exists().where(_SCHEMAS.c.nspname == bindparam("schema")),
        created_at=func.now(),
        updated_at=func.now(),
    )
    .on_conflict_do_nothing()
    .returning(tenant)
)
_OWNER = select(tenant.c.id).where(tenant.c.schema_name == bindparam("schema"))


async def add(
    connection: AsyncConnection, tenant_id: TenantId, schema: SchemaName
) -> TenantRow | None:
    """Insert a tenant; None if it exists: a duplicate is an outcome, not an error.

    `schema_adopted` is set if the schema exists already. Raises a SchemaTakenError if the schema
    belongs to another tenant. Of two concurrent inserts with one schema, the second waits for the
    first.
    """
    values = {"id": tenant_id, "schema_name": schema, "schema": schema}
    row = (await connection.execute(_ADD, values)).one_or_none()
    if row is not None:
        return _read(row)
    owner = await connection.scalar(_OWNER, {"schema": schema})
    if owner is not None and owner != tenant_id and await find(connection, tenant_id) is None:
        raise SchemaTakenError(
            f"schema `{schema}` belongs to tenant `{owner}`: each tenant needs its own schema"
        )
    return None


_FIND = select(tenant).where(tenant.c.id == bindparam("tenant_id"))


async def find(connection: AsyncConnection, tenant_id: TenantId) -> TenantRow | None:
    """Return a tenant."""
    row = (await connection.execute(_FIND, {"tenant_id": tenant_id})).one_or_none()
    return None if row is None else _read(row)


_LOCK = _FIND.with_for_update()


async def lock(connection: AsyncConnection, tenant_id: TenantId) -> TenantRow | None:
    """Lock a tenant until the transaction ends, and return it."""
    row = (await connection.execute(_LOCK, {"tenant_id": tenant_id})).one_or_none()
    return None if row is None else _read(row)


async def find_many(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, TenantRow]:
    """Return those of the tenants that exist."""
    statement = select(tenant).where(tenant.c.id == func.any(list(tenant_ids)))
    return {(found := _read(row)).id: found for row in await connection.execute(statement)}


async def list_all(connection: AsyncConnection) -> Sequence[TenantRow]:
    """Return all tenants by id."""
    return [_read(row) for row in await connection.execute(select(tenant).order_by(tenant.c.id))]


async def count_by_status(connection: AsyncConnection) -> dict[str, int]:
    """Count the tenants that the caller sees, by status."""
    statement = select(tenant.c.status, func.count().label("number")).group_by(tenant.c.status)
    return {str(row.status): row.number for row in await connection.execute(statement)}


@dataclass(frozen=True, slots=True)
class TenantFilter:
    """A filter of tenants; empty matches everything."""

    statuses: Collection[TenantStatus] = ()
    # A tenant must have all of them.
    labels: Collection[LabelFilter] = ()
    only: TenantId | None = None
    # A part of the id.
    containing: str = ""


async def page(
    connection: AsyncConnection, filters: TenantFilter, *, after: str | None, limit: int
) -> list[TenantRow]:
    """Return a page of tenants, by id; a search reads at most `MOST_SEARCHED` rows."""
    statement = select(tenant).where(*labelled(filters.labels)).order_by(tenant.c.id)
    if after is not None:
        statement = statement.where(tenant.c.id > after)
    if filters.statuses:
        statement = statement.where(tenant.c.status.in_(filters.statuses))
    if filters.only is not None:
        statement = statement.where(tenant.c.id == filters.only)
    if filters.containing:
        searched = statement.limit(MOST_SEARCHED).subquery()
        found = searched.c.id.contains(filters.containing, autoescape=True)
        statement = select(searched).where(found).order_by(searched.c.id)
    return [_read(row) for row in await connection.execute(statement.limit(limit))]


def labelled(filters: Collection[LabelFilter]) -> list[ColumnElement[bool]]:
    """Return the conditions for tenants that have all these labels; each uses an index."""
    return [tenant.c.id.in_(_with_label(label)) for label in filters]


def _with_label(label: LabelFilter) -> Select[tuple[str]]:
    found = select(tenant_label.c.tenant_id).where(tenant_label.c.key == label.key)
    return found if label.value is None else found.where(tenant_label.c.value == label.value)


async def schedule_caps(connection: AsyncConnection) -> dict[TenantId, int]:
    """Return the caps of tenants that have their own."""
    statement = select(tenant.c.id, tenant.c.max_schedules).where(
        tenant.c.max_schedules.is_not(None)
    )
    return {TenantId(row.id): row.max_schedules for row in await connection.execute(statement)}


async def owner_quotas(connection: AsyncConnection) -> dict[TenantId, Mapping[str, int]]:
    """Return the quotas of tenants for which an operator has set the schedules of an owner."""
    found = tenant.c.quotas.has_key("schedules_per_owner")
    rows = await connection.execute(select(tenant.c.id, tenant.c.quotas).where(found))
    return {TenantId(row.id): row.quotas for row in rows}


async def set_status(
    connection: AsyncConnection, tenant_id: TenantId, status: TenantStatus, reason: str | None
) -> None:
    """Set the status of a tenant."""
    values = {"status": status.value, "status_reason": reason, "updated_at": func.now()}
    await connection.execute(update(tenant).where(tenant.c.id == tenant_id).values(values))


async def set_limits(
    connection: AsyncConnection, tenant_id: TenantId, limits: TenantLimits
) -> None:
    """Set limits of a tenant; others do not change."""
    if limits:
        values = {**limits, "updated_at": func.now()}
        if "weight" in limits and limits["weight"] is None:
            values["weight"] = _declared_weight(tenant.c.id)
        if "quotas" in limits:
            # Names without a value are removed: the policy applies again.
            changes = literal(dict(limits["quotas"]), JSONB)
            values["quotas"] = func.jsonb_strip_nulls(tenant.c.quotas.op("||")(changes))
        await connection.execute(update(tenant).where(tenant.c.id == tenant_id).values(values))


async def starts_in_minute(connection: AsyncConnection, tenant_id: TenantId, at: datetime) -> int:
    """Return how many executions a tenant has started in the minute of this time."""
    statement = select(func.tenantcron.starts_in_minute(tenant_id, at))
    return int((await connection.execute(statement)).scalar_one())


async def set_labels(connection: AsyncConnection, tenant_id: TenantId, labels: Labels) -> None:
    """Replace the labels of a tenant."""
    values = {"labels": dict(labels), "updated_at": func.now()}
    await connection.execute(update(tenant).where(tenant.c.id == tenant_id).values(values))


_RAISE_REVISION = (
    update(tenant)
    .where(tenant.c.id == bindparam("tenant_id"))
    .values(schedule_revision=tenant.c.schedule_revision + 1)
    .returning(tenant.c.schedule_revision)
)
_RAISE_AND_NOTIFY = _RAISE_REVISION.returning(func.pg_notify(SCHEDULES_CHANGED, tenant.c.id))


async def raise_revision(
    connection: AsyncConnection, tenant_id: TenantId, *, notify: bool = True
) -> int:
    """Mark the tenant's schedules as changed, and notify schedulers on commit.

    Callers that change many tenants notify once, with `announce`.
    """
    statement = _RAISE_AND_NOTIFY if notify else _RAISE_REVISION
    raised = await connection.execute(statement, {"tenant_id": tenant_id})
    return int(raised.scalar_one())


async def announce(connection: AsyncConnection) -> None:
    """Notify schedulers that the schedules of some tenants have changed."""
    await connection.execute(select(func.pg_notify(SCHEDULES_CHANGED, "")))


class Scope(Enum):
    """Which tenants a refresh reads."""

    # Tenants whose schedules have changed since the cursors were synced.
    MOVED = auto()
    # In addition, tenants that could not be synced the last time.
    MOVED_OR_BROKEN = auto()
    ALL = auto()


_HAS_MOVED = tenant.c.schedule_revision != tenant.c.synced_revision
_SCOPES = {
    Scope.MOVED: (_HAS_MOVED,),
    Scope.MOVED_OR_BROKEN: (or_(_HAS_MOVED, tenant.c.sync_fault.is_not(None)),),
    Scope.ALL: (),
}


def in_scope(scope: Scope) -> Select[tuple[object, ...]]:
    """Return the statement that locks some tenants of a scope, by id, after the id `after`.

    Locked tenants are skipped: another replica syncs them, or an apply will notify on commit.
    """
    return (
        select(tenant)
        .where(tenant.c.id > bindparam("after", type_=Text), *_SCOPES[scope])
        .order_by(tenant.c.id)
        .limit(bindparam("batch"))
        .with_for_update(key_share=True, skip_locked=True)
    )


_IN_SCOPE = {scope: in_scope(scope) for scope in Scope}


async def lock_in_scope(
    connection: AsyncConnection, scope: Scope, after: TenantId | None, batch: int
) -> list[TenantRow]:
    """Lock some tenants whose cursors have to be synced, after an id."""
    rows = await connection.execute(_IN_SCOPE[scope], {"after": after or "", "batch": batch})
    return [_read(row) for row in rows]


_LOCK_MANY = (
    select(tenant)
    .where(tenant.c.id == func.any(bindparam("tenant_ids", type_=ARRAY(Text))))
    .order_by(tenant.c.id)
    .with_for_update(key_share=True)
)


async def lock_many(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, TenantRow]:
    """Lock the existing ones of the tenants, and return them."""
    rows = await connection.execute(_LOCK_MANY, {"tenant_ids": list(tenant_ids)})
    return {(found := _read(row)).id: found for row in rows}


@dataclass(frozen=True, slots=True)
class Synced:
    """The revision of a tenant that its cursors reflect now, or why they cannot."""

    tenant_id: TenantId
    revision: int
    fault: str | None


_SYNCED = (
    func.jsonb_to_recordset(bindparam("rows", type_=JSONB))
    .table_valued(column("id", Text), column("revision", BigInteger), column("fault", Text))
    .render_derived(name="synced", with_types=True)
)
_SET_SYNCED = (
    update(tenant)
    .where(
        # The ids again: the planner has no statistics about the rows of a function, and would read
        # all tenants for each batch.
        tenant.c.id == func.any(bindparam("ids", type_=ARRAY(Text))),
        tenant.c.id == _SYNCED.c.id,
        tuple_(tenant.c.synced_revision, tenant.c.sync_fault).is_distinct_from(
            tuple_(_SYNCED.c.revision, _SYNCED.c.fault)
        ),
    )
    .values(synced_revision=_SYNCED.c.revision, sync_fault=_SYNCED.c.fault)
)


async def set_synced(connection: AsyncConnection, synced: Sequence[Synced]) -> None:
    """Record which revisions the cursors reflect; unchanged rows are not written."""
    rows = [{"id": row.tenant_id, "revision": row.revision, "fault": row.fault} for row in synced]
    ids = [row.tenant_id for row in synced]
    await connection.execute(_SET_SYNCED, {"rows": rows, "ids": ids})


def _read(row: Row[tuple[object, ...]]) -> TenantRow:
    values = row._mapping
    return TenantRow(**{**values, "status": TenantStatus(values["status"])})
