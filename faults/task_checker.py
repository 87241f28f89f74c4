"""The verdict on tasks: compare their rows with what clients have recorded.

Rows are matched by the key in the payload, which the product does not read.

- **lost**: an acknowledged task without a row, or a fired task without an execution;
- **duplicated**: a key with two rows or two acknowledged ids, or a task with two executions;
- **unexpected**: a row of a key that was rolled back or never sent, an execution without a task, a
  task that was fired although it is not due and not cancelled, a rejected submission;
- **unfinished**: a task that was due and not fired, or whose execution has not ended;
- **failed**: a due task that did not succeed, unless it was cancelled; a cancelled one that did;
- **effect**: a success without an effect, or an effect of a task that never started;
- **early**: a task that was fired before its time.

An asynchronous failover excuses what was acknowledged in its gap.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import DictRow

from faults.checker import DELIVERED_WITHIN, describe
from faults.evidence import Evidence
from faults.journal import Findings, Journal
from faults.task_records import FAR, TaskRecords, planned_task
from faults.testbed import Testbed

_TASKS = """
SELECT id, tenant_id, saga_name, execute_at, submitted_at, fired_at, payload ->> 'key' AS key
FROM tenantcron.task
"""
_ENDED = {"SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED", "MISSED"}


def read_tasks(testbed: Testbed) -> list[DictRow]:
    """Read the rows of all tasks."""
    return testbed.query(_TASKS)


@dataclass(frozen=True, slots=True)
class TaskChecker:
    """Compares rows with records."""

    records: TaskRecords
    tasks: Sequence[DictRow]
    evidence: Evidence
    journal: Journal
    findings: Findings
    until: datetime

    def check(self) -> None:
        """Check all keys, all rows and all executions of tasks."""
        by_key: defaultdict[str, list[DictRow]] = defaultdict(list)
        for task in self.tasks:
            by_key[task["key"]].append(task)
        for key in self.records.acknowledged:
            self._check_acknowledged(key, by_key[key])
        for key in self.records.rejected:
            self.findings.add("unexpected", f"the task {key} was rejected")
        executions = self._executions({task["id"] for task in self.tasks})
        effects = {line.execution for line in self.evidence.lines if line.what == "E"}
        for task in self.tasks:
            self._check_row(task, executions.get(task["id"], []), effects)

    def _check_acknowledged(self, key: str, rows: Sequence[DictRow]) -> None:
        """Check that what was acknowledged exists once."""
        durable = {
            task
            for task, at in self.records.acknowledged[key]
            if not self.journal.is_in_gap(at, DELIVERED_WITHIN)
        }
        self.findings.examine("lost")
        self.findings.examine("duplicated")
        ids = {row["id"] for row in rows}
        if missing := durable - ids:
            self.findings.add("lost", f"the task {key} was acknowledged as {missing}: {ids}")
        if len(ids) > 1 or len(durable) > 1:
            self.findings.add("duplicated", f"the task {key} has {ids}, acknowledged {durable}")

    def _executions(self, tasks: set[UUID]) -> dict[UUID, list[DictRow]]:
        found: defaultdict[UUID, list[DictRow]] = defaultdict(list)
        for (_, name), rows in self.evidence.rows.items():
            if name.startswith("task:"):
                for row in rows:
                    found[row["schedule_id"]].append(row)
                    if row["schedule_id"] not in tasks:
                        self.findings.add("unexpected", f"no task: {describe(row)}")
        return dict(found)

    def _check_row(self, task: DictRow, executions: Sequence[DictRow], effects: set[UUID]) -> None:
        shown = f"task {task['key']} {task['id']} for {task['execute_at']}"
        self.findings.examine("unexpected")
        if task["key"] in self.records.rolled_back or task["key"] not in self.records.sent:
            self.findings.add("unexpected", f"{shown} was rolled back, or never sent")
            return
        if task["fired_at"] is None:
            self._check_waiting(task, executions, shown)
            return
        if len(executions) != 1:
            kind = "duplicated" if executions else "lost"
            rows = [describe(row) for row in executions]
            self.findings.add(kind, f"{shown} was fired, and has the executions {rows}")
            return
        self._check_execution(task, executions[0], effects)

    def _check_waiting(self, task: DictRow, executions: Sequence[DictRow], shown: str) -> None:
        if executions:
            rows = [describe(row) for row in executions]
            self.findings.add("unexpected", f"{shown} waits, and has {rows}")
        elif task["execute_at"] <= self.until:
            self.findings.add("unfinished", f"{shown} was not fired")
        elif self._was_cancelled(task):
            self.findings.add("failed", f"{shown} was cancelled, and waits")

    def _is_right_effect(self, row: DictRow, *, has_effect: bool) -> bool:
        if row["state"] == "CANCELLED":
            # An attempt may have had its effect, and was lost before it was recorded.
            return not has_effect or row["attempt"] > 0
        return has_effect

    def _was_cancelled(self, task: DictRow) -> bool:
        at = self.records.cancelled.get(task["key"])
        return at is not None and not self.journal.is_in_gap(at, DELIVERED_WITHIN)

    def _check_execution(self, task: DictRow, row: DictRow, effects: set[UUID]) -> None:
        is_cancelled = row["state"] == "CANCELLED"
        self.findings.examine("unfinished")
        if row["state"] not in _ENDED:
            if row["scheduled_for"] <= self.until:
                self.findings.add("unfinished", describe(row))
            return
        self.findings.examine("failed")
        if row["state"] not in ("SUCCEEDED", "CANCELLED") or (
            self._was_cancelled(task) and not is_cancelled
        ):
            self.findings.add("failed", f"cancelled {self._was_cancelled(task)}: {describe(row)}")
        self.findings.examine("effect")
        if not self._is_right_effect(row, has_effect=row["id"] in effects):
            self.findings.add("effect", f"with or without an effect: {describe(row)}")
        self.findings.examine("early")
        if not is_cancelled and task["fired_at"] < task["execute_at"]:
            self.findings.add("early", f"fired at {task['fired_at']}: {describe(row)}")
        if planned_task(task["key"]).delay == FAR and not is_cancelled:
            self.findings.add("early", f"it was due in an hour: {describe(row)}")
