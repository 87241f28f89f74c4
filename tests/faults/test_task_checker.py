"""The checks on tasks detect each kind of mistake, and excuse what a lost primary explains."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from psycopg.rows import DictRow

from faults.evidence import Evidence
from faults.journal import Findings, Gap, Journal
from faults.task_checker import TaskChecker
from faults.task_records import FAR, Note, TaskRecords, planned_task, read_records, record

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY = next(f"k-{n}.0" for n in count() if planned_task(f"k-{n}.0").delay == 0)
FAR_KEY = next(f"k-{n}.0" for n in count() if planned_task(f"k-{n}.0").delay == FAR)
ID = uuid4()


def task(key: str = KEY, id: UUID = ID, **more: object) -> DictRow:  # noqa: A002 -- a column
    at = NOON + SECOND * planned_task(key).delay
    return {"id": id, "key": key, "execute_at": at, "fired_at": NOON, **more}


def execution(id: UUID = ID, **more: object) -> DictRow:  # noqa: A002 -- a column
    names = ("reason_code", "reason", "covers_from")
    return {
        **dict.fromkeys(names),
        "id": id,
        "schedule_id": id,
        "tenant_id": "t",
        "schedule_name": "task:work0",
        "scheduled_for": NOON,
        "state": "CANCELLED",
        "attempt": 0,
        **more,
    }


def acknowledged(*ids: UUID, key: str = KEY) -> TaskRecords:
    records = TaskRecords(sent={key})
    records.acknowledged[key] = [(id, NOON) for id in ids]  # noqa: A001 -- as above
    return records


def found(
    records: TaskRecords,
    tasks: Sequence[DictRow],
    executions: Sequence[DictRow] = (),
    journal: Journal | None = None,
) -> list[str]:
    evidence = Evidence({("t", "task:work0"): list(executions)}, {}, [])
    findings = Findings()
    until = NOON + 60 * SECOND
    TaskChecker(records, tasks, evidence, journal or Journal(), findings, until).check()
    return sorted(findings.counts)


def test_a_cancelled_task_with_one_execution_is_right() -> None:
    assert found(acknowledged(ID, ID), [task()], [execution()]) == []


def test_an_acknowledged_task_without_a_row_is_lost() -> None:
    assert found(acknowledged(ID), []) == ["lost"]


def test_a_failover_that_loses_commits_excuses_a_lost_task() -> None:
    journal = Journal(gaps=[Gap(NOON - SECOND, NOON + SECOND)])
    assert found(acknowledged(ID), [], journal=journal) == []


OTHER = uuid4()
WRONG = {
    "two rows of a key": (
        acknowledged(ID),
        [task(), task(id=OTHER)],
        [execution(), execution(OTHER)],
        ["duplicated"],
    ),
    "two ids of a key": (acknowledged(ID, OTHER), [task()], [execution()], ["duplicated", "lost"]),
    "two executions": (acknowledged(ID), [task()], [execution(), execution()], ["duplicated"]),
    "fired without an execution": (acknowledged(ID), [task()], [], ["lost"]),
    "due and not fired": (acknowledged(ID), [task(fired_at=None)], [], ["unfinished"]),
    "not ended": (acknowledged(ID), [task()], [execution(state="PENDING")], ["unfinished"]),
    "dead": (acknowledged(ID), [task()], [execution(state="DEAD")], ["effect", "failed"]),
    "a success without an effect": (
        acknowledged(ID),
        [task()],
        [execution(state="SUCCEEDED", attempt=1)],
        ["effect"],
    ),
    "rolled back": (TaskRecords(rolled_back={KEY}), [task()], [execution()], ["unexpected"]),
    "never sent": (TaskRecords(), [task()], [execution()], ["unexpected"]),
    "an execution without a task": (TaskRecords(), [], [execution()], ["unexpected"]),
    "rejected": (TaskRecords(sent={KEY}, rejected={KEY}), [], [], ["unexpected"]),
    "an hour early": (
        acknowledged(ID, key=FAR_KEY),
        [task(FAR_KEY)],
        [execution(state="DEAD")],
        ["early", "effect", "failed"],
    ),
    "cancelled and waiting": (
        TaskRecords(sent={FAR_KEY}, cancelled={FAR_KEY: NOON}),
        [task(FAR_KEY, fired_at=None)],
        [],
        ["failed"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    records, tasks, executions, expected = WRONG[name]
    assert found(records, tasks, executions) == expected


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "tasks"
    for note, key, id_ in (
        (Note.SENT, "a", "-"),
        (Note.SENT, "b", "-"),
        (Note.ACKNOWLEDGED, "a", ID),
        (Note.CANCELLED, "a", ID),
        (Note.ROLLED_BACK, "c", "-"),
    ):
        record(file, note, key, id_)
    records = read_records(file)
    assert records.unanswered == ["b"]
    assert [task for task, _ in records.acknowledged["a"]] == [ID]
    assert (set(records.cancelled), records.rolled_back) == ({"a"}, {"c"})
