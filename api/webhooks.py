"""Webhooks: list, add, test, enable, disable and remove them."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from tenantcron.api.inputs import NO_REASON, NewWebhook, OptionalReason
from tenantcron.api.replies import conditional_reply, json_reply
from tenantcron.api.routing import READ, REPEATABLE, Admin, StrictRoute, problems
from tenantcron.api.writes import WriteResult, write
from tenantcron.core.names import NAME_PATTERN
from tenantcron.service.problems import invalid
from tenantcron.service.responses.platform_shapes import (
    WebhookList,
    WebhookResponse,
    WebhookTestResponse,
)
from tenantcron.service.responses.webhooks import webhook_as_json, webhooks_as_json
from tenantcron.service.webhook_requests import (
    WebhookRequest,
    WebhookRequestError,
    checked_webhook,
)
from tenantcron.service.webhooks import Webhooks
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.webhooks import Webhook

router = APIRouter(tags=["webhooks"], route_class=StrictRoute)

WebhookPath = Annotated[
    str, Path(pattern=f"^{NAME_PATTERN}$", description="The name of the webhook.")
]
_CHANGED = problems(404, 409)


@router.get("/webhooks", response_model=WebhookList, responses=READ)
async def list_webhooks(request: Request, work: Admin) -> Response:
    """List all webhooks and their undelivered events."""
    rows, backlogs = await Webhooks(work.writing, work.who).list_all()
    return conditional_reply(request, {**webhooks_as_json(rows, backlogs)})


@router.post(
    "/webhooks",
    status_code=201,
    response_model=WebhookResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def add_webhook(request: Request, work: Admin, body: NewWebhook) -> Response:
    """Send events to a URL from now on. The policy of the server must allow URL and secret."""
    new = _checked(work, body)

    async def step(database: Database) -> WriteResult:
        row = await Webhooks(database, work.who).add(new)
        return WriteResult({**webhook_as_json(row)}, HTTPStatus.CREATED)

    return await write(request, work, step)


@router.post(
    "/webhooks/{webhook:word}:test", response_model=WebhookTestResponse, responses=_CHANGED
)
async def test_webhook(work: Admin, request: Request, webhook: WebhookPath) -> Response:  # noqa: ARG001 -- the route checks its query
    """Send a test event to a webhook from the server. This changes nothing."""
    hooks = Webhooks(work.writing, work.who)
    found, event = await hooks.test(webhook, work.service.policy, work.settings)
    return json_reply({**webhook_as_json(found), "event": str(event)})


@router.post(
    "/webhooks/{webhook:word}:enable",
    response_model=WebhookResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def enable_webhook(request: Request, work: Admin, webhook: WebhookPath) -> Response:
    """Deliver undelivered and future events to a webhook."""
    return await _change(request, work, lambda hooks: hooks.enable(webhook))


@router.post(
    "/webhooks/{webhook:word}:disable",
    response_model=WebhookResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def disable_webhook(
    request: Request, work: Admin, webhook: WebhookPath, body: OptionalReason = NO_REASON
) -> Response:
    """Stop deliveries to a webhook without removing it."""
    return await _change(request, work, lambda hooks: hooks.disable(webhook, body.reason))


@router.post(
    "/webhooks/{webhook:word}:remove",
    response_model=WebhookResponse,
    responses=_CHANGED,
    dependencies=REPEATABLE,
)
async def remove_webhook(request: Request, work: Admin, webhook: WebhookPath) -> Response:
    """Remove a webhook and its undelivered events."""
    return await _change(request, work, lambda hooks: hooks.remove(webhook))


async def _change(
    request: Request, work: Work, change: Callable[[Webhooks], Awaitable[Webhook]]
) -> Response:
    async def step(database: Database) -> WriteResult:
        return WriteResult({**webhook_as_json(await change(Webhooks(database, work.who)))})

    return await write(request, work, step)


def _checked(work: Work, body: NewWebhook) -> Webhook:
    requested = WebhookRequest(
        name=body.name,
        url=body.url,
        events=tuple(body.events or ()),
        tenants=tuple(body.tenants or ()),
        secret=body.secret,
        batch=body.batch,
    )
    try:
        return checked_webhook(requested, work.service.policy, work.who.changed_by)
    except WebhookRequestError as error:
        errors = (
            {"in": "body", "name": problem.field, "message": problem.message}
            for problem in error.problems
        )
        raise invalid("the webhook cannot be added", *errors) from error
