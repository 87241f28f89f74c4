"""Rows of `schedule_definition`, addressed by content. The provider's refresh adds them.

Equal content has one row, so thousands of equal schedules share it. A row never changes.
Housekeeping marks definitions without a cursor, and deletes them when no execution can refer to
them any more.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from sqlalchemy import (
    ARRAY,
    JSON,
    Text,
    Uuid,
    bindparam,
    cast,
    column,
    exists,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.store.schema.tables import schedule_definition, task

_NAMESPACE = UUID("5f0c5d0e-5d0b-5a57-9a3c-6f1d3a1b7c11")
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

_row = schedule_definition.c
_GIVEN = (
    func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON))
    .table_valued(column("id", _row.id.type), column("definition", _row.definition.type))
    .render_derived(name="given", with_types=True)
)
# ON CONFLICT locks a row even if nothing changes, so rows in use are excluded first.
_IN_USE = exists().where(_row.id == _GIVEN.c.id, _row.unused_since.is_(None))
_ADD = (
    insert(schedule_definition)
    .from_select(
        ["id", "definition"],
        # Ordered, so that two replicas that add the same rows do not deadlock.
        select(_GIVEN.c.id, _GIVEN.c.definition).where(~_IN_USE).order_by(_GIVEN.c.id),
    )
    .on_conflict_do_update(
        index_elements=[_row.id],
        set_={"unused_since": None},
        where=_row.unused_since.is_not(None),
    )
)


def definition_id(definition: JsonValue) -> UUID:
    """Return the id of a definition; equal content has the same id."""
    return uuid5(_NAMESPACE, _canonical(definition))


async def add(connection: AsyncConnection, definitions: Mapping[UUID, JsonObject]) -> None:
    """Insert new definitions; unmark existing ones that were unused."""
    if definitions:
        rows = [{"id": str(key), "definition": value} for key, value in definitions.items()]
        await connection.execute(_ADD, {"rows": _canonical(rows)})


_READ = select(schedule_definition.c.id, schedule_definition.c.definition).where(
    schedule_definition.c.id == func.any(bindparam("ids", type_=ARRAY(Uuid)))
)
_OF_TASKS = select(task.c.id, cast(task.c.definition, Text), task.c.payload).where(
    task.c.id == func.any(bindparam("ids", type_=ARRAY(Uuid)))
)
_READ_ALL = union_all(
    select(
        _row.id,
        cast(_row.definition, Text).label("definition"),
        cast(literal(None), JSONB).label("payload"),
    ).where(_row.id == func.any(bindparam("ids", type_=ARRAY(Uuid)))),
    _OF_TASKS,
)
# Marking and deleting are a retention apart: executions refer to a definition until they are
# deleted. An uncommitted refresh may use a definition that is being marked; the next run fixes it.
_MARK = """
UPDATE tenantcron.schedule_definition AS d
SET unused_since = CASE WHEN unused_since IS NULL THEN %(now)s::timestamptz END
WHERE (unused_since IS NOT NULL)
    = EXISTS (SELECT FROM tenantcron.schedule_cursor AS c WHERE c.definition_id = d.id)
"""
_FORGET = """
DELETE FROM tenantcron.schedule_definition AS d
WHERE unused_since < %(oldest)s
    AND NOT EXISTS (SELECT FROM tenantcron.schedule_cursor AS c WHERE c.definition_id = d.id)
"""


async def read(connection: AsyncConnection, ids: Collection[UUID]) -> dict[UUID, JsonObject]:
    """Return the existing definitions of these ids."""
    rows = await connection.execute(_READ, {"ids": list(ids)})
    return {row.id: row.definition for row in rows}


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """The definition of a schedule, or of a task, which has its own payload."""

    id: UUID
    # JSON; None: a task with the default settings.
    definition: str | None
    # None: it is part of the definition.
    payload: JsonObject | None


async def read_all(
    connection: AsyncConnection, ids: Collection[UUID]
) -> dict[UUID, StoredDefinition]:
    """Return the existing definitions of these ids, of schedules and of tasks."""
    rows = await connection.execute(_READ_ALL, {"ids": list(ids)})
    return {row.id: StoredDefinition(*row) for row in rows}


async def forget_unused(connection: AsyncConnection, now: datetime, kept: timedelta) -> int:
    """Mark definitions without a cursor, and delete those marked before the retained history.

    A month is dropped when all of it is too old, so executions can be a month older than `kept`.
    """
    await connection.exec_driver_sql(_MARK, {"now": now})
    oldest = now - kept - timedelta(days=62)
    return (await connection.exec_driver_sql(_FORGET, {"oldest": oldest})).rowcount
