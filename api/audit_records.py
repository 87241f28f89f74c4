"""Audit records of all tenants that the caller sees."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.api.inputs import DEFAULT_LIMIT, After, Limit, Moment
from tenantcron.api.pages import (
    ResultPage,
    encoded_position,
    invalid_position,
    moment,
    position_parts,
)
from tenantcron.api.records import ActorQuery, storable
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, Reader, StrictRoute
from tenantcron.core.names import TENANT_PATTERN
from tenantcron.service.freshness import must_be_current
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.responses.records import cluster_record_as_json
from tenantcron.service.responses.shapes import ClusterAuditRecordPage
from tenantcron.store.rows import cluster_records
from tenantcron.store.rows.audit_records import AuditFilter
from tenantcron.store.rows.cluster_records import ClusterPosition, ClusterRecord

router = APIRouter(tags=["records"], route_class=StrictRoute)


@router.get("/audit-records", response_model=ClusterAuditRecordPage, responses=READ)
async def list_all_audit_records(
    request: Request,
    work: Reader,
    tenant: Annotated[
        str | None, Query(pattern=f"^{TENANT_PATTERN}$", description="Filter by tenant.")
    ] = None,
    entity_type: Annotated[
        str | None, Query(max_length=32, description="Filter by type, such as schedule or pause.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Changed at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Changed before this time.")] = None,
    actor: ActorQuery = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """List the audit records of all tenants that the caller sees, newest first.

    A page reads at most 100 tenants, so it can have fewer records than `limit`.
    """
    only = work.bound_to if tenant is None else visible_tenant(work, tenant)
    filters = AuditFilter(storable(entity_type), None, since, until, storable(actor), tenant=only)
    position = _position(after)

    async def read(connection: AsyncConnection) -> Mapping[str, object]:
        shown = ResultPage(
            "audit_records", limit, to_json=cluster_record_as_json, position=_sort_key
        )
        selection = await cluster_records.select_changes(connection, filters, position, limit + 1)
        rows = cluster_records.page(
            connection, filters, selection, before=position, limit=limit + 1
        )
        async with aclosing(rows):
            async for record in rows:
                if not shown.add(record):
                    break
        answer = shown.answer()
        if answer["next"] is None and selection.rest is not None:
            answer = {**answer, "next": encoded_position(_parts(selection.rest))}
        return answer

    # The filter names the tenant of a bound caller. The role of requests cannot read the index.
    found = await work.read_history(read, current=must_be_current(request), restricted=False)
    return conditional_reply(request, found)


def _sort_key(record: ClusterRecord) -> list[str | int]:
    return _parts(record.position)


def _parts(position: ClusterPosition) -> list[str | int]:
    return [position.changed_at.isoformat(), position.tenant, position.id]


def _position(after: str | None) -> ClusterPosition | None:
    match position_parts(after):
        case None:
            return None
        case [str(changed_at), str(tenant), int(number)] if (
            tenant.isprintable() and 0 <= number < 2**63
        ):
            return ClusterPosition(moment(changed_at), tenant, number)
    raise invalid_position()
