"""Shared by the commands for operators: options and output."""

import argparse

from tenantcron.cli.moments import Direction, Moment, moment
from tenantcron.cli.sources import CONTEXT, SERVER, WIDE
from tenantcron.core.errors import UsageError
from tenantcron.core.execution_ids import id_range
from tenantcron.core.names import TenantId, tenant_id
from tenantcron.core.schedule_refs import ScheduleRef, schedule_name, schedule_ref
from tenantcron.core.words import visible
from tenantcron.cron.zones import zone


def add_format(
    parser: argparse.ArgumentParser, *, has_table: bool = False, listing: str | None = None
) -> None:
    """Declare the output format; a list also has CSV, from the key `listing` of its response."""
    formats = ["text", "json", "yaml", *(["csv"] if listing else [])]
    parser.add_argument(
        "--format", choices=formats, default="text", help="set the output format (text)"
    )
    parser.set_defaults(wide=False, listing=listing)
    if has_table:
        parser.add_argument("--wide", action="store_true", help=WIDE)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster."""
    parser.add_argument("--server", metavar="URL", help=SERVER)
    parser.add_argument("--context", metavar="NAME", help=CONTEXT)


def add_database(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster of a command that needs its database."""
    parser.add_argument("--server", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--context", metavar="NAME", help=CONTEXT)


def add_actor(parser: argparse.ArgumentParser) -> None:
    """Declare the actor."""
    parser.add_argument("--actor", metavar="ID", help="record this actor (default: login)")


def add_reason(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Declare the reason."""
    words = "record this reason"
    parser.add_argument("--reason", metavar="TEXT", type=_reason, required=required, help=words)


def past(text: str) -> Moment:
    """Parse a time for --since: `1h` is an hour ago; a time without an offset is UTC."""
    return moment(text, zone("UTC"), Direction.PAST)


def future(text: str) -> Moment:
    """Parse a time for --until: `1h` is in an hour; a time without an offset is UTC."""
    return moment(text, zone("UTC"), Direction.FUTURE)


def add_tenant(parser: argparse.ArgumentParser, *, may_name_schedule: bool = False) -> None:
    """Declare a filter by tenant: as an argument or as an option."""
    name = "TENANT[/SCHEDULE]" if may_name_schedule else "TENANT"
    parser.add_argument("scope", nargs="?", metavar=name, help="filter by tenant (default: all)")
    parser.add_argument("--tenant", metavar="T", type=tenant_id, help="the same as an option")


def scope(arguments: argparse.Namespace) -> tuple[TenantId | None, str | None]:
    """Return the tenant and the schedule that were named; both ways must agree."""
    tenant, _, schedule = (arguments.scope or "").partition("/")
    named = tenant_id(tenant) if arguments.scope is not None else None
    if named is not None and arguments.tenant not in (None, named):
        raise UsageError(f"two tenants are named, {named} and {arguments.tenant}: name one")
    if not schedule and "/" not in (arguments.scope or ""):
        return named or arguments.tenant, getattr(arguments, "schedule", None)
    return named, schedule_name(schedule)


def schedule_or_id(text: str) -> ScheduleRef | str:
    """Parse TENANT/SCHEDULE, or the id of an execution or its first characters."""
    if "/" in text:
        return schedule_ref(text)
    id_range(text)
    return text


def _reason(text: str) -> str:
    shown = visible(text).strip()
    if not shown:
        raise argparse.ArgumentTypeError("give a reason that is not empty")
    return shown
