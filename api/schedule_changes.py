"""Changes of one schedule with PATCH: what operators own, and nothing else.

The manifest owns the definition of a schedule, and the next apply would revert a change made here.
So a field of the definition is refused, with the place where to change it.
"""

from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.api.inputs import Body, Moment, Reason, SchedulePath, TenantPath
from tenantcron.api.replies import etag_of, require_match
from tenantcron.api.routing import GUARDED, OperatorOf, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import MANIFESTS
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.scheduler.inspect.schedule_status import ScheduleStatus, read_schedule_status
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.schedules.pause import in_force
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.service.lookups import existing_schedule
from tenantcron.service.problems import ApiProblem, invalid
from tenantcron.service.responses.schedules import schedule_status_as_json
from tenantcron.service.responses.shapes import DefinitionResponse, ScheduleDetailsResponse
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import manifest_versions, schedule_cursors

router = APIRouter(tags=["schedules"], route_class=StrictRoute)

_FORMS: Final = ("cron", "every", "daily", "weekly", "monthly", "once", "preset")
# What people may write for a field of the definition: in a response, a change or a manifest.
_DEFINED: Final = frozenset(
    {
        *DefinitionResponse.__annotations__,
        *ScheduleSettings.__annotations__,
        *_FORMS,
        *("name", "saga", "target"),
    }
)


class PauseChanges(Body):
    """A pause, or changes of it. An absent field of an existing pause is unchanged."""

    reason: Reason | None = None
    # Not strict, because a time in JSON is a string.
    until: Annotated[Moment, Field(strict=False, description="Null: until resumed.")] | None = None


class ScheduleChanges(Body):
    """Changes of a schedule. Null for `paused` resumes it."""

    # Other members are refused below, with the reason for each.
    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": False})

    paused: PauseChanges | None = None


@router.patch(
    "/tenants/{tenant:word}/schedules/{schedule:word}",
    response_model=ScheduleDetailsResponse,
    responses=problems(404, 409, 412),
    dependencies=GUARDED,
)
async def update_schedule(
    request: Request,
    work: OperatorOf,
    tenant: TenantPath,
    schedule: SchedulePath,
    body: ScheduleChanges,
) -> Response:
    """Pause or resume a schedule, or change its pause. The manifest owns all other fields."""
    ref = await existing_schedule(work, tenant, schedule)
    given = body.model_extra or {}
    if unknown := [name for name in given if name not in _DEFINED]:
        raise _unknown(unknown)

    async def step(database: Database) -> WriteResult:
        status = await _locked(work, database, ref)
        require_match(request, {**schedule_status_as_json(status)})
        if given:
            raise await _owned_by_manifest(database, status, given)
        if "paused" in body.model_fields_set:
            await _set_pause(work, database, status, body.paused)
        changed = {**schedule_status_as_json(await _locked(work, database, ref))}
        return WriteResult(changed, headers={"ETag": etag_of(changed)})

    return await write(request, work, step)


async def _locked(work: Work, database: Database, ref: ScheduleRef) -> ScheduleStatus:
    """Return a schedule; its cursor is locked until the end of the transaction."""
    async with database.transaction() as connection:
        found = await schedule_cursors.find(connection, ref.tenant, ref.schedule)
        if found is not None:
            await schedule_cursors.lock_one(connection, found.schedule_id)
        return await read_schedule_status(connection, ref, work.settings.lease, None)


async def _set_pause(
    work: Work, database: Database, status: ScheduleStatus, wanted: PauseChanges | None
) -> None:
    operator = Operator(database, work.settings, work.who, bounds=work.bounds)
    async with database.transaction() as connection:
        pause = in_force(status.pause, await database_time(connection))
    if wanted is None:
        if pause is not None:
            await operator.resume(status.ref, None)
        return
    reason = wanted.reason or (pause.reason if pause else None)
    if reason is None:
        error = {"in": "body", "name": "paused.reason", "message": "a new pause needs a reason"}
        raise invalid("the pause has no reason", error)
    keeps_end = pause is not None and "until" not in wanted.model_fields_set
    await operator.pause(status.ref, reason, pause.until if pause and keeps_end else wanted.until)


def _unknown(names: Iterable[str]) -> ApiProblem:
    message = "unknown field: only `paused` can be changed"
    errors = ({"in": "body", "name": name, "message": message} for name in names)
    return invalid("the request does not match the API description", *errors)


async def _owned_by_manifest(
    database: Database, status: ScheduleStatus, names: Iterable[str]
) -> ApiProblem:
    async with database.transaction() as connection:
        place = await _place(connection, status)
    errors = [
        {"in": "body", "name": name, "message": f"defined by {place}: change it there"}
        for name in names
    ]
    named = ", ".join(f"`{error['name']}`" for error in errors)
    detail = f"{named}: defined by {place}: change it there and apply it"
    return ApiProblem("TC723", detail, {"errors": errors})


async def _place(connection: AsyncConnection, status: ScheduleStatus) -> str:
    """Return where a schedule is defined, for messages."""
    provider = status.cursor.provider if status.cursor else MANIFESTS
    if provider != MANIFESTS:
        return f"the provider `{provider}`"
    tenant = status.ref.tenant
    latest = (await manifest_versions.latest(connection, [tenant])).get(tenant)
    if latest is None:
        return f"the manifest of tenant `{tenant}`"
    source = f", from {latest.source_ref}" if latest.source_ref else ""
    return f"the manifest of tenant `{tenant}` (version {latest.version}{source})"
