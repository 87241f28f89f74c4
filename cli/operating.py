"""Shared by the commands for operators: options and output."""

import argparse
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console

from tenantcron.cli.database import acting, refused, with_database
from tenantcron.cli.moments import Direction, Moment, moment
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.sources import WIDE
from tenantcron.cli.tables import output
from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings, load_settings
from tenantcron.core.words import visible
from tenantcron.cron.zones import zone
from tenantcron.manifests.policy import policy_in
from tenantcron.provider.schedule_limits import Bounds
from tenantcron.scheduler.inspect.schedule_status import UnknownError, schedule_name
from tenantcron.scheduler.operate.operator import Operator
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.tenants.errors import TenantError
from tenantcron.tenants.registry import tenant_id
from tenantcron.tenants.source.reading import SourceError

_REFUSALS = (OperationError, UnknownError, TenantError, SourceError)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: JSON for programs, text for people, and the exit code."""

    data: Mapping[str, object]
    show: Callable[[Console], None]
    code: int = 0


Work = Callable[[Database, argparse.Namespace], Awaitable[CommandResult]]


def respond(arguments: argparse.Namespace) -> int:
    """Run the work of a command and show its result."""
    work: Work = arguments.work

    async def run(database: Database) -> CommandResult:
        return await work(database, arguments)

    try:
        answer = with_database(run)
    except _REFUSALS as error:
        return refused(error)
    with reader_may_leave():
        if arguments.format == "json":
            print(json.dumps(answer.data, indent=2))
        else:
            answer.show(output(is_wide=arguments.wide))
    return answer.code


def settings() -> Settings:
    """Return the settings of the working directory and the environment."""
    return load_settings(os.environ, Path.cwd())


def operator(database: Database, arguments: argparse.Namespace) -> Operator:
    """Return the operator that acts as the caller."""
    given = settings()
    return Operator(database, given, acting(arguments.actor), bounds=bounds_of(given))


def bounds_of(given: Settings) -> Bounds:
    """Return the bounds of schedules in the policy of the working directory."""
    policy = policy_in(given.folder, None)
    return Bounds(policy.minimum_interval, policy.max_schedules_per_tenant, policy.caps)


def add_format(parser: argparse.ArgumentParser, *, has_table: bool = False) -> None:
    """Declare the output format."""
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="set the output format (text)"
    )
    parser.set_defaults(wide=False)
    if has_table:
        parser.add_argument("--wide", action="store_true", help=WIDE)


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


async def resolved(database: Database, given: Moment | None) -> datetime | None:
    """Return the absolute time; relative ones are computed from the database's clock."""
    if given is None:
        return None
    async with database.transaction() as connection:
        return given(await database_time(connection))


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


def _reason(text: str) -> str:
    shown = visible(text).strip()
    if not shown:
        raise argparse.ArgumentTypeError("give a reason that is not empty")
    return shown
