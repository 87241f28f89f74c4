"""A Celery app that runs executions of tenantcron.

celery -A billing worker -Q billing --prefetch-multiplier 1
"""

import os
import time
from typing import Any

from celery import Celery

from tenantcron.client.celery import TenantcronTask

app = Celery("billing", broker=os.environ.get("CELERY_BROKER", "amqp://guest:guest@localhost//"))
app.conf.update(
    # Redis redelivers a message that is not acknowledged in this time. Set it above the longest
    # timeout; RabbitMQ has `consumer_timeout`.
    broker_transport_options={"visibility_timeout": 6 * 3600},
    # A task finishes and reports its end; its redelivered message is dropped.
    worker_cancel_long_running_tasks_on_connection_loss=False,
    # After a reconnect Celery fetches less until running tasks end; with RabbitMQ it may stay so.
    worker_enable_prefetch_count_reduction=False,
)


@app.task(base=TenantcronTask, bind=True, name="billing.invoice")
def invoice(self: TenantcronTask, execution: dict[str, Any]) -> dict[str, int]:
    """Write one invoice for each customer in the payload."""
    customers = execution["payload"]["customers"]
    for number, customer in enumerate(customers):
        self.work.raise_if_cancelled()
        self.work.progress(100 * number // len(customers), customer)
        time.sleep(4)  # a real one takes a moment as well
        print(f"{execution['tenant']}: invoice for {customer}, key {self.idempotency_key}")
    return {"invoices": len(customers)}
