"""The workflow of one attempt: start or find it, wait for its end, cancel it."""

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from random import uniform
from typing import Final, NamedTuple

import structlog
from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode
from grpc.aio import AioRpcError
from temporalio.api.common.v1 import (
    GrpcStatus,
    Memo,
    Payload,
    Payloads,
    WorkflowExecution,
    WorkflowType,
)
from temporalio.api.enums.v1 import HistoryEventFilterType as Filter
from temporalio.api.enums.v1 import WorkflowIdConflictPolicy as Conflict
from temporalio.api.enums.v1 import WorkflowIdReusePolicy as Reuse
from temporalio.api.errordetails.v1 import WorkflowExecutionAlreadyStartedFailure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryResponse,
    RequestCancelWorkflowExecutionRequest,
    RequestCancelWorkflowExecutionResponse,
    StartWorkflowExecutionRequest,
    StartWorkflowExecutionResponse,
)

from tenantcron.core.temporal_targets import TemporalTarget
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.targets.contract import TargetCall
from tenantcron.targets.faults import storable
from tenantcron.targets.http.requests import document
from tenantcron.targets.responses import FailCall, RetryCall, redacted
from tenantcron.targets.temporal.connecting import TemporalServer
from tenantcron.targets.temporal.outcomes import JSON, Ended, read_end
from tenantcron.targets.tracing import new_traceparent

# From the timeout of the attempt, which cancels the workflow, to its end by Temporal.
GRACE: Final = timedelta(minutes=1)

_CALL_SECONDS: Final = 10.0
# Temporal answers a long poll after 20 seconds, if nothing has happened.
_POLL_SECONDS: Final = 60.0
# Together less than the 5 seconds that an attempt has to clean up.
_START_SECONDS: Final = 1.5
_CANCEL_SECONDS: Final = 3.0
# Between two polls that reported nothing.
_SHORTEST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_IDENTITY: Final = "tenantcron"
_DETAILS: Final = "grpc-status-details-bin"
_LONGEST_DETAILS: Final = 1000
# Parts of the input that are not in the memo, which lists of workflows show.
_INPUT_ONLY: Final = ("payload", "token", "traceparent")
# The server or the way to it has a problem, and the workflow may be well.
_INTERRUPTIONS: Final = frozenset(
    {
        StatusCode.UNAVAILABLE,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.UNAUTHENTICATED,
        StatusCode.PERMISSION_DENIED,
        StatusCode.ABORTED,
        StatusCode.CANCELLED,
        StatusCode.INTERNAL,
        StatusCode.UNKNOWN,
    }
)

log = structlog.get_logger(__name__)


class WorkflowRun(NamedTuple):
    """A run of the workflow, and whether this attempt has started it."""

    id: str
    is_new: bool


class Workflow:
    """The workflow of one attempt."""

    def __init__(
        self, server: TemporalServer, call: TargetCall, target: TemporalTarget, token: str | None
    ) -> None:
        self._server = server
        self._id = str(call.execution.id)
        self._namespace = target.namespace
        self._request = start_request(call, target, token)
        self._hidden = () if token is None else (token,)
        self._starting: asyncio.Task[WorkflowRun] | None = None

    async def start(self) -> WorkflowRun:
        """Start the workflow, or find the one that an earlier attempt has started."""
        # If the attempt is stopped meanwhile, `cancel` must know whether there is a workflow.
        self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def is_cancelling(self, run: WorkflowRun) -> bool:
        """Whether the workflow was asked to cancel."""
        request = DescribeWorkflowExecutionRequest(
            namespace=self._namespace, execution=self._execution(run.id)
        )
        try:
            described = await self._server.call(
                request, DescribeWorkflowExecutionResponse, _CALL_SECONDS
            )
        except AioRpcError as error:
            raise self._failure(error) from None
        return described.workflow_extended_info.cancel_requested

    async def end(self, run: WorkflowRun) -> Ended:
        """Wait for the end of the workflow, also while the server cannot be reached."""
        run_id, page, interruptions = run.id, b"", 0
        while True:
            try:
                polled = await self._poll(run_id, page)
            except AioRpcError as error:
                if error.code() not in _INTERRUPTIONS:
                    raise self._failure(error) from None
                page, interruptions = b"", interruptions + 1
                log.warning("temporal_wait_interrupted", **self._fields(error))
                await asyncio.sleep(_pause(interruptions))
                continue
            page, interruptions = polled.next_page_token, 0
            ends = (read_end(event, self._hidden) for event in polled.history.events)
            ended = next(filter(None, ends), None)
            if ended is None:
                await asyncio.sleep(_SHORTEST_PAUSE)
            elif ended.next_run:
                run_id, page = ended.next_run, b""
            else:
                return ended

    async def cancel(self) -> None:
        """Ask the workflow to cancel, within the time that a stopped attempt has."""
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=_START_SECONDS)
            self.leave()
        await cancel_workflow(
            self._server, self._namespace, self._id, f"{self._request.request_id}:cancel"
        )

    def leave(self) -> None:
        """Stop the start, if it is still under way."""
        if self._starting is not None and not self._starting.cancel():
            # Retrieved here, because nothing else looks at its failure.
            with suppress(asyncio.CancelledError):
                self._starting.exception()

    async def _start(self) -> WorkflowRun:
        try:
            started = await self._server.call(
                self._request, StartWorkflowExecutionResponse, _CALL_SECONDS
            )
        except AioRpcError as error:
            succeeded = _succeeded_run(error)
            if succeeded is None:
                raise self._failure(error) from None
            return WorkflowRun(succeeded, is_new=False)
        log.debug("temporal_workflow_started", run=started.run_id, is_new=started.started)
        return WorkflowRun(started.run_id, started.started)

    async def _poll(self, run_id: str, page: bytes) -> GetWorkflowExecutionHistoryResponse:
        request = GetWorkflowExecutionHistoryRequest(
            namespace=self._namespace,
            execution=self._execution(run_id),
            next_page_token=page,
            wait_new_event=True,
            history_event_filter_type=Filter.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
            skip_archival=True,
        )
        return await self._server.call(request, GetWorkflowExecutionHistoryResponse, _POLL_SECONDS)

    def _execution(self, run_id: str = "") -> WorkflowExecution:
        return WorkflowExecution(workflow_id=self._id, run_id=run_id)

    def _failure(self, error: AioRpcError) -> RetryCall | FailCall:
        """Return the failure of an attempt; the log has details of the platform's server."""
        log.warning("temporal_call_failed", **self._fields(error))
        if error.code() is StatusCode.UNAVAILABLE:
            return RetryCall("the Temporal server cannot be reached")
        details = redacted(storable((error.details() or "")[:_LONGEST_DETAILS]), self._hidden)
        reason = f"the Temporal server answered {error.code().name}: {details}"
        if error.code() is StatusCode.INVALID_ARGUMENT:
            return FailCall(reason)
        return RetryCall(reason)

    def _fields(self, error: AioRpcError) -> dict[str, str | None]:
        return _fields_of(error, self._namespace, self._hidden)


