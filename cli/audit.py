"""`tenantcron audit`: compares expected occurrences with recorded executions."""

import argparse

from rich.console import Console
from rich.text import Text

from tenantcron.cli.operating import CommandResult, add_format, respond, settings, time
from tenantcron.core.values import JsonObject
from tenantcron.core.words import in_utc, number_of, visible
from tenantcron.scheduler.inspect.audit import AuditReport, audit
from tenantcron.scheduler.inspect.audit_findings import AuditFinding
from tenantcron.service.responses.executions import iso
from tenantcron.store.connection.engine import Database
from tenantcron.tenants.registry import tenant_id

_EXAMPLES = """\
examples:
  tenantcron audit                                     all tenants, the entire history
  tenantcron audit --tenant acme --since 2026-12-01T00:00:00Z
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
    parser.add_argument("--tenant", metavar="T", type=tenant_id, help="check this tenant only")
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=time,
        help="check occurrences from this time on (default: all)",
    )
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, arguments: argparse.Namespace) -> CommandResult:
    retention = settings().retention
    audited = await audit(database, retention, tenant=arguments.tenant, since=arguments.since)

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
