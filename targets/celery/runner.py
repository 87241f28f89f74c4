"""The adapter of Celery targets: hand the attempt over, and publish its message."""

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import structlog

from tenantcron.core.celery_targets import CeleryTarget, may_send, read_celery_target
from tenantcron.core.errors import UsageError
from tenantcron.core.requirements import TargetKind
from tenantcron.core.targets import OtherTarget
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.targets.celery.broker import BrokerPublisher, TaskMessage
from tenantcron.targets.contract import Callback, Delivered, RunnerServices, TargetCall
from tenantcron.targets.extras import require_library
from tenantcron.targets.headers import attempt_headers
from tenantcron.targets.http.requests import CallbackHeaders, document
from tenantcron.targets.responses import FailCall
from tenantcron.targets.tracing import new_traceparent

# From the soft limit, which raises an exception in a task, to the hard one, which kills a process.
_GRACE_SECONDS: Final = 30

log = structlog.get_logger(__name__)


class CeleryMessage(NamedTuple):
    """What Celery makes of a task."""

    headers: JsonObject
    properties: JsonObject
    body: object
    sent_event: object


# Makes the message of a task in the format of Celery.
MakeMessage = Callable[..., CeleryMessage]


class CeleryRunner:
    """Sends attempts to Celery workers."""

    def __init__(self, publisher: BrokerPublisher, make_message: MakeMessage) -> None:
        self._publisher = publisher
        self._make_message = make_message

    async def run(self, call: TargetCall) -> Delivered:
        """Send a message; a worker reports the end of the attempt."""
        target = _allowed(call)
        if call.hand_over is None:
            raise FailCall("this scheduler cannot hand attempts over to remote workers")
        callback = await call.hand_over(target.heartbeat, target.queue_wait)
        message = self._message(call, target, callback)
        await self._publisher.publish(message)
        log.debug("celery_task_sent", queue=target.queue, task=target.task)
        return Delivered.ACCEPTED

    async def close(self) -> None:
        """Close the connections to the broker."""
        await self._publisher.close()

    def _message(self, call: TargetCall, target: CeleryTarget, callback: Callback) -> TaskMessage:
        execution, seconds = call.execution, math.ceil(call.timeout.total_seconds())
        made = self._make_message(
            task_id(call),
            target.task,
            args=[document(execution)],
            # Shown by workers and monitors, in place of the payload.
            argsrepr=f"('{execution.id}',)",
            kwargsrepr="{}",
            origin="tenantcron",
            ignore_result=True,
            soft_time_limit=seconds,
            time_limit=seconds + _GRACE_SECONDS,
        )
        reports = CallbackHeaders(
            callback.url, callback.token, callback.heartbeat, callback.deadline
        )
        own = {
            **attempt_headers(execution, call.key),
            "traceparent": new_traceparent(execution),
            **reports.headers(),
        }
        headers = {**{name.lower(): text for name, text in own.items()}, **made.headers}
        return TaskMessage(target.queue, made.body, headers, made.properties)


def task_id(call: TargetCall) -> str:
    """Return the id of a task: unique to an attempt, and the same if it is sent twice."""
    return f"{call.execution.id}:{call.execution.attempt}"


def _allowed(call: TargetCall) -> CeleryTarget:
    """Read the target; check the policy again, because the stored definition can be edited."""
    target = call.target
    read = read_celery_target(target.options) if isinstance(target, OtherTarget) else None
    if read is None:
        raise FailCall("the options of the Celery target are invalid: apply its manifest again")
    if not may_send(read, call.allowed_celery_tasks):
        raise FailCall(
            f"{read.task} in the queue {read.queue} may not be sent: the platform team can add "
            f'"{read.queue}/{read.task}" to allowed_celery_tasks in the [policy] table'
        )
    return read


class CeleryAdapter:
    """The kind `celery`."""

    # The model in `manifests/language/models.py` has the schema.
    options_schema: Final[Mapping[str, JsonValue]] = {}

    def open(self, services: RunnerServices) -> CeleryRunner:
        """Return the runner, which connects when it has something to send."""
        require_library(TargetKind.CELERY)
        broker = services.settings.celery_broker
        if broker is None:
            raise UsageError(
                "celery targets need the setting celery_broker: env:NAME or file:/path, where the "
                "URL of the broker is. To serve no celery targets, use --targets"
            )
        from celery import Celery  # noqa: PLC0415 -- part of the extra

        app = Celery("tenantcron", set_as_current=False)
        publisher = BrokerPublisher(broker, services.settings.ca_file)
        return CeleryRunner(publisher, app.amqp.as_task_v2)
