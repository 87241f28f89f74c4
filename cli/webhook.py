"""`tenantcron webhook`: manages webhooks, which receive events."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.clusters.platform import WebhookOrder
from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.moments import utc
from tenantcron.cli.operating import add_actor, add_cluster, add_format, add_reason
from tenantcron.cli.responding import CommandResult, respond
from tenantcron.cli.tables import print_table
from tenantcron.core.words import visible
from tenantcron.events.cloud_events import EVENT_TYPES, PREFIX
from tenantcron.service.responses.platform_shapes import WebhookResponse

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
        add_cluster(action)
        is_list = action is listing
        add_format(action, has_table=is_list, listing="webhooks" if is_list else None)
        action.set_defaults(run=respond, work=work, removes=action is remove)


async def _add(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    order = WebhookOrder(
        name=arguments.name,
        url=arguments.url,
        events=arguments.event or (),
        tenants=arguments.tenant or (),
        secret=arguments.secret,
        batch=arguments.batch,
    )
    webhook = await cluster.webhooks.add(order, arguments.policy)
    return _result(webhook, f"webhook {webhook['name']} receives events from now on")


async def _test(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    webhook = await cluster.webhooks.test(arguments.name, arguments.policy)
    return _result(webhook, f"webhook {webhook['name']} accepted the event")


async def _enable(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    webhook = await cluster.webhooks.enable(arguments.name)
    return _result(webhook, f"webhook {webhook['name']} receives events from now on")


async def _disable(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    webhook = await cluster.webhooks.disable(arguments.name, arguments.reason)
    return _result(webhook, f"webhook {webhook['name']} is disabled")


async def _remove(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    webhook = await cluster.webhooks.remove(arguments.name)
    return _result(webhook, f"webhook {webhook['name']} and its pending events are removed")


async def _list(cluster: ClusterAccess, _: argparse.Namespace) -> CommandResult:
    found = await cluster.webhooks.list_all()

    def show(console: Console) -> None:
        if found["webhooks"]:
            cells = [tuple(_cells(webhook)) for webhook in found["webhooks"]]
            print_table(console, _COLUMNS, cells)
        else:
            console.print("no webhooks: `tenantcron webhook add NAME URL`")
        for webhook in found["webhooks"]:
            if webhook["error"] is not None:
                message = visible(f"{webhook['name']}: {webhook['error']}")
                console.print(Text(message, "yellow"))

    return CommandResult(found, show)


def _cells(webhook: WebhookResponse) -> Iterator[str]:
    yield webhook["name"]
    # Only the origin is shown: a path or a query may contain a secret.
    yield webhook["calls"] or "hidden"
    all_types = webhook["events"] == list(EVENT_TYPES)
    short = (event_type.removeprefix(PREFIX) for event_type in webhook["events"])
    yield "all" if all_types else ", ".join(short)
    yield "all" if webhook["tenants"] is None else ", ".join(webhook["tenants"])
    reason = visible(webhook["disabled_reason"] or "no reason given")
    yield "on" if webhook["disabled_at"] is None else f"off: {reason}"
    yield f"since {utc(webhook['waiting_since'])}" if webhook["waiting_since"] else ""
    yield str(webhook["dropped"])


def _result(webhook: WebhookResponse, words: str) -> CommandResult:
    def show(console: Console) -> None:
        console.print(words, soft_wrap=True)

    return CommandResult(webhook, show)
