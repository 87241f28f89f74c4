"""Tenants: list, show, create, change, suspend, resume and deprovision."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tenantcron.api import inputs
from tenantcron.api.inputs import (
    DEFAULT_LIMIT,
    NO_REASON,
    After,
    Deprovision,
    LabelQuery,
    Limit,
    NewTenant,
    OptionalReason,
    RequiredReason,
    TenantChanges,
    TenantPath,
)
from tenantcron.api.pages import page, text_position
from tenantcron.api.replies import conditional_reply, require_match
from tenantcron.api.routing import GUARDED, READ, REPEATABLE, Admin, Reader, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.labels import checked_changes, read_filter
from tenantcron.core.names import TenantId, tenant_id
from tenantcron.core.schema_names import schema_name
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.problems import invalid
from tenantcron.service.responses.shapes import (
    DeprovisionedResponse,
    TenantDetailsResponse,
    TenantPage,
    TenantResponse,
)
from tenantcron.service.responses.tenants import tenant_as_json, tenant_details_as_json
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenants
from tenantcron.store.rows.tenants import TenantFilter, TenantLimits, TenantRow, TenantStatus
from tenantcron.tenants.registry import (
    Registry,
    find_declared_quotas,
    find_identities,
    find_kept,
    find_tenant,
)

router = APIRouter(tags=["tenants"], route_class=StrictRoute)

_CHANGED = problems(404, 409, 412)


@router.get("/tenants", response_model=TenantPage, responses=READ)
async def list_tenants(
    request: Request,
    work: Reader,
    status: Annotated[list[TenantStatus] | None, Query(description="Filter by status.")] = None,
    label: LabelQuery = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the tenants that the caller may see, ordered by id."""
    position = text_position(after)
    labels = [read_filter(text) for text in label or ()]
    filters = TenantFilter(status or (), labels, work.bound_to)
    async with work.reading.transaction() as connection:
        rows = await tenants.page(connection, filters, after=position, limit=limit + 1)
    shown = page("tenants", rows, limit, to_json=tenant_as_json, position=lambda row: [row.id])
    return conditional_reply(request, shown)


@router.get("/tenants/{tenant:word}", response_model=TenantDetailsResponse, responses=READ)
async def get_tenant(
    request: Request,
    work: Reader,
    tenant: TenantPath,
) -> Response:
    """Get a tenant, its quotas and its system identities."""
    of = visible_tenant(work, tenant)
    row = await find_tenant(work.reading, of)
    identities = await find_identities(work.writing, of)
    quotas = await find_declared_quotas(work.reading)
    return conditional_reply(request, {**tenant_details_as_json(row, identities, quotas)})


@router.post(
    "/tenants",
    status_code=201,
    response_model=TenantResponse,
    responses=problems(404, 409),
    dependencies=REPEATABLE,
)
async def create_tenant(
    request: Request,
    work: Admin,
    body: NewTenant,
) -> Response:
    """Create a tenant, with a new or an adopted schema."""
    tenant, pattern = tenant_id(body.tenant), work.settings.schema_pattern
    schema = None if body.adopted is None else schema_name(body.adopted)
    labels = checked_changes(body.labels or {})

    async def step(database: Database) -> WriteResult:
        registry = Registry(database, work.who)
        row = await registry.create(
            tenant, _limits(body), labels=labels, schema=schema, pattern=pattern
        )
        location = {"Location": f"/v1/tenants/{tenant}"}
        return WriteResult({**tenant_as_json(row)}, HTTPStatus.CREATED, location)

    return await write(request, work, step)


@router.patch(
    "/tenants/{tenant:word}",
    response_model=TenantResponse,
    responses=_CHANGED,
    dependencies=GUARDED,
)
async def update_tenant(
    request: Request,
    work: Admin,
    tenant: TenantPath,
    body: TenantChanges,
) -> Response:
    """Change limits, quotas and labels of a tenant. Absent fields are unchanged."""
    labels = checked_changes(body.labels or {})

    async def change(registry: Registry, of: TenantId) -> TenantRow:
        row = await registry.set_limits(of, _limits(body))
        return await registry.change_labels(of, labels) if body.labels else row

    return await _change(request, work, tenant, change)


@router.post(
    "/tenants/{tenant:word}:suspend",
    response_model=TenantResponse,
    responses=_CHANGED,
    dependencies=GUARDED,
)
async def suspend_tenant(
    request: Request,
    work: Admin,
    tenant: TenantPath,
    body: RequiredReason,
) -> Response:
    """Suspend a tenant: its schedules start nothing."""
    return await _change(
        request, work, tenant, lambda registry, of: registry.suspend(of, body.reason)
    )


@router.post(
    "/tenants/{tenant:word}:resume",
    response_model=TenantResponse,
    responses=_CHANGED,
    dependencies=GUARDED,
)
async def resume_tenant(
    request: Request,
    work: Admin,
    tenant: TenantPath,
    body: OptionalReason = NO_REASON,
) -> Response:
    """Resume a tenant. Occurrences of the suspension are not fired."""
    return await _change(
        request, work, tenant, lambda registry, of: registry.resume(of, body.reason)
    )


@router.post(
    "/tenants/{tenant:word}:deprovision",
    response_model=DeprovisionedResponse,
    responses=_CHANGED,
    dependencies=GUARDED,
)
async def deprovision_tenant(
    request: Request,
    work: Admin,
    tenant: TenantPath,
    body: Deprovision,
) -> Response:
    """Deprovision a tenant. `drop_schema` drops its tables, and its schema if it is empty then.

    `kept` lists what was not dropped, and why.
    """
    if body.drop_schema and body.confirm != tenant:
        error = {"in": "body", "name": "confirm", "message": "must be the id of the tenant"}
        raise invalid("set `confirm` to the id of the tenant to drop its tables", error)
    of, drops = visible_tenant(work, tenant), body.drop_schema

    async def step(database: Database) -> WriteResult:
        await require_unchanged(request, database, of)
        registry = Registry(database, work.who)
        row = await registry.deprovision(of, body.reason, drop_schema=drops)
        kept = await find_kept(database, row) if drops else []
        return WriteResult({**tenant_as_json(row), "kept": kept})

    return await write(request, work, step)


async def _change(
    request: Request,
    work: Work,
    tenant: str,
    change: Callable[[Registry, TenantId], Awaitable[TenantRow]],
) -> Response:
    of = visible_tenant(work, tenant)

    async def step(database: Database) -> WriteResult:
        await require_unchanged(request, database, of)
        row = await change(Registry(database, work.who), of)
        return WriteResult({**tenant_as_json(row)})

    return await write(request, work, step)


async def require_unchanged(request: Request, database: Database, tenant: TenantId) -> None:
    """Check `If-Match`, and lock the tenant until the end of the transaction."""
    async with database.transaction() as connection:
        row = await tenants.lock(connection, tenant)
    if row is not None:
        identities = await find_identities(database, tenant)
        quotas = await find_declared_quotas(database)
        require_match(request, {**tenant_details_as_json(row, identities, quotas)})


def _limits(body: inputs.TenantLimitsBody) -> TenantLimits:
    limits = TenantLimits()
    if "max_schedules" in body.model_fields_set:
        limits["max_schedules"] = body.max_schedules
    if "max_concurrent" in body.model_fields_set:
        limits["max_concurrent"] = body.max_concurrent
    if "weight" in body.model_fields_set:
        limits["weight"] = body.weight
    if body.quotas is not None:
        limits["quotas"] = body.quotas.model_dump(exclude_unset=True)
    return limits
