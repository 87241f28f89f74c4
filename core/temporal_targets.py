"""The options of Temporal targets, and which workflows a tenant may start.

An entry of the policy's `allowed_temporal_workflows` is `<namespace>/<task queue>/<workflow>`. A
trailing `*` of a part matches the rest of the name: `default/billing/*` allows all workflows of a
task queue. `{tenant}` is replaced by the tenant of the manifest. Names that Temporal reserves for
itself are never allowed.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tenantcron.core.allowed_names import matches
from tenantcron.core.auth import TokenAuth, read_token_auth
from tenantcron.core.values import JsonObject

WORKFLOW_PATTERN: Final = "[A-Za-z_][A-Za-z0-9_.:-]*"
WORKFLOW_EXPECTED: Final = "the type of a workflow such as GenerateInvoice"
QUEUE_PATTERN: Final = "[A-Za-z0-9_][A-Za-z0-9_.:-]*"
QUEUE_EXPECTED: Final = "the name of a task queue: letters, digits, _ . : and -"
NAMESPACE_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9_.-]*"
NAMESPACE_EXPECTED: Final = "the name of a namespace: letters, digits, _ . and -"
LONGEST_NAME: Final = 255
ENTRY_PATTERN: Final = r"[A-Za-z0-9_.{}-]*\*?/[A-Za-z0-9_.:{}-]*\*?/[A-Za-z0-9_.:-]*\*?"
ENTRY_EXPECTED: Final = (
    "namespace/task_queue/workflow, such as default/billing/GenerateInvoice or default/reports/*"
)

DEFAULT_NAMESPACE: Final = "default"

# Temporal's own workflows, such as deletions of a namespace, and their task queues.
_RESERVED: Final = "temporal-sys"


class TemporalTarget(NamedTuple):
    """A workflow, in the task queue that its workers poll."""

    namespace: str
    task_queue: str
    workflow: str
    # None: the input has no token.
    auth: TokenAuth | None = None

    @property
    def entry(self) -> str:
        """The entry of the policy that allows exactly this workflow."""
        return f"{self.namespace}/{self.task_queue}/{self.workflow}"

    @property
    def origin(self) -> str:
        """The workers that receive the input."""
        return f"temporal://{self.namespace}/{self.task_queue}"

    @property
    def audience(self) -> str:
        """The service that a token is for."""
        return (self.auth.audience if self.auth else None) or self.origin


def read_temporal_target(options: JsonObject) -> TemporalTarget | None:
    """Read the options of a target; None if they are not valid."""
    names = {
        "namespace": (NAMESPACE_PATTERN, options.get("namespace", DEFAULT_NAMESPACE)),
        "task_queue": (QUEUE_PATTERN, options.get("task_queue")),
        "workflow": (WORKFLOW_PATTERN, options.get("workflow")),
    }
    read = {
        option: name
        for option, (pattern, name) in names.items()
        if isinstance(name, str) and re.fullmatch(pattern, name) and len(name) <= LONGEST_NAME
    }
    if len(read) < len(names):
        return None
    return TemporalTarget(**read, auth=read_token_auth(options.get("auth")))


def refused_option(target: TemporalTarget, entries: Iterable[str]) -> str | None:
    """Return the first option whose name no entry of the tenant allows; None if one allows all."""
    left = [entry.split("/") for entry in entries]
    for part, option in enumerate(("namespace", "task_queue", "workflow")):
        name = target[part]
        left = [
            entry
            for entry in left
            if matches(entry[part], str(name)) and not str(name).startswith(_RESERVED)
        ]
        if not left:
            return option
    return None
