"""What was applied to a tenant, and who changed what: manifest versions and audit records."""

from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    After,
    Limit,
    Moment,
    TenantPath,
    VersionPath,
)
from tenantcron.api.pages import ResultPage, moment, not_a_place, number_place, page, parts
from tenantcron.api.replies import told
from tenantcron.api.routing import READ, Reader
from tenantcron.core.words import visible
from tenantcron.scheduler.inspect.schedule_status import UnknownError, existing_tenant
from tenantcron.service.lookups import seen_tenant
from tenantcron.service.responses.records import document_as_json, record_as_json, version_as_json
from tenantcron.service.responses.shapes import DocumentResponse, RecordPage, VersionPage
from tenantcron.store.rows import audit_records, manifest_versions
from tenantcron.store.rows.audit_records import AuditPlace, AuditRow, AuditWanted
from tenantcron.store.schema import tenant_objects

router = APIRouter(prefix="/tenants/{tenant:word}", tags=["records"])


@router.get("/manifest-versions", response_model=VersionPage, responses=READ)
async def list_versions(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the versions of a tenant's manifest, the newest first."""
    of, place = seen_tenant(work, tenant), number_place(after)
    async with work.reading.transaction() as connection:
        await existing_tenant(connection, of)
        rows = await manifest_versions.page(connection, of, before=place, limit=limit + 1)
    return told(
        request,
        page(
            "manifest_versions",
            rows,
            limit,
            tell=version_as_json,
            place=lambda row: [row.version],
        ),
    )


@router.get(
    "/manifest-versions/{version:word}",
    response_model=DocumentResponse,
    responses=READ,
)
async def show_version(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    version: VersionPath,
) -> Response:
    """Show one version with the schedules that it declares."""
    of = seen_tenant(work, tenant)
    async with work.reading.transaction() as connection:
        await existing_tenant(connection, of)
        found = await manifest_versions.find(connection, of, version)
    if found is None:
        raise UnknownError(f"tenant `{of}` has no manifest version {version}")
    return told(request, {**document_as_json(*found)})


@router.get("/audit-records", response_model=RecordPage, responses=READ)
async def list_records(
    request: Request,
    work: Reader,
    tenant: TenantPath,
    entity_type: Annotated[
        str | None, Query(max_length=32, description="of this kind, such as schedule or pause")
    ] = None,
    entity_id: Annotated[str | None, Query(max_length=255, description="of this one")] = None,
    since: Annotated[Moment | None, Query(description="made then or later")] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List who changed what of a tenant, the newest first."""
    of, place = seen_tenant(work, tenant), _place(after)
    wanted = AuditWanted(_plain(entity_type), _plain(entity_id), since)
    async with work.reading.transaction() as connection:
        row = await existing_tenant(connection, of)
        kept = await tenant_objects.has_tenant_tables(connection, row.schema_name)
        schema = row.schema_name if kept else None
        rows = audit_records.page(connection, of, schema, wanted, before=place, limit=limit + 1)
        shown = ResultPage("audit_records", limit, tell=record_as_json, place=_written)
        async with aclosing(rows):
            async for record in rows:
                if not shown.add(record):
                    break
    return told(request, shown.answer())


def _plain(text: str | None) -> str | None:
    """No record has what a database cannot hold, so what stands in for it finds none either."""
    return None if text is None else visible(text)


def _written(row: AuditRow) -> list[str | int | bool]:
    return [row.changed_at.isoformat(), row.in_tenant, row.id]


def _place(after: str | None) -> AuditPlace | None:
    match parts(after):
        case None:
            return None
        case [str(changed_at), bool(in_tenant), int(number)] if 0 <= number < 2**63:
            return AuditPlace(moment(changed_at), in_tenant, number)
    raise not_a_place()