async def cancel_workflow(
    server: TemporalServer, namespace: str, workflow_id: str, request_id: str
) -> bool:
    """Ask a workflow to cancel, if it is open; return False if the server cannot be asked."""
    request = RequestCancelWorkflowExecutionRequest(
        namespace=namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id),
        identity=_IDENTITY,
        request_id=request_id,
        reason="the execution in tenantcron timed out or was cancelled",
    )
    try:
        await server.call(request, RequestCancelWorkflowExecutionResponse, _CANCEL_SECONDS)
    except (AioRpcError, RetryCall) as error:
        # Without an open workflow there is nothing to cancel.
        if isinstance(error, AioRpcError) and error.code() is StatusCode.NOT_FOUND:
            return True
        log.warning("temporal_cancel_failed", **_fields_of(error, namespace))
        return False
    return True


def _fields_of(
    error: AioRpcError | RetryCall, namespace: str, hidden: tuple[str, ...] = ()
) -> dict[str, str | None]:
    """Return what the log shows of a failed call."""
    text = error.details() if isinstance(error, AioRpcError) else error.reason
    return {
        "namespace": namespace,
        "status": error.code().name if isinstance(error, AioRpcError) else None,
        "error": redacted((text or "")[:_LONGEST_DETAILS], hidden),
    }


def start_request(
    call: TargetCall, target: TemporalTarget, token: str | None
) -> StartWorkflowExecutionRequest:
    """Return the request that starts the workflow of an attempt, or finds it."""
    execution, given = call.execution, workflow_input(call, token)
    limit = Duration()
    limit.FromTimedelta(call.timeout + GRACE)
    memo = {name: _payload(part) for name, part in given.items() if name not in _INPUT_ONLY}
    return StartWorkflowExecutionRequest(
        namespace=target.namespace,
        workflow_id=str(execution.id),
        workflow_type=WorkflowType(name=target.workflow),
        task_queue=TaskQueue(name=target.task_queue),
        input=Payloads(payloads=[_payload(given)]),
        workflow_execution_timeout=limit,
        identity=_IDENTITY,
        request_id=f"{execution.id}:{execution.attempt}",
        workflow_id_reuse_policy=Reuse.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
        workflow_id_conflict_policy=Conflict.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
        memo=Memo(fields=memo),
    )


def workflow_input(call: TargetCall, token: str | None) -> JsonObject:
    """Return the only argument of the workflow."""
    execution, actor = call.execution, call.execution.actor
    return {
        **document(execution),
        "idempotency_key": call.key,
        "attempt": execution.attempt,
        "fence": execution.fence,
        "actor": {"id": actor.id, "type": actor.type.value, "source": actor.source},
        "traceparent": new_traceparent(execution),
        **({} if token is None else {"token": token}),
    }


def _payload(value: JsonValue) -> Payload:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return Payload(metadata={"encoding": JSON.encode()}, data=text.encode())


def _succeeded_run(error: AioRpcError) -> str | None:
    """Return the run of a workflow that has succeeded already; None for any other error."""
    if error.code() is not StatusCode.ALREADY_EXISTS:
        return None
    trailers = dict(error.trailing_metadata() or ())
    status, already = GrpcStatus(), WorkflowExecutionAlreadyStartedFailure()
    status.ParseFromString(bytes(trailers.get(_DETAILS, b"")))
    if not any(detail.Unpack(already) for detail in status.details):
        return None
    return already.run_id


def _pause(interruptions: int) -> float:
    """Return the seconds until the next poll, so that replicas do not poll all at once."""
    longest = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2 ** min(interruptions, 10))
    return uniform(longest / 2, longest)  # noqa: S311 -- no secret
