"""`tenantcron webhook`: manages webhooks, which receive events."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.text import Text

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.database import acting
from tenantcron.cli.operating import (
    CommandResult,
    add_actor,
    add_format,
    add_reason,
    respond,
    settings,
)
from tenantcron.cli.tables import print_table
from tenantcron.core.egress import read_url
from tenantcron.core.errors import UsageError
from tenantcron.core.names import NAME_EXPECTED, TENANT_EXPECTED, TenantId, is_name, is_tenant_id
from tenantcron.core.secret_refs import may_use
from tenantcron.core.suggest import close_match
from tenantcron.core.words import in_utc, shortened, visible
from tenantcron.manifests.policy import Policy, policy_in
from tenantcron.scheduler.events.webhooks import (
    EVENT_TYPES,
    MOST_WEBHOOKS,
    PREFIX,
    TEST_TYPE,
    WebhookDeliveryError,
    WebhookSender,
    read_ref,
)
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.service.responses.executions import iso
from tenantcron.store.connection import times
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, outbox, tenants, webhooks
from tenantcron.store.rows.outbox import Event, WebhookBacklog
from tenantcron.store.rows.webhooks import Webhook
from tenantcron.targets.http import HttpClient

_EXAMPLES = """\
examples:
  tenantcron webhook add ops https://ops.internal/hooks --event execution.dead --event schedule
  tenantcron webhook add lake https://lake.internal/in --batch --secret env:LAKE_SECRET
  tenantcron webhook add acme-own https://hooks.acme.example/cron --tenant acme
  tenantcron webhook test ops
  tenantcron webhook list
