"""How a workflow has ended: what its closing event means for the attempt.

- Completed: the attempt has succeeded. The result is stored if it is JSON and small.
- Failed: the attempt fails. The outermost application failure decides on a retry: its
  `non_retryable` fails the execution, its `next_retry_delay` delays the retry. Failures of
  activities and child workflows only wrap it.
- Timed out: the attempt fails and is retried.
- Cancelled or terminated in Temporal: the execution fails. Temporal does not retry these, either.
- Continued as new: another run of the same workflow follows.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.common.v1 import Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from tenantcron.targets.faults import storable
from tenantcron.targets.responses import FailCall, RetryCall, redacted

JSON: Final = "json/plain"
LONGEST_DELAY: Final = timedelta(hours=1)
_LONGEST_MESSAGE: Final = 1000
# Not a result: the workflow has returned nothing.
_NULL: Final = b"binary/null"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one run of a workflow."""

    result: object = None
    failure: RetryCall | FailCall | None = None
    # The run that follows this one; empty if the workflow has ended.
    next_run: str = ""


def read_end(event: HistoryEvent, hidden: tuple[str, ...]) -> Ended | None:
    """Return the end that an event reports, without secrets; None if it is not a closing event."""
    match event.WhichOneof("attributes"):
        case "workflow_execution_completed_event_attributes":
            completed = event.workflow_execution_completed_event_attributes
            return Ended(result=_result(completed.result, hidden))
        case "workflow_execution_failed_event_attributes":
            failed = event.workflow_execution_failed_event_attributes
            failure = call_failure(failed.failure, hidden)
            return Ended(failure=failure, next_run=failed.new_execution_run_id)
        case "workflow_execution_timed_out_event_attributes":
            next_run = event.workflow_execution_timed_out_event_attributes.new_execution_run_id
            failure = RetryCall("the workflow has reached its execution timeout in Temporal")
            return Ended(failure=failure, next_run=next_run)
        case (
            "workflow_execution_canceled_event_attributes"
            | "workflow_execution_terminated_event_attributes"
        ):
            return Ended(failure=_stopped(event, hidden))
        case "workflow_execution_continued_as_new_event_attributes":
            continued = event.workflow_execution_continued_as_new_event_attributes
            return Ended(next_run=continued.new_execution_run_id)
        case _:
            return None


def _stopped(event: HistoryEvent, hidden: tuple[str, ...]) -> FailCall:
    if event.HasField("workflow_execution_canceled_event_attributes"):
        return FailCall("the workflow was cancelled in Temporal")
    reason = _shown(event.workflow_execution_terminated_event_attributes.reason, hidden)
    return FailCall(f"the workflow was terminated in Temporal{f': {reason}' if reason else ''}")


def call_failure(failure: Failure, hidden: tuple[str, ...]) -> RetryCall | FailCall:
    """Return the failure of an attempt, without secrets."""
    deciding = _deciding(failure)
    info = deciding.application_failure_info
    kind = f"{info.type}: " if info.type else ""
    reason = f"the workflow failed: {_shown(f'{kind}{deciding.message}', hidden)}"
    if info.non_retryable:
        return FailCall(reason)
    delay = info.next_retry_delay.ToTimedelta()
    return RetryCall(reason, after=min(delay, LONGEST_DELAY) if delay > timedelta(0) else None)


def _deciding(failure: Failure) -> Failure:
    """Return the outermost application failure; the failure itself if there is none."""
    inner = failure
    while not inner.HasField("application_failure_info") and inner.HasField("cause"):
        inner = inner.cause
    return inner if inner.HasField("application_failure_info") else failure


def _result(payloads: Payloads, hidden: tuple[str, ...]) -> object:
    """Return a result that is JSON; others, such as encrypted ones, are not stored."""
    if not payloads.payloads or payloads.payloads[0].metadata["encoding"] == _NULL:
        return None
    payload = payloads.payloads[0]
    encoding = payload.metadata["encoding"].decode(errors="replace")[:80]
    if encoding != JSON:
        log.warning("result_not_kept", error=f"its encoding is {encoding}", type="Payload")
        return None
    try:
        return json.loads(redacted(payload.data.decode(), hidden))
    except (ValueError, RecursionError) as error:
        log.warning("result_not_kept", error=str(error), type="Payload")
        return None


def _shown(text: str, hidden: tuple[str, ...]) -> str:
    return redacted(storable(text[:_LONGEST_MESSAGE]), hidden)
