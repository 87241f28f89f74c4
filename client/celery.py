"""Celery tasks that run executions: heartbeats, cancellation, and the end of an attempt.

    @app.task(base=TenantcronTask, bind=True, name="billing.invoice")
    def invoice(self: TenantcronTask, execution: dict[str, Any]) -> dict[str, int]:
        customers = execution["payload"]["customers"]
        for number, customer in enumerate(customers):
            self.work.raise_if_cancelled()
            self.work.progress(100 * number / len(customers), customer)
            send_invoice(customer, key=self.idempotency_key)
        return {"invoices": len(customers)}

It needs `tenantcron[celery]` and no database. `targets/celery/__init__.py` describes the protocol
and every crash point.
"""

import json
import logging
from typing import Any, Final
from uuid import uuid4

from celery import Task
from celery.exceptions import Ignore, Reject

from tenantcron.client.callbacks import AttemptWork, CallbackWorker, WorkCancelled
from tenantcron.core.values import JsonValue

_KEY: Final = "idempotency-key"
_CALLBACK: Final = "x-tenantcron-callback-url"
_HEADERS: Final = (_CALLBACK, "x-tenantcron-callback-token", "x-tenantcron-heartbeat")
# The API accepts no longer result.
_LONGEST_RESULT: Final = 16 * 1024

log = logging.getLogger(__name__)


class TenantcronTask(Task):  # type: ignore[misc] # celery has no types
    """A task whose messages tenantcron sends. Other messages and direct calls only run it."""

    abstract = True
    # A message is acknowledged after the end of the attempt was reported, so the broker redelivers
    # it if the worker is killed.
    acks_late = True
    reject_on_worker_lost = True
    # A reported failure is acknowledged: tenantcron retries with another message.
    acks_on_failure_or_timeout = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task, between the first heartbeat and the report of its end."""
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)
        headers = {name: self.request.get(name) for name in _HEADERS}
        if headers[_CALLBACK] is None:
            return self.run(*args, **kwargs)
        # A broker may deliver the message again while this one is worked on.
        worker = CallbackWorker.of_headers(headers, uuid4().hex)
        begun = worker.begin()
        if begun is None:
            # Without an answer it is not known whether the attempt is over.
            log.warning("no answer from %s: the message is requeued", worker.address.server)
            raise Reject("no answer from the API", requeue=True)
        if begun.is_over:
            log.info("dropped the message of %s: %s", self.request.id, begun.reason)
            raise Ignore
        return self._run(worker, begun, args, kwargs)

    @property
    def work(self) -> AttemptWork:
        """The work of the current attempt: `progress`, `raise_if_cancelled` and `result`."""
        work = getattr(self.request, "tenantcron_work", None)
        return work if isinstance(work, AttemptWork) else AttemptWork()

    @property
    def idempotency_key(self) -> str | None:
        """The key of the execution, the same for every attempt; None in other messages."""
        key = self.request.get(_KEY)
        return None if key is None else str(key)

    def _run(
        self,
        worker: CallbackWorker,
        begun: AttemptWork,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        self.request.tenantcron_work = begun
        try:
            with worker.working(begun) as work:
                work.raise_if_cancelled()
                returned = self.run(*args, **kwargs)
                if work.result is None:
                    work.result = _reportable(returned)
        except WorkCancelled as cancelled:
            log.info("stopped %s: %s", self.request.id, cancelled)
            raise Ignore from None
        return returned


def _reportable(returned: Any) -> JsonValue:
    """Return what can be reported; the work is done, so a wrong type must not fail it."""
    try:
        text = json.dumps(returned, allow_nan=False)
    except (TypeError, ValueError):
        log.warning("the result is not reported: %s is not JSON", type(returned).__name__)
        return None
    if len(text.encode()) > _LONGEST_RESULT:
        log.warning("the result is not reported: it has more than %s bytes", _LONGEST_RESULT)
        return None
    result: JsonValue = json.loads(text)
    return result
