"""`tenantcron why`: explains why a schedule or a task did not run."""

import argparse
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.clusters.tasks import TaskRef, task_ref
from tenantcron.cli.operating import add_cluster, add_format
from tenantcron.cli.responding import CommandResult, respond
from tenantcron.cli.watching import add_watch
from tenantcron.core.errors import NotFoundError, UsageError
from tenantcron.core.execution_ids import is_prefix
from tenantcron.core.schedule_refs import ScheduleRef, schedule_ref
from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import FindingResponse

_EXAMPLES = """\
examples:
  tenantcron why acme/nightly
  tenantcron why acme/nightly --format json
  tenantcron why acme/019a9c1e-7d1c     a task
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Explain why a schedule or a task did not run. The main reason comes first."
    )
    parser.epilog = _EXAMPLES
    words = "tenant id, and schedule name or task id"
    parser.add_argument("schedule", metavar="TENANT/SCHEDULE|ID", type=_ref, help=words)
    add_cluster(parser)
    add_format(parser)
    add_watch(parser)
    parser.set_defaults(run=respond, work=_work)


def _ref(text: str) -> ScheduleRef | TaskRef:
    """Parse a reference. The ids of tasks begin with a digit, names never do."""
    tenant, slash, name = text.rpartition("/")
    if not name[:1].isdecimal() or not is_prefix(name):
        return schedule_ref(text)
    if not slash:
        raise UsageError(
            f"{name} needs a name: TENANT/SCHEDULE of an execution, or TENANT/{name} of a task. "
            f"`tenantcron execution show {name}` shows an execution with its reason"
        )
    return task_ref(f"{tenant}/{name}")


async def _work(cluster: ClusterAccess, arguments: argparse.Namespace) -> CommandResult:
    ref: ScheduleRef | TaskRef = arguments.schedule
    try:
        if isinstance(ref, TaskRef):
            task = await cluster.tasks.why(ref)
            return _result(task, task["findings"], code=0)
        found = await cluster.schedules.why(ref)
        return _result(found, found["findings"], code=0)
    except NotFoundError as error:
        return _unknown(ref, error)


def _unknown(ref: ScheduleRef | TaskRef, error: NotFoundError) -> CommandResult:
    """Return the finding about a schedule or a task that does not exist."""
    named = {"task": ref.prefix} if isinstance(ref, TaskRef) else {"schedule": ref.schedule}
    answer = f"{error.problem}."
    kind = "task" if isinstance(ref, TaskRef) else "schedule"
    hint = error.hint or f"`tenantcron {kind} list {ref.tenant}` lists all {kind}s"
    finding: FindingResponse = {"code": "unknown", "message": answer, "hint": hint}
    shown = {"tenant": ref.tenant, **named, "answer": answer, "findings": [finding]}
    return _result(shown, [finding], code=1)


def _result(
    shown: Mapping[str, object], findings: Sequence[FindingResponse], code: int
) -> CommandResult:
    first, *others = findings

    def show(console: Console) -> None:
        console.print(Text(visible(first["message"]), "bold"), soft_wrap=True)
        console.print(Text(visible(f"  = {first['hint']}"), "dim"), soft_wrap=True)
        for reason in others:
            console.print(Text(visible(f"- {reason['message']}")), soft_wrap=True)
            console.print(Text(visible(f"  = {reason['hint']}"), "dim"), soft_wrap=True)

    return CommandResult(shown, show, code)
