"""The tenant source: sync the tenants with the platform's registry."""

from fastapi import APIRouter, Request, Response

from tenantcron.api.inputs import NO_REFRESH, RefreshRequest
from tenantcron.api.replies import json_reply
from tenantcron.api.routing import Admin, StrictRoute, problems
from tenantcron.service.responses.platform_shapes import DetachedResponse, RefreshResponse
from tenantcron.service.responses.source_refresh import refresh_as_json
from tenantcron.service.tenant_source import SourceSync

router = APIRouter(tags=["tenants"], route_class=StrictRoute)


@router.post(
    "/tenants:refresh",
    response_model=RefreshResponse | DetachedResponse,
    responses=problems(409),
)
async def refresh_tenants(
    request: Request,  # noqa: ARG001 -- the route checks its query
    work: Admin,
    body: RefreshRequest = NO_REFRESH,
) -> Response:
    """Sync the tenants with the tenant source of the server's settings.

    It takes several transactions. If it is interrupted, a repeated request does the rest.
    """
    sync = SourceSync(work.writing, work.settings, work.who)
    if body.detach:
        return json_reply({**await sync.detach()})
    source = sync.source().name
    refresh = sync.check if body.check else sync.refresh
    done = await refresh(body.max_missing)
    return json_reply({**refresh_as_json(source, done, is_check=body.check)})
