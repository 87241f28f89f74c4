"""The meaning of a gRPC status for the execution."""

from datetime import timedelta
from typing import Final

import grpc

from tenantcron.targets.http.statuses import LONGEST_RETRY_AFTER
from tenantcron.targets.responses import FailCall, RetryCall

# A server asks for a delay in this trailer (gRFC A6).
PUSHBACK: Final = "grpc-retry-pushback-ms"

# Whether an attempt with this status is retried.
IS_RETRIED: Final = {
    grpc.StatusCode.CANCELLED: True,
    # An exception in the handler of a server, among others.
    grpc.StatusCode.UNKNOWN: True,
    grpc.StatusCode.INVALID_ARGUMENT: False,
    grpc.StatusCode.DEADLINE_EXCEEDED: True,
    grpc.StatusCode.NOT_FOUND: False,
    grpc.StatusCode.ALREADY_EXISTS: False,
    grpc.StatusCode.PERMISSION_DENIED: False,
    grpc.StatusCode.UNAUTHENTICATED: False,
    grpc.StatusCode.RESOURCE_EXHAUSTED: True,
    grpc.StatusCode.FAILED_PRECONDITION: False,
    grpc.StatusCode.ABORTED: True,
    grpc.StatusCode.OUT_OF_RANGE: False,
    grpc.StatusCode.UNIMPLEMENTED: False,
    grpc.StatusCode.INTERNAL: True,
    # No connection, or a lost one, among others.
    grpc.StatusCode.UNAVAILABLE: True,
    grpc.StatusCode.DATA_LOSS: False,
}


def call_failure(status: grpc.StatusCode, details: str, pushback: str) -> RetryCall | FailCall:
    """Return the error of a call that failed with a status."""
    text = f"the service answered {status.name}" + (f": {details}" if details else "")
    if IS_RETRIED[status]:
        return RetryCall(text, after=_delay(pushback))
    return FailCall(text)


def _delay(pushback: str) -> timedelta | None:
    """Return the delay that the server requests, at most an hour; None if there is none."""
    if not (pushback.isascii() and pushback.isdigit()):
        return None
    wait = timedelta(milliseconds=int(pushback[:9]))
    return min(wait, LONGEST_RETRY_AFTER) or None
