"""`tenantcron health`: checks the health of the cluster and shows how to fix problems."""

import argparse
from dataclasses import replace
from datetime import timedelta

from rich.console import Console
from rich.text import Text
from sqlalchemy.exc import DBAPIError

from tenantcron.cli.operating import CommandResult, add_format, respond, settings
from tenantcron.core.durations import format_duration
from tenantcron.core.settings import Settings, has_keys
from tenantcron.core.words import number_of, visible
from tenantcron.scheduler.inspect.cluster_status import ClusterStatus, read_cluster_status
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.scheduler.inspect.health import examine
from tenantcron.scheduler.inspect.health_locks import locked_findings
from tenantcron.service.responses.health import finding_as_json, health_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.lock_waits import exclusive_locks, is_lock_timeout

_EXAMPLES = """\
examples:
  tenantcron health                      exit code 1 if there are findings
  tenantcron health --format json
"""
# Per statement, so that the command returns within 5 s even if a table is locked.
_LOCK_WAIT = timedelta(seconds=2)
_STYLES = {FindingSeverity.ERROR: "bold red", FindingSeverity.WARNING: "bold yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Check the health of the cluster: schedulers, schedules and executions."
    parser.epilog = _EXAMPLES
    add_format(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, _: argparse.Namespace) -> CommandResult:
    try:
        status = await _cluster_status(database.impatient(_LOCK_WAIT))
    except DBAPIError as error:
        if not is_lock_timeout(error):
            raise
        return _blocked(locked_findings(await exclusive_locks(database)))
    findings = examine(status)

    def show(console: Console) -> None:
        _show(status, findings, console)

    return CommandResult(health_as_json(status, findings), show, int(bool(findings)))


async def _cluster_status(database: Database) -> ClusterStatus:
    async with database.transaction() as connection:
        status = await read_cluster_status(connection, settings().lease, None)
    return replace(status, signing_fault=await _signing_fault(database, settings()))


def _blocked(findings: list[Finding]) -> CommandResult:
    """Report only the locks, because they block all other reads."""

    def show(console: Console) -> None:
        _show_findings(findings, console)

    return CommandResult(
        {"healthy": False, "findings": [finding_as_json(finding) for finding in findings]}, show, 1
    )


async def _signing_fault(database: Database, settings: Settings) -> str | None:
    if not has_keys(settings):
        return None
    from tenantcron.cli.keys import signing_keys  # noqa: PLC0415 -- only needed with keys
    from tenantcron.scheduler.tokens.signing_keys import signing_fault  # noqa: PLC0415 -- as above

    return await signing_fault(signing_keys(database, None))


def _show_findings(findings: list[Finding], console: Console) -> None:
    for finding in findings:
        title = Text(f"{finding.severity}[{finding.code}] ", _STYLES[finding.severity])
        console.print(title.append(visible(finding.message), "default"), soft_wrap=True)
        if finding.subjects:
            more = ", …" if finding.count > len(finding.subjects) else ""
            console.print(Text(visible(f"  {', '.join(finding.subjects)}{more}")), soft_wrap=True)
        console.print(Text(visible(f"  = {finding.hint}"), "dim"), soft_wrap=True)


def _show(status: ClusterStatus, findings: list[Finding], console: Console) -> None:
    _show_findings(findings, console)
    replicas = number_of(len(status.replicas), "replica")
    console.print(
        f"{replicas}, {status.running} of {status.limits.overall} running, "
        f"{status.queue.number} waiting, lag {format_duration(status.lag)}"
    )
    if not findings:
        console.print(Text("healthy", "green"))
