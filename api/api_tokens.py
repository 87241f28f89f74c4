"""API tokens: list, create and revoke them."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from tenantcron.actor.grants import Grant, Role
from tenantcron.api.inputs import NewApiToken
from tenantcron.api.replies import conditional_reply
from tenantcron.api.routing import READ, REPEATABLE, Admin, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import tenant_id
from tenantcron.core.token_lives import token_life
from tenantcron.service.responses.platform_shapes import (
    NewTokenResponse,
    TokenList,
    TokenResponse,
)
from tenantcron.service.responses.tokens import token_as_json
from tenantcron.service.tokens import create_token, list_tokens, revoke_token
from tenantcron.store.connection.engine import Database

router = APIRouter(tags=["tokens"], route_class=StrictRoute)

TokenPath = Annotated[str, Path(pattern="^[0-9a-z]{12}$", description="The id of the token.")]


@router.get("/tokens", response_model=TokenList, responses=READ)
async def list_api_tokens(request: Request, work: Admin) -> Response:
    """List all API tokens without their secrets, newest first."""
    rows = await list_tokens(work.writing)
    return conditional_reply(request, {"tokens": [token_as_json(row) for row in rows]})


@router.post(
    "/tokens",
    status_code=201,
    response_model=NewTokenResponse,
    responses=problems(404, 409),
    dependencies=REPEATABLE,
)
async def create_api_token(request: Request, work: Admin, body: NewApiToken) -> Response:
    """Create an API token with at most the rights of the caller.

    The secret is returned once and not stored: the response to a repeated request with the same
    `Idempotency-Key` has null.
    """
    grant = Grant(Role(body.role), None if body.tenant is None else tenant_id(body.tenant))
    work.require_grant(grant)
    lives = token_life(body.expires_in, "expires_in")

    async def step(database: Database) -> WriteResult:
        created = await create_token(database, work.who, name=body.name, grant=grant, lives=lives)
        shown = token_as_json(created.row)
        return WriteResult(
            {**shown, "token": created.new.text},
            HTTPStatus.CREATED,
            stored={**shown, "token": None},
        )

    return await write(request, work, step)


@router.post(
    "/tokens/{token:word}:revoke",
    response_model=TokenResponse,
    responses=problems(404, 409),
    dependencies=REPEATABLE,
)
async def revoke_api_token(request: Request, work: Admin, token: TokenPath) -> Response:
    """Revoke an API token permanently."""

    async def step(database: Database) -> WriteResult:
        return WriteResult({**token_as_json(await revoke_token(database, work.who, token))})

    return await write(request, work, step)
