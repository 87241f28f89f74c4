"""How the service itself is: for probes, for Prometheus, and for those who verify our tokens."""

from fastapi import APIRouter, Request, Response
from typing_extensions import TypedDict

from tenantcron.api.replies import done
from tenantcron.api.routing import Reader, problems
from tenantcron.scheduler.metrics.server import METRICS_TYPE
from tenantcron.service.problems import ApiProblem
from tenantcron.service.work import Service
from tenantcron.store.schema import api_role
from tenantcron.store.schema.versions import require_migrated

router = APIRouter(tags=["status"])


class Health(TypedDict):
    """That the process answers."""

    healthy: bool


class Readiness(TypedDict):
    """That requests can be served, and by what tenants are kept apart."""

    ready: bool
    row_level_security: bool


@router.get("/healthz", response_model=Health)
async def healthz() -> Response:
    """Tell that the process answers; the database is not asked."""
    return done({"healthy": True})


@router.get("/readyz", response_model=Readiness, responses=problems())
async def readyz(request: Request) -> Response:
    """Tell whether requests can be served now."""
    service: Service = request.app.state.service
    async with service.database.transaction() as connection:
        await require_migrated(connection)
        usable = await api_role.is_usable(connection)
    return done({"ready": True, "row_level_security": usable and service.row_level_security})


@router.get("/metrics", include_in_schema=False)
async def metrics(work: Reader) -> Response:
    """Tell how the whole goes, for Prometheus; a tenant may not know of the others' load."""
    if work.bound_to is not None:
        raise ApiProblem(
            "TC702", f"metrics are of all tenants, and not for `{work.bound_to}` alone"
        )
    return Response(await work.service.metrics(), media_type=METRICS_TYPE)


@router.get("/.well-known/jwks.json", include_in_schema=False)
async def key_set(request: Request) -> Response:
    """Tell the keys that our tokens are signed with."""
    service: Service = request.app.state.service
    if service.key_set is None:
        raise ApiProblem("TC703", "there are no keys here")
    return done(await service.key_set(), headers={"Cache-Control": "public, max-age=300"})
