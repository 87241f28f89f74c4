"""`tenantcron audit`: compares expected occurrences with recorded executions."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.operating import (
    CommandResult,
    add_format,
    add_tenant,
    past,
    resolved,
    respond,
    scope,
    settings,
)
from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject
from tenantcron.core.words import in_utc, number_of, visible
from tenantcron.scheduler.inspect.audit import AuditReport, audit
from tenantcron.scheduler.inspect.audit_findings import AuditFinding
from tenantcron.service.responses.executions import iso
from tenantcron.store.connection.engine import Database

_EXAMPLES = """\
examples:
  tenantcron audit                                     all tenants, the entire history
  tenantcron audit acme --since 7d
  tenantcron audit --format json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Compute the occurrences that every schedule should have fired and compare them with the "
        "recorded executions; compare the scheduler's cursors with the schedules. Changes "
        "nothing. Exits with 1 if an occurrence is lost or duplicated or a cursor differs."
    )
    parser.epilog = _EXAMPLES
    add_tenant(parser)
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=past,
        help="check from TIME on, such as 1h or 18:00 (default: all)",
    )
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, arguments: argparse.Namespace) -> CommandResult:
    tenant, schedule = scope(arguments)
    if schedule is not None:
        raise UsageError(f"an audit covers all schedules of a tenant: use `audit {tenant}`")
    since = await resolved(database, arguments.since)
    audited = await audit(database, settings().retention, tenant=tenant, since=since)

    def show(console: Console) -> None:
        _show(audited, console)

    return CommandResult(_as_json(audited), show, int(bool(audited.findings)))


def _as_json(audited: AuditReport) -> JsonObject:
    return {
        "since": audited.since.isoformat(),
        "until": audited.until.isoformat(),
        "tenants": audited.tenants,
        "schedules": audited.schedules,
        "occurrences": audited.occurrences,
        "findings": [_finding(finding) for finding in audited.findings],
    }


def _finding(finding: AuditFinding) -> JsonObject:
    return {
        "code": finding.code.value,
        "tenant": finding.tenant,
        "schedule": finding.schedule,
        "since": iso(finding.since),
        "until": iso(finding.until),
        "count": finding.count,
        "message": finding.message,
        "hint": finding.hint,
    }


def _show(audited: AuditReport, console: Console) -> None:
    for finding in audited.findings:
        place = f"{finding.tenant}/{finding.schedule}" if finding.schedule else finding.tenant
        title = Text(f"error[{finding.code}] ", "bold red")
        message = visible(f"{place}: {finding.message}")
        console.print(title.append(message, "default"), soft_wrap=True)
        console.print(Text(visible(f"  = {finding.hint}"), "dim"), soft_wrap=True)
    checked = ", ".join(
        (
            number_of(audited.tenants, "tenant"),
            number_of(audited.schedules, "schedule"),
            number_of(audited.occurrences, "occurrence"),
        )
    )
    found = number_of(len(audited.findings), "finding") if audited.findings else "no findings"
    console.print(f"{checked} since {in_utc(audited.since)}: {found}")
