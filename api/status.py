"""Probes, metrics and public keys of the service."""

from fastapi import APIRouter, Request, Response
from typing_extensions import TypedDict

from tenantcron.api.replies import json_reply
from tenantcron.api.routing import Reader, problems
from tenantcron.scheduler.metrics.server import METRICS_TYPE
from tenantcron.service.problems import ApiProblem
from tenantcron.service.work import Service
from tenantcron.store.schema import api_role
from tenantcron.store.schema.versions import require_migrated

router = APIRouter(tags=["status"])


class Liveness(TypedDict):
    """Liveness of the process."""

    healthy: bool


class Readiness(TypedDict):
    """Readiness, and whether row-level security isolates tenants."""

    ready: bool
    row_level_security: bool


@router.get("/healthz", response_model=Liveness)
async def check_liveness() -> Response:
    """Check that the process responds; does not use the database."""
    return json_reply({"healthy": True})


@router.get("/readyz", response_model=Readiness, responses=problems())
async def check_readiness(request: Request) -> Response:
    """Check that requests can be served."""
    service: Service = request.app.state.service
    async with service.database.transaction() as connection:
        await require_migrated(connection)
        usable = await api_role.is_usable(connection)
    return json_reply({"ready": True, "row_level_security": usable and service.row_level_security})


@router.get("/metrics", include_in_schema=False)
async def metrics(work: Reader) -> Response:
    """Return the metrics of the cluster, for callers that may see all tenants."""
    work.require_all_tenants("metrics cover")
    return Response(await work.service.metrics(), media_type=METRICS_TYPE)


@router.get("/.well-known/jwks.json", include_in_schema=False)
async def key_set(request: Request) -> Response:
    """Return the public keys of execution tokens."""
    service: Service = request.app.state.service
    if service.key_set is None:
        raise ApiProblem("TC703", "the server has no signing keys")
    return json_reply(await service.key_set(), headers={"Cache-Control": "public, max-age=300"})
