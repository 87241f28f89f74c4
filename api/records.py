"""Manifest versions and audit records of a tenant."""

from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    After,
    Limit,
    Moment,
    TenantPath,
    VersionPath,
)
from tenantcron.api.pages import (
    ResultPage,
    invalid_position,
    moment,
    number_position,
    page,
    position_parts,
)
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, Reader, StrictRoute
from tenantcron.core.names import NAME_PATTERN
from tenantcron.core.words import visible
from tenantcron.scheduler.inspect.schedule_status import UnknownError, existing_tenant
from tenantcron.service.freshness import must_be_current
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.responses.records import document_as_json, record_as_json, version_as_json
from tenantcron.service.responses.shapes import (
    AuditRecordPage,
    ManifestVersionDetailsResponse,
    ManifestVersionPage,
)
from tenantcron.store.rows import audit_records, manifest_versions
from tenantcron.store.rows.audit_records import AuditFilter, AuditPlace, AuditRow
from tenantcron.store.schema import tenant_objects

ActorQuery = Annotated[
    str | None, Query(max_length=255, description="Filter by the id of the actor.")
]
router = APIRouter(prefix="/tenants/{tenant:word}", tags=["records"], route_class=StrictRoute)


@router.get("/manifest-versions", response_model=ManifestVersionPage, responses=READ)
async def list_manifest_versions(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the versions of a tenant's manifest, newest first."""
    of, position = visible_tenant(work, tenant), number_position(after)
    async with work.reading.transaction() as connection:
        await existing_tenant(connection, of)
        rows = await manifest_versions.page(connection, of, before=position, limit=limit + 1)
    return conditional_reply(
        request,
        page(
            "manifest_versions",
            rows,
            limit,
            to_json=version_as_json,
            position=lambda row: [row.version],
        ),
    )


@router.get(
    "/manifest-versions/{version:word}",
    response_model=ManifestVersionDetailsResponse,
    responses=READ,
)
async def get_manifest_version(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    version: VersionPath,
) -> Response:
    """Get a version with the schedules that it declares."""
    of = visible_tenant(work, tenant)
    async with work.reading.transaction() as connection:
        await existing_tenant(connection, of)
        found = await manifest_versions.find(connection, of, version)
    if found is None:
        raise UnknownError(f"tenant `{of}` has no manifest version {version}")
    return conditional_reply(request, {**document_as_json(*found)})


@router.get("/audit-records", response_model=AuditRecordPage, responses=READ)
async def list_audit_records(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    entity_type: Annotated[
        str | None, Query(max_length=32, description="Filter by type, such as schedule or pause.")
    ] = None,
    entity_id: Annotated[str | None, Query(max_length=255, description="Filter by id.")] = None,
    since: Annotated[Moment | None, Query(description="Changed at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Changed before this time.")] = None,
    actor: ActorQuery = None,
    schedule: Annotated[
        str | None,
        Query(
            pattern=f"^{NAME_PATTERN}$",
            description="Changes, pauses and resumptions of this schedule.",
        ),
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the audit records of a tenant, newest first."""
    of, position = visible_tenant(work, tenant), _position(after)
    filters = AuditFilter(
        storable(entity_type), storable(entity_id), since, until, storable(actor), schedule
    )

    async def read(connection: AsyncConnection) -> ResultPage[AuditRow]:
        row = await existing_tenant(connection, of)
        kept = await tenant_objects.has_tenant_tables(connection, row.schema_name)
        schema = row.schema_name if kept else None
        rows = audit_records.page(connection, of, schema, filters, before=position, limit=limit + 1)
        shown = ResultPage("audit_records", limit, to_json=record_as_json, position=_sort_key)
        async with aclosing(rows):
            async for record in rows:
                if not shown.add(record):
                    break
        return shown

    shown = await work.read_history(read, current=must_be_current(request))
    return conditional_reply(request, shown.answer())


def storable(text: str | None) -> str | None:
    """Escape characters that Postgres cannot store; such a filter matches no record."""
    return None if text is None else visible(text)


def _sort_key(row: AuditRow) -> list[str | int | bool]:
    return [row.changed_at.isoformat(), row.in_tenant, row.id]


def _position(after: str | None) -> AuditPlace | None:
    match position_parts(after):
        case None:
            return None
        case [str(changed_at), bool(in_tenant), int(number)] if 0 <= number < 2**63:
            return AuditPlace(moment(changed_at), in_tenant, number)
    raise invalid_position()
