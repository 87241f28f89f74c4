"""`tenantcron audit`: holds what should have fired against what is on record."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.operating import CommandResult, add_format, respond, settings, time
from tenantcron.core.values import JsonObject
from tenantcron.core.words import in_utc, number_of, visible
from tenantcron.scheduler.inspect.audit import Audited, audit
from tenantcron.scheduler.inspect.audit_findings import AuditFinding
from tenantcron.service.responses.executions import iso
from tenantcron.store.connection.engine import Database
from tenantcron.tenants.registry import tenant_id

_EXAMPLES = """\
examples:
  tenantcron audit                                     all tenants, all of the kept history
  tenantcron audit --tenant acme --since 2026-12-01T00:00:00Z
  tenantcron audit --format json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Reckon anew what every schedule should have fired, and hold it against the executions "
        "that are on record; hold the scheduler's cursors against the schedules. Nothing is "
        "changed. Exit code 1 if anything was lost, doubled or differs."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument("--tenant", metavar="T", type=tenant_id, help="of this tenant only")
    parser.add_argument(
        "--since", metavar="TIME", type=time, help="judge occurrences from then on (default: all)"
    )
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, arguments: argparse.Namespace) -> CommandResult:
    retention = settings().retention
    audited = await audit(database, retention, tenant=arguments.tenant, since=arguments.since)

    def show(console: Console) -> None:
        _show(audited, console)

    return CommandResult(_as_json(audited), show, int(bool(audited.findings)))


def _as_json(audited: Audited) -> JsonObject:
    return {
        "since": audited.since.isoformat(),
        "until": audited.until.isoformat(),
        "tenants": audited.tenants,
        "schedules": audited.schedules,
        "occurrences": audited.occurrences,
        "findings": [_finding(one) for one in audited.findings],
    }


def _finding(one: AuditFinding) -> JsonObject:
    return {
        "code": one.code.value,
        "tenant": one.tenant,
        "schedule": one.schedule,
        "since": iso(one.since),
        "until": iso(one.until),
        "count": one.count,
        "message": one.message,
        "hint": one.hint,
    }


def _show(audited: Audited, console: Console) -> None:
    for one in audited.findings:
        of = f"{one.tenant}/{one.schedule}" if one.schedule else one.tenant
        title = Text(f"error[{one.code}] ", "bold red")
        console.print(title.append(visible(f"{of}: {one.message}"), "default"), soft_wrap=True)
        console.print(Text(visible(f"  = {one.hint}"), "dim"), soft_wrap=True)
    looked_at = ", ".join(
        (
            number_of(audited.tenants, "tenant"),
            number_of(audited.schedules, "schedule"),
            number_of(audited.occurrences, "occurrence"),
        )
    )
    found = number_of(len(audited.findings), "finding") if audited.findings else "no findings"
    console.print(f"{looked_at} since {in_utc(audited.since)}: {found}")
