"""Requested webhooks: the check of everything that a user writes, with the policy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tenantcron.core.egress import read_url
from tenantcron.core.errors import UsageError
from tenantcron.core.names import NAME_EXPECTED, TENANT_EXPECTED, TenantId, is_name, is_tenant_id
from tenantcron.core.secret_refs import may_use
from tenantcron.core.suggest import close_match
from tenantcron.core.words import shortened, visible
from tenantcron.events.cloud_events import EVENT_TYPES, PREFIX
from tenantcron.events.webhooks.requests import read_ref
from tenantcron.manifests.policy import Policy
from tenantcron.store.rows.webhooks import Webhook

_LONGEST_URL: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """A webhook as a user requests it; nothing is checked yet."""

    name: str
    url: str
    events: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    secret: str | None = None
    batch: bool = False


@dataclass(frozen=True, slots=True)
class WebhookProblem:
    """A problem of a requested webhook: the field, and what is wrong with it."""

    field: str
    message: str


class WebhookRequestError(UsageError):
    """A requested webhook has problems; all of them are reported."""

    def __init__(self, problems: list[WebhookProblem]) -> None:
        lines = (f"  {_OPTIONS[problem.field]}: {problem.message}" for problem in problems)
        super().__init__("\n".join(["the webhook cannot be added", *lines]))
        self.problems = problems


# The fields by their names on the command line.
_OPTIONS: Final = {
    "name": "NAME",
    "url": "URL",
    "events": "--event",
    "tenants": "--tenant",
    "secret": "--secret",
}


def checked_webhook(request: WebhookRequest, policy: Policy, created_by: str) -> Webhook:
    """Return the requested webhook; report all its problems at once."""
    types = {given: _types(given) for given in request.events}
    problems = [
        *_name_problems(request.name),
        *_url_problems(request.url, policy),
        *(_unknown_type(given) for given, found in types.items() if not found),
        *_tenant_problems(request.tenants),
        *_secret_problems(request.secret, policy),
    ]
    if problems:
        raise WebhookRequestError(problems)
    selected = {event_type for found in types.values() for event_type in found} or set(EVENT_TYPES)
    tenants = tuple(TenantId(tenant) for tenant in dict.fromkeys(request.tenants))
    return Webhook(
        name=request.name,
        url=request.url,
        event_types=tuple(event_type for event_type in EVENT_TYPES if event_type in selected),
        tenants=tenants or None,
        secret_ref=request.secret,
        in_batches=request.batch,
        created_by=created_by,
    )


def _types(given: str) -> list[str]:
    """Return the event types of a name: a single type, or a family such as `execution`."""
    name = PREFIX + given.removeprefix(PREFIX)
    return [
        event_type
        for event_type in EVENT_TYPES
        if event_type == name or event_type.startswith(f"{name}.")
    ]


def _unknown_type(given: str) -> WebhookProblem:
    known = [event_type.removeprefix(PREFIX) for event_type in EVENT_TYPES]
    meant = close_match(given.removeprefix(PREFIX), known)
    hint = f"did you mean {meant}?" if meant else f"use one of {', '.join(known)}"
    return WebhookProblem("events", f"{_shown(given)} is not an event type; {hint}")


def _name_problems(name: str) -> Iterator[WebhookProblem]:
    if not is_name(name):
        yield WebhookProblem("name", f"{_shown(name)} is not {NAME_EXPECTED}")


def _url_problems(text: str, policy: Policy) -> Iterator[WebhookProblem]:
    url = read_url(text) if len(text) <= _LONGEST_URL else None
    if url is None:
        yield WebhookProblem("url", "not a valid URL: write https://host/path")
        return
    refusal = policy.egress.refusal(url)
    if refusal is not None:
        message = f"{url.origin} is not allowed: {refusal.message}; {refusal.hint}"
        yield WebhookProblem("url", message)


def _tenant_problems(given: tuple[str, ...]) -> Iterator[WebhookProblem]:
    for tenant in given:
        if not is_tenant_id(tenant):
            yield WebhookProblem("tenants", f"{_shown(tenant)} is not {TENANT_EXPECTED}")


def _secret_problems(given: str | None, policy: Policy) -> Iterator[WebhookProblem]:
    if given is not None and not may_use(read_ref(given), policy.allowed_secrets):
        yield WebhookProblem(
            "secret",
            f"{_shown(given)} is not an allowed secret: the platform team can add it to "
            "allowed_secrets in the [policy] table, as env:NAME or file:/path",
        )


def _shown(text: str) -> str:
    return f"`{shortened(visible(text))}`"
