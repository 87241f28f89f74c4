"""Rows of `schedule_definition`, known by their content. The provider's refresh adds them.

Equal content has one row, so thousands of schedules that say the same share it. A row is never
changed; housekeeping marks what no cursor names any more, and deletes it when no execution can.
"""

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from sqlalchemy import ARRAY, JSON, Text, Uuid, bindparam, cast, column, exists, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.store.schema.tables import schedule_definition

_NAMESPACE = UUID("5f0c5d0e-5d0b-5a57-9a3c-6f1d3a1b7c11")
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

_row = schedule_definition.c
_GIVEN = (
    func.json_to_recordset(cast(bindparam("rows", type_=Text), JSON))
    .table_valued(column("id", _row.id.type), column("definition", _row.definition.type))
    .render_derived(name="given", with_types=True)
)
# ON CONFLICT locks a row even where it has nothing to change: rows in use are left out before.
_IN_USE = exists().where(_row.id == _GIVEN.c.id, _row.unused_since.is_(None))
_ADD = (
    insert(schedule_definition)
    .from_select(
        ["id", "definition"],
        # In order: two replicas that add the same ones must not wait for each other in a circle.
        select(_GIVEN.c.id, _GIVEN.c.definition).where(~_IN_USE).order_by(_GIVEN.c.id),
    )
    .on_conflict_do_update(
        index_elements=[_row.id],
        set_={"unused_since": None},
        where=_row.unused_since.is_not(None),
    )
)


def definition_id(definition: JsonValue) -> UUID:
    """Return the id of a definition; equal content has an equal one."""
    return uuid5(_NAMESPACE, _canonical(definition))


async def add(connection: AsyncConnection, definitions: Mapping[UUID, JsonObject]) -> None:
    """Insert those that are not there; one that was out of use is in use again."""
    if definitions:
        rows = [{"id": str(one), "definition": text} for one, text in definitions.items()]
        await connection.execute(_ADD, {"rows": _canonical(rows)})


_READ = select(schedule_definition.c.id, schedule_definition.c.definition).where(
    schedule_definition.c.id == func.any(bindparam("ids", type_=ARRAY(Uuid)))
)
# Two steps, a retention apart: executions name a definition for no longer than they are kept.
# A refresh that has not committed yet may name one that is being marked: the next time mends it.
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
    """Return the definitions of these ids that are there."""
    rows = await connection.execute(_READ, {"ids": list(ids)})
    return {row.id: row.definition for row in rows}


async def forget_unused(connection: AsyncConnection, now: datetime, kept: timedelta) -> int:
    """Mark what no cursor names, delete what was marked before the kept history began.

    A month is dropped when all of it is too old, so executions can be a month older than `kept`.
    """
    await connection.exec_driver_sql(_MARK, {"now": now})
    oldest = now - kept - timedelta(days=62)
    return (await connection.exec_driver_sql(_FORGET, {"oldest": oldest})).rowcount
