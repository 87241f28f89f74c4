"""Callbacks of remote workers: heartbeats, and the end of an attempt.

The bearer is the callback token of the attempt, which its worker received with the request. It is
also the fence: a token of an earlier attempt, or of one that has ended otherwise, gets 409.
"""

import json
from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from tenantcron.actor.execution_tokens import CALLBACKS
from tenantcron.actor.verification import InvalidTokenError
from tenantcron.api.executions import ExecutionPath
from tenantcron.api.replies import json_reply
from tenantcron.api.routing import problems
from tenantcron.core.values import has_nul
from tenantcron.core.words import visible
from tenantcron.scheduler.steps.callbacks import (
    RecordedReport,
    RemoteFailure,
    RemoteWorker,
)
from tenantcron.service.callers import bearer_of
from tenantcron.service.problems import ApiProblem, invalid, unauthenticated
from tenantcron.service.responses.callbacks import HeartbeatResponse, ReportResponse
from tenantcron.service.work import Service
from tenantcron.store.steps.callbacks import WorkerProgress
from tenantcron.targets.faults import storable
from tenantcron.targets.output import LONGEST_RESULT

router = APIRouter(prefix="/executions", tags=["callbacks"])
log = structlog.get_logger()

_MISSING: Final = "send the callback token of the attempt as `Authorization: Bearer`"
_LONGEST_PROGRESS: Final = 200
_LONGEST_MESSAGE: Final = 2000
_LONGEST_WAIT: Final = 3600

Percent = Annotated[
    int | None, Field(ge=0, le=100, description="How much of the work is done, in percent.")
]
ProgressText = Annotated[
    str | None, Field(max_length=_LONGEST_PROGRESS, description="What the worker is doing.")
]


Delivery = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=64,
        description="Any text that is unique to this delivery of the request.",
    ),
]


class ProgressRequest(BaseModel):
    """The progress of an attempt; values that are missing stay as they are."""

    model_config = ConfigDict(extra="forbid")

    progress: Percent = None
    progress_text: ProgressText = None

    @property
    def reported(self) -> WorkerProgress:
        """The progress, as it is stored."""
        text = self.progress_text
        return WorkerProgress(self.progress, None if text is None else visible(text))


class HeartbeatRequest(ProgressRequest):
    """A heartbeat."""

    delivery: Delivery = None


class CompletionRequest(ProgressRequest):
    """The end of work that succeeded."""

    result: Annotated[
        JsonValue, Field(description="A small JSON value, which the history shows.")
    ] = None


class FailureRequest(ProgressRequest):
    """The end of work that failed."""

    message: Annotated[
        str, Field(min_length=1, max_length=_LONGEST_MESSAGE, description="Why it failed.")
    ]
    retryable: Annotated[bool, Field(description="Whether another attempt may succeed.")] = True
    retry_after: Annotated[
        int | None,
        Field(ge=1, le=_LONGEST_WAIT, description="Seconds until the next attempt, at least."),
    ] = None
    delivery: Delivery = None


_HEARTBEAT: Final = HeartbeatRequest()
_COMPLETION: Final = CompletionRequest()


@router.post(
    "/{execution:word}:heartbeat",
    response_model=HeartbeatResponse,
    responses=problems(404, 409),
)
async def heartbeat_execution(
    request: Request, execution: ExecutionPath, body: HeartbeatRequest = _HEARTBEAT
) -> Response:
    """Renew the lease of an attempt; the response has whether its worker must stop."""
    service, worker = await _authenticated(request, execution, body.delivery)
    answer = await service.callbacks.heartbeat(worker, body.reported)
    deadline, heartbeat = answer.deadline, answer.heartbeat
    reply: HeartbeatResponse = {
        "cancel": answer.cancel,
        "reason": answer.reason,
        "deadline": None if deadline is None else deadline.isoformat(),
        "heartbeat_seconds": None if heartbeat is None else heartbeat.total_seconds(),
    }
    return json_reply(reply)


@router.post(
    "/{execution:word}:complete", response_model=ReportResponse, responses=problems(404, 409)
)
async def complete_execution(
    request: Request, execution: ExecutionPath, body: CompletionRequest = _COMPLETION
) -> Response:
    """Record that the work of an attempt is done."""
    service, worker = await _authenticated(request, execution)
    report = await service.callbacks.complete(worker, _result(body.result), body.reported)
    return _recorded(execution, report)


@router.post("/{execution:word}:fail", response_model=ReportResponse, responses=problems(404, 409))
async def fail_execution(
    request: Request, execution: ExecutionPath, body: FailureRequest
) -> Response:
    """Record that the work of an attempt failed."""
    service, worker = await _authenticated(request, execution, body.delivery)
    wait = None if body.retry_after is None else timedelta(seconds=body.retry_after)
    failure = RemoteFailure(visible(body.message), body.retryable, wait)
    return _recorded(execution, await service.callbacks.fail(worker, failure, body.reported))


async def _authenticated(
    request: Request, execution: UUID, delivery: str | None = None
) -> tuple[Service, RemoteWorker]:
    """Verify the callback token. Whether its attempt still runs is decided with the report."""
    service: Service = request.app.state.service
    token = bearer_of(request)
    if token is None:
        raise unauthenticated(_MISSING)
    if service.live_tokens is None:
        raise ApiProblem("TC703", "the server has no signing keys: set its master key")
    try:
        proof = await service.live_tokens.verified(token)
    except InvalidTokenError as error:
        log.info("token_refused", error=str(error))
        raise unauthenticated(_MISSING) from error
    if proof.audience != CALLBACKS or proof.lease is None or proof.execution != execution:
        log.info("token_refused", error="not the callback token of this execution")
        raise unauthenticated(_MISSING)
    named = None if delivery is None else visible(delivery)
    return service, RemoteWorker(execution, proof.lease, named)


def _result(value: JsonValue) -> str | None:
    if value is None:
        return None
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode(errors="surrogatepass")) > LONGEST_RESULT:
        raise invalid(f"the result has more than {LONGEST_RESULT} bytes of JSON: store a reference")
    if storable(text) != text or ("\\u0000" in text and has_nul(value)):
        raise invalid("the result has a NUL or an unpaired surrogate, which cannot be stored")
    return text


def _recorded(execution: UUID, report: RecordedReport) -> Response:
    reply: ReportResponse = {
        "execution": str(execution),
        "attempt": report.attempt,
        "outcome": report.outcome,
        "state": report.state.value,
        "repeated": report.repeated,
    }
    return json_reply(reply)
