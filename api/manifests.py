"""Manifests: plan and apply."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from tenantcron.api.inputs import (
    FileName,
    IfNew,
    MaxDeletes,
    Revision,
    SourceRef,
    TenantPath,
)
from tenantcron.api.replies import json_reply
from tenantcron.api.routing import GUARDED, Deployer, Planner, StrictRoute, problems
from tenantcron.api.tenants import require_unchanged
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import TenantId
from tenantcron.core.words import visible
from tenantcron.manifests.files import ManifestFile
from tenantcron.manifests.policy_digests import policy_digest
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.fleet import apply_all, plan_all, prepare_all
from tenantcron.reconciler.outcome import ReconcileOutcome
from tenantcron.reconciler.plan import ReviewedState, Rules
from tenantcron.reconciler.sources import Prepared
from tenantcron.service.lookups import visible_tenant
from tenantcron.service.problems import ApiProblem, invalid
from tenantcron.service.responses.outcomes import answer
from tenantcron.service.responses.shapes import ManifestResultResponse, PolicyResponse
from tenantcron.service.roles import Permission
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.tenants.creation import create_tenant

router = APIRouter(
    prefix="/tenants/{tenant:word}/manifest", tags=["manifests"], route_class=StrictRoute
)

_JSON: Final = "application/json"
_YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_SUFFIXES: Final = {_JSON: (".json",)} | dict.fromkeys(_YAML, (".yaml", ".yml"))
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        # Generators of clients know JSON only.
        "description": "The manifest. YAML is accepted as well, as `application/yaml`.",
        "content": {_JSON: {"schema": {"type": "object", "title": "Manifest"}}},
    }
}
_ANSWERED: Final = problems(404, 409, 415)


@router.post(
    ":plan", response_model=ManifestResultResponse, responses=_ANSWERED, openapi_extra=_BODY
)
async def plan_manifest(
    request: Request,
    work: Planner,
    tenant: TenantPath,
    create_tenants: bool = False,
    max_deletes: MaxDeletes = None,
    revision: Revision = None,
    if_none_match: IfNew = None,
    file: FileName = None,
) -> Response:
    """Show what applying a manifest would change, without writing anything."""
    of = visible_tenant(work, tenant)
    # Read the body before taking a slot, so that a slow client does not block others.
    manifest = await _manifest(request, work, of, file)
    with work.manifest_slot():
        prepared = await _prepared(work, manifest, _planned_from(revision, if_none_match))
        outcomes = await plan_all(work.reading, prepared, Rules(create_tenants, max_deletes))
        return json_reply(await _answer(work.reading, outcomes, _policy(work)))


@router.post(
    ":apply",
    response_model=ManifestResultResponse,
    responses=_ANSWERED | problems(412),
    dependencies=GUARDED,
    openapi_extra=_BODY,
)
async def apply_manifest(
    request: Request,
    work: Deployer,
    tenant: TenantPath,
    create_tenants: bool = False,
    max_deletes: MaxDeletes = None,
    source_ref: SourceRef = None,
    revision: Revision = None,
    if_none_match: IfNew = None,
    file: FileName = None,
) -> Response:
    """Apply a manifest to the schedules of its tenant."""
    of = visible_tenant(work, tenant)
    if create_tenants:
        work.require(Permission.MANAGE)
    rules = Rules(create_tenants, max_deletes)
    ref = visible(source_ref) if source_ref else None
    create = partial(create_tenant, pattern=work.settings.schema_pattern)
    manifest = await _manifest(request, work, of, file)
    with work.manifest_slot():
        prepared = await _prepared(work, manifest, _planned_from(revision, if_none_match))

        async def step(database: Database) -> WriteResult:
            await require_unchanged(request, database, of)
            applier = Applier(database, rules, work.who, ref, create)
            outcomes = await apply_all(applier, prepared, _no_progress)
            return WriteResult(await _answer(database, outcomes, _policy(work)))

        return await write(request, work, step)


async def _manifest(
    request: Request, work: Work, tenant: TenantId, file: str | None
) -> ManifestFile:
    """Read the manifest of a request; it must declare the tenant of the path."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _SUFFIXES:
        raise ApiProblem("TC713", "send application/yaml or application/json")
    name = Path(visible(file) if file else f"{tenant}{_SUFFIXES[media_type][0]}")
    if name.suffix.lower() not in _SUFFIXES[media_type]:
        error = {"in": "query", "name": "file", "message": f"must have a suffix of {media_type}"}
        raise invalid("the suffix of `file` does not match the media type of the body", error)
    return ManifestFile(name, await request.body(), work.service.policy, tenant)


def _planned_from(revision: int | None, if_none_match: str | None) -> ReviewedState | None:
    """Return the state that a plan was made from, if the request has one."""
    if if_none_match:
        return ReviewedState(None)
    return None if revision is None else ReviewedState(revision)


async def _prepared(
    work: Work, manifest: ManifestFile, reviewed: ReviewedState | None
) -> list[Prepared]:
    """Check a manifest and bind it to the state that its plan was made from."""
    found = await prepare_all(work.reading, [manifest], _no_progress, work.service.checking)
    return [
        replace(source, desired=replace(source.desired, reviewed=reviewed))
        if source.desired
        else source
        for source in found
    ]


async def _answer(
    database: Database, outcomes: Sequence[ReconcileOutcome], policy: PolicyResponse
) -> Mapping[str, object]:
    """Return the response of plan or apply; raise it as ApiProblem if it was refused."""
    async with database.transaction() as connection:
        now = await database_time(connection)
    # In a thread: computing next executions would block other requests.
    response = await asyncio.to_thread(answer, outcomes, now, policy)
    for outcome in outcomes:
        if outcome.refusal is not None:
            raise ApiProblem(outcome.refusal.code, outcome.refusal.message, {**response})
    return {**response}


def _policy(work: Work) -> PolicyResponse:
    return {"origin": "server", "digest": policy_digest(work.service.policy)}


def _no_progress() -> None:
    """Ignore progress."""
