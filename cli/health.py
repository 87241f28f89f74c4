"""`tenantcron health`: checks the health of the cluster and shows how to fix problems."""

import argparse
from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.operating import add_cluster, add_format
from tenantcron.cli.responding import CommandResult, respond
from tenantcron.cli.watching import add_watch
from tenantcron.core.durations import format_duration
from tenantcron.core.words import number_of, visible
from tenantcron.service.responses.shapes import HealthFindingResponse, HealthResponse

_EXAMPLES = """\
examples:
  tenantcron health                      exit code 1 if there are findings
  tenantcron health --format json
"""
_STYLES = {"error": "bold red", "warning": "bold yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Check the health of the cluster: schedulers, schedules and executions."
    parser.epilog = _EXAMPLES
    add_cluster(parser)
    add_format(parser)
    add_watch(parser)
    parser.set_defaults(run=respond, work=_work)


async def _work(cluster: ClusterAccess, _: argparse.Namespace) -> CommandResult:
    found = await cluster.inspection.health()
    return CommandResult(found, lambda console: _show(found, console), int(not found["healthy"]))


def _show_findings(findings: Sequence[HealthFindingResponse], console: Console) -> None:
    for finding in findings:
        severity = finding["severity"]
        title = Text(f"{severity}[{finding['code']}] ", _STYLES[severity])
        console.print(title.append(visible(finding["message"]), "default"), soft_wrap=True)
        if finding["subjects"]:
            more = ", …" if finding["count"] > len(finding["subjects"]) else ""
            subjects = f"  {', '.join(finding['subjects'])}{more}"
            console.print(Text(visible(subjects)), soft_wrap=True)
        console.print(Text(visible(f"  = {finding['hint']}"), "dim"), soft_wrap=True)


def _show(found: HealthResponse, console: Console) -> None:
    _show_findings(found["findings"], console)
    if "replicas" not in found:  # a lock blocks reading them
        return
    replicas = number_of(len(found["replicas"]), "replica")
    lag = timedelta(seconds=found["lag_seconds"])
    console.print(
        f"{replicas}, {found['running']} of {found['max_concurrent']} running, "
        f"{found['waiting']} waiting, lag {format_duration(lag)}"
    )
    if found["healthy"]:
        console.print(Text("healthy", "green"))