"""
_COLUMNS = (
    Column("name", Fit.NAME),
    Column("calls", Fit.NAME),
    Column("events", Fit.PROSE),
    Column("tenants", Fit.PROSE),
    Column("state", Fit.PROSE),
    Column("waiting", Fit.OPTIONAL),
    Column("dropped", Fit.OPTIONAL),
)
_LONGEST_URL = 2048
# The id of test events. No tenant can have it.
_NO_TENANT = TenantId("tenantcron")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    parser.description = (
        "Manage webhooks, which receive events of executions, schedules and tenants. A change "
        "reaches all schedulers within seconds and is recorded in the audit."
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="send events to a URL from now on")
    add.add_argument("name", metavar="NAME", help="name of the webhook")
    add.add_argument("url", metavar="URL", help="URL that receives the events")
    types = ", ".join(event_type.removeprefix(PREFIX) for event_type in EVENT_TYPES)
    add.description = f"Send events to a URL from now on. Types: {types}."
    words = "send only this type or family of events, repeatable"
    add.add_argument("--event", action="append", metavar="TYPE", help=words)
    words = "send only events of this tenant, repeatable"
    add.add_argument("--tenant", action="append", metavar="T", help=words)
    add.add_argument("--secret", metavar="REF", help="sign with env:NAME or file:/path")
    add.add_argument("--batch", action="store_true", help="send several events per request")
    test = actions.add_parser("test", help="send a test event from this machine")
    enable = actions.add_parser("enable", help="enable a disabled webhook")
    disable = actions.add_parser("disable", help="disable a webhook without removing it")
    add_reason(disable)
    remove = actions.add_parser("remove", help="remove a webhook and its pending events")
    listing = actions.add_parser("list", help="list all webhooks and their pending events")
    for action in (test, enable, disable, remove):
        action.add_argument("name", metavar="NAME", help="name of the webhook")
    for action in (add, test):
        action.add_argument("--policy", type=Path, metavar="FILE", help="use this tenantcron.toml")
    for action in (add, enable, disable, remove):
        add_actor(action)
    works = {add: _add, test: _test, enable: _enable, disable: _disable, remove: _remove}
    for action, work in {**works, listing: _list}.items():
        add_format(action, has_table=action is listing)
        action.set_defaults(run=respond, work=work)


async def _add(database: Database, arguments: argparse.Namespace) -> CommandResult:
    new = _checked(arguments)
    async with database.transaction() as connection:
        await audit_records.act(connection, acting(arguments.actor))
        await webhooks.lock(connection)
        known = {row.id for row in await tenants.list_all(connection)}
        unknown = [tenant for tenant in new.tenants or () if tenant not in known]
        if unknown:
            raise UnknownError(f"there is no tenant {', '.join(unknown)}: nothing was added")
        if len(await webhooks.list_all(connection)) >= MOST_WEBHOOKS:
            raise OperationError(f"there can be at most {MOST_WEBHOOKS} webhooks: remove one first")
        row = await webhooks.add(connection, new)
    if row is None:
        raise OperationError(f"a webhook `{new.name}` exists: remove it first, or use another name")
    return _result(row, f"webhook {row.name} receives events from now on")


def _checked(arguments: argparse.Namespace) -> Webhook:
    """Return the requested webhook; report all its problems at once."""
    policy = policy_in(Path.cwd(), arguments.policy)
    types = {given: _types(given) for given in arguments.event or ()}
    problems = [
        *_name_problems(arguments.name),
        *_url_problems(arguments.url, policy),
        *(_unknown_type(given) for given, found in types.items() if not found),
        *_tenant_problems(arguments.tenant or ()),
        *_secret_problems(arguments.secret, policy),
    ]
    if problems:
        raise UsageError("\n".join(["the webhook cannot be added", *problems]))
    selected = {event_type for found in types.values() for event_type in found} or set(EVENT_TYPES)
    return Webhook(
        name=arguments.name,
        url=arguments.url,
        event_types=tuple(event_type for event_type in EVENT_TYPES if event_type in selected),
        tenants=tuple(dict.fromkeys(arguments.tenant)) if arguments.tenant else None,
        secret_ref=arguments.secret,
        in_batches=arguments.batch,
        created_by=acting(arguments.actor).changed_by,
    )


def _types(given: str) -> list[str]:
    """Return the event types of a name: a single type, or a family such as `execution`."""
    name = PREFIX + given.removeprefix(PREFIX)
    return [
        event_type
        for event_type in EVENT_TYPES
        if event_type == name or event_type.startswith(f"{name}.")
    ]


def _unknown_type(given: str) -> str:
    known = [event_type.removeprefix(PREFIX) for event_type in EVENT_TYPES]
    meant = close_match(given.removeprefix(PREFIX), known)
    hint = f"did you mean {meant}?" if meant else f"use one of {', '.join(known)}"
    return f"  --event: {_shown(given)} is not an event type; {hint}"


def _name_problems(name: str) -> Iterator[str]:
    if not is_name(name):
        yield f"  NAME: {_shown(name)} is not {NAME_EXPECTED}"


def _url_problems(text: str, policy: Policy) -> Iterator[str]:
    url = read_url(text) if len(text) <= _LONGEST_URL else None
    if url is None:
        yield "  URL: not a valid URL: write https://host/path"
        return
    refusal = policy.egress.refusal(url)
    if refusal is not None:
        yield f"  URL: {url.origin} is not allowed: {refusal.message}; {refusal.hint}"


def _tenant_problems(given: Iterable[str]) -> Iterator[str]:
    for tenant in given:
        if not is_tenant_id(tenant):
            yield f"  --tenant: {_shown(tenant)} is not {TENANT_EXPECTED}"


def _secret_problems(given: str | None, policy: Policy) -> Iterator[str]:
    if given is not None and not may_use(read_ref(given), policy.allowed_secrets):
        yield (
            f"  --secret: {_shown(given)} is not an allowed secret: the platform team can add it "
            "to allowed_secrets in the [policy] table, as env:NAME or file:/path"
        )


def _shown(text: str) -> str:
    return f"`{shortened(visible(text))}`"


async def _test(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        found = await webhooks.find(connection, arguments.name)
        now = await times.database_time(connection)
    if found is None:
        raise _unknown(arguments.name)
    policy = policy_in(Path.cwd(), arguments.policy)
    caller = HttpClient(policy.egress, ca_file=settings().ca_file)
    event = Event(0, uuid4(), TEST_TYPE, f"webhooks/{found.name}", now, {"webhook": found.name})
    try:
        await WebhookSender(caller, policy.allowed_secrets).send(found, _NO_TENANT, [event], now)
    except WebhookDeliveryError as error:
        raise OperationError(f"webhook {found.name} did not accept the event: {error}") from error
    finally:
        await caller.close()
    answer = _result(found, f"webhook {found.name} accepted the event")
    return CommandResult({**answer.data, "event": str(event.id)}, answer.show)


async def _enable(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        await audit_records.act(connection, acting(arguments.actor))
        found = await webhooks.find(connection, arguments.name)
        row = await webhooks.enable(connection, arguments.name) or found
    if row is None:
        raise _unknown(arguments.name)
    return _result(row, f"webhook {row.name} receives events from now on")


async def _disable(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        await audit_records.act(connection, acting(arguments.actor))
        found = await webhooks.find(connection, arguments.name)
        row = await webhooks.disable(connection, arguments.name, arguments.reason) or found
    if row is None:
        raise _unknown(arguments.name)
    return _result(row, f"webhook {row.name} is disabled")


async def _remove(database: Database, arguments: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        await audit_records.act(connection, acting(arguments.actor))
        row = await webhooks.remove(connection, arguments.name)
    if row is None:
        raise _unknown(arguments.name)
    return _result(row, f"webhook {row.name} and its pending events are removed")


async def _list(database: Database, _: argparse.Namespace) -> CommandResult:
    async with database.transaction() as connection:
        rows = await webhooks.list_all(connection)
        backlogs = await outbox.backlogs(connection)

    def show(console: Console) -> None:
        if rows:
            cells = [tuple(_cells(row, backlogs.get(row.name))) for row in rows]
            print_table(console, _COLUMNS, cells)
        else:
            console.print("no webhooks: `tenantcron webhook add NAME URL`")
        for backlog in backlogs.values():
            if backlog.error is not None:
                console.print(Text(visible(f"{backlog.webhook}: {backlog.error}"), "yellow"))

    return CommandResult(
        {"webhooks": [_as_json(row, backlogs.get(row.name)) for row in rows]}, show
    )


def _cells(row: Webhook, backlog: WebhookBacklog | None) -> Iterator[str]:
    # Show only the origin: a path or a query may contain a secret.
    url = read_url(row.url)
    yield row.name
    yield url.origin if url else "?" if row.url else "hidden"
    all_types = row.event_types == EVENT_TYPES
    short = (event_type.removeprefix(PREFIX) for event_type in row.event_types)
    yield "all" if all_types else ", ".join(short)
    yield "all" if row.tenants is None else ", ".join(row.tenants)
    yield (
        "on"
        if row.disabled_at is None
        else f"off: {visible(row.disabled_reason or 'no reason given')}"
    )
    yield f"since {in_utc(backlog.oldest)}" if backlog else ""
    yield str(row.dropped)


def _unknown(name: str) -> UnknownError:
    return UnknownError(f"there is no webhook {name!a}: `tenantcron webhook list` shows all")


def _result(row: Webhook, words: str) -> CommandResult:
    def show(console: Console) -> None:
        console.print(words, soft_wrap=True)

    return CommandResult(_as_json(row, None), show)


def _as_json(row: Webhook, backlog: WebhookBacklog | None) -> Mapping[str, object]:
    url = read_url(row.url)
    return {
        "name": row.name,
        "calls": url.origin if url else None,
        "events": list(row.event_types),
        "tenants": None if row.tenants is None else list(row.tenants),
        "secret": row.secret_ref,
        "batch": row.in_batches,
        "created_by": row.created_by,
        "created_at": iso(row.created_at),
        "disabled_at": iso(row.disabled_at),
        "disabled_reason": row.disabled_reason,
        "waiting_since": iso(backlog.oldest) if backlog else None,
        "tenants_waiting": backlog.lanes if backlog else 0,
        "error": backlog.error if backlog else None,
        "dropped": row.dropped,
    }
