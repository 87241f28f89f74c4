"""Rows of `manifest_version`. The reconciler writes one whenever a tenant's schedules change."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, Text, Uuid, bindparam, cast, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.store.schema.tables import manifest_version


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A new version, before it has a number."""

    id: UUID
    tenant_id: TenantId
    checksum: str
    source_checksum: str
    document: JsonObject
    applied_by: str
    source_ref: str | None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a tenant's manifest."""

    id: UUID
    tenant_id: TenantId
    version: int
    checksum: str
    source_checksum: str
    applied_by: str
    applied_at: datetime
    source_ref: str | None


@dataclass(frozen=True, slots=True)
class DocumentedVersion:
    """A version with the schedules of its document, as JSON text of the database."""

    version: VersionRow
    count: int
    schedules: str


_newer = manifest_version.alias("newer")
_overtaken = (
    select(_newer.c.id)
    .where(
        _newer.c.tenant_id == manifest_version.c.tenant_id,
        _newer.c.version > manifest_version.c.version,
    )
    .exists()
)
_COLUMNS = [column for column in manifest_version.c if column.name != "document"]
_LATEST = select(*_COLUMNS).where(
    ~_overtaken,
    manifest_version.c.tenant_id == func.any(bindparam("tenant_ids", type_=ARRAY(Text))),
)
_SCHEDULES = manifest_version.c.document["schedules"]
_MADE_FROM = select(*_COLUMNS, func.jsonb_array_length(_SCHEDULES), cast(_SCHEDULES, Text)).where(
    ~_overtaken,
    manifest_version.c.source_checksum == func.any(bindparam("checksums", type_=ARRAY(Text))),
)


async def latest(
    connection: AsyncConnection, tenant_ids: Collection[TenantId]
) -> dict[TenantId, VersionRow]:
    """Return the newest version of each tenant that has one."""
    rows = await connection.execute(_LATEST, {"tenant_ids": list(tenant_ids)})
    return {row.tenant_id: VersionRow(*row) for row in rows}


async def page(
    connection: AsyncConnection, tenant_id: TenantId, *, before: int | None, limit: int
) -> list[VersionRow]:
    """Return a page of a tenant's versions, the newest first."""
    columns = manifest_version.c
    statement = (
        select(*_COLUMNS)
        .where(columns.tenant_id == tenant_id)
        .order_by(columns.version.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(columns.version < before)
    return [VersionRow(*row) for row in await connection.execute(statement)]


async def find(
    connection: AsyncConnection, tenant_id: TenantId, version: int
) -> tuple[VersionRow, JsonObject] | None:
    """Return one version of a tenant with its document."""
    columns = manifest_version.c
    statement = select(*_COLUMNS, columns.document).where(
        columns.tenant_id == tenant_id, columns.version == version
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else (VersionRow(*row[:-1]), row[-1])


async def made_from(
    connection: AsyncConnection, source_checksums: Collection[str]
) -> dict[str, DocumentedVersion]:
    """Return the versions made from these sources that are still the newest of their tenant."""
    rows = await connection.execute(_MADE_FROM, {"checksums": list(source_checksums)})
    return {
        row.source_checksum: DocumentedVersion(VersionRow(*row[:-2]), *row[-2:]) for row in rows
    }


async def documents(
    connection: AsyncConnection, version_ids: Collection[UUID]
) -> dict[UUID, JsonObject]:
    """Return the documents of versions."""
    columns = manifest_version.c
    statement = select(columns.id, columns.document).where(
        columns.id == func.any(bindparam("version_ids", type_=ARRAY(Uuid)))
    )
    rows = await connection.execute(statement, {"version_ids": list(version_ids)})
    return {row.id: row.document for row in rows}


# Compiled once: a fleet repeats it.
_ADD = insert(manifest_version).values(
    {column.name: bindparam(column.name) for column in manifest_version.c}
    | {"applied_at": func.now()}
)


async def add(connection: AsyncConnection, new: NewVersion, version: int) -> None:
    """Insert a version; the lock on the tenant prevents duplicate numbers."""
    values = {
        "id": new.id,
        "tenant_id": new.tenant_id,
        "version": version,
        "checksum": new.checksum,
        "source_checksum": new.source_checksum,
        "document": new.document,
        "applied_by": new.applied_by,
        "source_ref": new.source_ref,
    }
    await connection.execute(_ADD, values)
