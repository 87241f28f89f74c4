"""A client that submits tasks, and retries until it gets a response.

It uses the SQL function or the API, drawn for each attempt, always with the idempotency key of
the task. It repeats some submissions that were acknowledged, rolls some back, and cancels some. It
is killed at any time; the next one sends again what was not acknowledged.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from time import sleep
from uuid import UUID

import psycopg

from faults.task_records import (
    FAR,
    Note,
    PlannedTask,
    is_rolled_back,
    planned_batch,
    planned_task,
    read_records,
    record,
)
from tenantcron.client import tasks as calls
from tenantcron.client.blocking_client import Client
from tenantcron.client.errors import ProblemError, RequestError
from tenantcron.core.values import JsonObject
from tenantcron.tasks import TaskRequest, TasksRejectedError, submit_many

# Seconds.
_PAUSE, _RETRY_PAUSE, _TIMEOUT = 0.08, 0.2, 5
_REPEATED_SHARE, _CANCELLED_SHARE, _CANCELLED_EARLY_SHARE = 0.15, 0.5, 0.05
_REJECTED = range(400, 429)


def main(argv: Sequence[str]) -> int:
    """Submit until killed."""
    name, url, api, file = argv
    Submitter(name, url, api, Path(file)).run()
    return 0


class Submitter:
    """The state of a client."""

    def __init__(self, name: str, url: str, api: str, file: Path) -> None:
        self._name, self._url, self._file = name, url, file
        self._client = Client(api)
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._random = Random(f"{name} {os.getpid()}")  # noqa: S311 -- only picks the way

    def run(self) -> None:
        """Finish what the last client of this name could not, then submit batch by batch."""
        mine = f"{self._name}-"
        for key in read_records(self._file).unanswered:
            if key.startswith(mine):
                self._submit([planned_task(key)])
        for number in count():
            name = f"{mine}{os.getpid()}-{number}"
            batch = planned_batch(name)
            if is_rolled_back(name):
                self._roll_back(batch)
            else:
                for task in batch:
                    record(self._file, Note.SENT, task.key)
                self._cancel(batch, self._submit(batch))
                if self._random.random() < _REPEATED_SHARE:
                    self._submit(batch)
            sleep(_PAUSE)

    def _submit(self, batch: Sequence[PlannedTask]) -> list[UUID]:
        """Submit a batch until there is a response; return the ids, none if it is rejected."""
        while True:
            attempt = self._by_sql if self._random.random() < 0.5 else self._by_api
            try:
                ids = attempt(batch)
            except (TasksRejectedError, ProblemError) as error:
                if isinstance(error, ProblemError) and error.status not in _REJECTED:
                    sleep(_RETRY_PAUSE)
                    continue
                for task in batch:
                    record(self._file, Note.REJECTED, task.key)
                return []
            except (psycopg.Error, RequestError):
                # Whether it was committed is unknown; the key makes the retry safe.
                self._connection = None
                sleep(_RETRY_PAUSE)
                continue
            for task, task_id in zip(batch, ids, strict=True):
                record(self._file, Note.ACKNOWLEDGED, task.key, task_id)
            return ids

    def _by_sql(self, batch: Sequence[PlannedTask]) -> list[UUID]:
        with self._connected().transaction():
            added = submit_many(self._connected(), batch[0].tenant, list(map(_request, batch)))
        return [task.id for task in added]

    def _by_api(self, batch: Sequence[PlannedTask]) -> list[UUID]:
        submissions = list(map(_submission, batch))
        if len(batch) == 1:
            return [UUID(self._client.send(calls.submit(batch[0].tenant, *submissions))["id"])]
        added = self._client.send(calls.submit_many(batch[0].tenant, submissions))
        return [UUID(task["id"]) for task in added["tasks"]]

    def _roll_back(self, batch: Sequence[PlannedTask]) -> None:
        for task in batch:
            record(self._file, Note.ROLLED_BACK, task.key)
        try:
            with self._connected().transaction(force_rollback=True):
                submit_many(self._connected(), batch[0].tenant, list(map(_request, batch)))
        except psycopg.Error:
            self._connection = None

    def _connected(self) -> "psycopg.Connection[tuple[object, ...]]":
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=_TIMEOUT)
        return self._connection

    def _cancel(self, batch: Sequence[PlannedTask], ids: Sequence[UUID]) -> None:
        """Cancel some tasks: long before their time, and while they are fired."""
        for task, task_id in zip(batch, ids, strict=False):
            share = _CANCELLED_SHARE if task.delay == FAR else _CANCELLED_EARLY_SHARE
            if self._random.random() < share:
                with suppress(ProblemError, RequestError):
                    self._client.send(calls.cancel(task.tenant, str(task_id), "withdrawn"))
                    record(self._file, Note.CANCELLED, task.key, task_id)


def _request(task: PlannedTask) -> TaskRequest:
    delay = timedelta(seconds=task.delay) if task.delay else None
    payload: JsonObject = {"key": task.key}
    return TaskRequest(task.saga, payload, delay=delay, idempotency_key=task.key)


def _submission(task: PlannedTask) -> calls.Submission:
    delay = timedelta(seconds=task.delay) if task.delay else None
    return calls.Submission(
        saga=task.saga, payload={"key": task.key}, delay=delay, idempotency_key=task.key
    )
