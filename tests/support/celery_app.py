"""A Celery app whose tasks append each start and each effect to a file.

A start without an effect is a worker that was killed. Effects have the key of their execution, so a
repeated one is found by its key.
"""

import os
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from celery import Celery

from tenantcron import Fail
from tenantcron.client.celery import TenantcronTask

app = Celery("tests", broker=os.environ["BROKER"])
app.conf.update(
    worker_prefetch_multiplier=1,
    worker_enable_prefetch_count_reduction=False,
    task_create_missing_queues=True,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    worker_hijack_root_logger=False,
    # A missed heartbeat must find the attempt lost long before Redis redelivers its message, unless
    # a test redelivers messages of tasks that run.
    broker_transport_options={"visibility_timeout": int(os.environ.get("VISIBILITY", "3600"))},
)
FOLDER = Path(os.environ["EFFECTS"])
LONGEST_WAIT = 120.0


def record(kind: str, key: str | None) -> None:
    """Append a line, which one write makes atomic."""
    with (FOLDER / kind).open("a", encoding="utf-8") as file:
        file.write(f"{key} {os.getpid()}\n")


@app.task(base=TenantcronTask, bind=True, name="tests.work")
def work(self: TenantcronTask, execution: dict[str, Any]) -> dict[str, Any]:
    """Do what the payload says."""
    payload = execution["payload"]
    record("started", self.idempotency_key)
    if "gate" in payload:
        _wait_for(FOLDER / payload["gate"], self)
    if payload.get("fails"):
        raise Fail("no such customer")
    record("effects", self.idempotency_key)
    return {"tenant": execution["tenant"]}


def _wait_for(gate: Path, task: TenantcronTask) -> None:
    """Work until the test opens the gate."""
    end = monotonic() + LONGEST_WAIT
    while not gate.exists() and monotonic() < end:
        task.work.raise_if_cancelled()
        sleep(0.02)
