"""The Celery app of the workload with Celery targets."""

import os
from contextlib import suppress
from time import sleep
from typing import Any

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

from faults import remote_records
from faults.remote_records import RecordingWorker, record
from tenantcron.client import celery as client
from tenantcron.client.celery import TenantcronTask

vars(client)["CallbackWorker"] = RecordingWorker
app = Celery("faults", broker=os.environ["BROKER"])
app.conf.update(
    worker_prefetch_multiplier=1,
    worker_enable_prefetch_count_reduction=False,
    task_create_missing_queues=True,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    worker_hijack_root_logger=False,
)


@app.task(base=TenantcronTask, bind=True, name="faults.work")  # type: ignore[untyped-decorator] # celery has no types
def work(self: TenantcronTask, execution: dict[str, Any]) -> None:
    """Work as the name of the saga says."""
    kind, attempt = execution["saga"], int(self.request.get("x-tenantcron-attempt"))
    key = str(self.idempotency_key)
    record("R", key, attempt)
    if kind.startswith(remote_records.LATE):
        sleep(remote_records.WORKS_FOR)
    if kind.startswith(remote_records.OVERDUE) and attempt == 1:
        # It ignores the limit, and reports after it.
        with suppress(SoftTimeLimitExceeded):
            sleep(remote_records.OVERDUE_FOR)
        with suppress(SoftTimeLimitExceeded):
            sleep(remote_records.OVERDUE_FOR - remote_records.OVERDUE_TIMEOUT)
    elif kind.startswith(remote_records.SILENT) and attempt == 1:
        # The attempt is lost, and this process reports while the next one works.
        RecordingWorker.is_silent = True
        sleep(remote_records.SILENT_FOR)
        RecordingWorker.is_silent = False
    else:
        if kind.startswith(remote_records.SILENT):
            sleep(remote_records.AFTER_SILENCE)
        self.work.raise_if_cancelled()
    record("E", key, attempt)
    if kind.startswith(remote_records.TWICE):
        headers = ("url", "token")
        names = [*(f"x-tenantcron-callback-{name}" for name in headers), "x-tenantcron-heartbeat"]
        RecordingWorker.of_headers({name: self.request.get(name) for name in names}).complete()
