"""The audit: compares expected occurrences with recorded executions."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tenantcron.api.inputs import Moment
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, Reader, StrictRoute
from tenantcron.core.names import TENANT_PATTERN
from tenantcron.service.audits import bounded_audit
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.responses.audit import audit_as_json
from tenantcron.service.responses.platform_shapes import AuditResponse

router = APIRouter(tags=["cluster"], route_class=StrictRoute)


@router.get("/audit", response_model=AuditResponse, responses=READ)
async def audit_executions(
    request: Request,
    work: Reader,
    tenant: Annotated[
        str | None, Query(pattern=f"^{TENANT_PATTERN}$", description="Audit this tenant only.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Check from this time on.")] = None,
) -> Response:
    """Compare the expected occurrences of schedules with the recorded executions.

    An audit that needs more than `api_timeout` is rejected: filter by tenant, or use a later
    `since`.
    """
    only = work.bound_to if tenant is None else visible_tenant(work, tenant)
    return conditional_reply(request, {**audit_as_json(await bounded_audit(work, only, since))})
