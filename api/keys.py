"""Keys that sign execution tokens: list, rotate, retire and rewrap them."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from tenantcron.actor.keys import Algorithm
from tenantcron.api.inputs import NO_ROTATION, Rotation
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, REPEATABLE, Admin, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.durations import format_duration, parse_duration
from tenantcron.core.key_leads import LEAD, LONGEST_LEAD
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.service.problems import invalid
from tenantcron.service.responses.keys import key_as_json, keys_as_json
from tenantcron.service.responses.platform_shapes import (
    RewrappedResponse,
    SigningKeyList,
    SigningKeyResponse,
)
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database

router = APIRouter(tags=["keys"], route_class=StrictRoute)

KeyPath = Annotated[
    str, Path(pattern="^[A-Za-z0-9_-]{1,64}$", description="The id of the key (kid).")
]
_CHANGED = problems(404, 409)


@router.get("/keys", response_model=SigningKeyList, responses=READ)
async def list_keys(request: Request, work: Admin) -> Response:
    """List the keys that sign execution tokens, and their state."""
    keys = _keys(work, work.writing)
    own, known = keys.material.own(), await keys.list_all()
    return conditional_reply(request, {**keys_as_json(own, known)})


@router.post(
    "/keys:rotate",
    response_model=SigningKeyResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def rotate_keys(request: Request, work: Admin, body: Rotation = NO_ROTATION) -> Response:
    """Create a key and publish it before it signs."""
    lead = _lead(body)

    async def step(database: Database) -> WriteResult:
        made = await _keys(work, database).rotate(Algorithm(body.algorithm), lead)
        return WriteResult({**key_as_json(made)})

    return await write(request, work, step)


@router.post(
    "/keys/{key:word}:retire",
    response_model=SigningKeyResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def retire_key(request: Request, work: Admin, key: KeyPath) -> Response:
    """Revoke a key early, which invalidates its tokens."""

    async def step(database: Database) -> WriteResult:
        return WriteResult({**key_as_json(await _keys(work, database).retire(key))})

    return await write(request, work, step)


@router.post(
    "/keys:rewrap", response_model=RewrappedResponse, responses=_CHANGED, dependencies=REPEATABLE
)
async def rewrap_keys(request: Request, work: Admin) -> Response:
    """Encrypt all private keys with the first master key of the server."""

    async def step(database: Database) -> WriteResult:
        return WriteResult({"rewrapped": await _keys(work, database).rewrap()})

    return await write(request, work, step)


def _keys(work: Work, database: Database) -> SigningKeys:
    return SigningKeys(database, KeyMaterial(work.settings), work.who)


def _lead(body: Rotation) -> timedelta:
    if body.now:
        if body.lead is not None:
            error = {"in": "body", "name": "lead", "message": "cannot be combined with `now`"}
            raise invalid("send `lead` or `now`", error)
        return timedelta(0)
    lead = LEAD if body.lead is None else parse_duration(body.lead)
    if not timedelta(0) < lead <= LONGEST_LEAD:
        message = f"must be at most {format_duration(LONGEST_LEAD)}; use `now` for none"
        raise invalid(
            "the lead is out of range", {"in": "body", "name": "lead", "message": message}
        )
    return lead
