"""Requests to HTTP targets: the body and the headers of one attempt."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tenantcron.core.auth import Auth
from tenantcron.core.egress import Egress
from tenantcron.core.headers import is_reserved_header
from tenantcron.core.values import JsonObject
from tenantcron.targets.execution import Execution
from tenantcron.targets.headers import attempt_headers, utc
from tenantcron.targets.tokens import Tokens

BODY_HEADERS: Final = {
    "Content-Type": "application/json",
    # A compressed response could decompress to any size.
    "Accept-Encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class CallbackHeaders:
    """What a worker needs that reports the end of its attempt later."""

    url: str
    token: str = field(repr=False)
    heartbeat: timedelta
    deadline: datetime

    def headers(self) -> dict[str, str]:
        """Return the headers."""
        return {
            "X-Tenantcron-Callback-Url": self.url,
            "X-Tenantcron-Callback-Token": self.token,
            "X-Tenantcron-Heartbeat": f"{self.heartbeat.total_seconds():g}",
            "X-Tenantcron-Deadline": utc(self.deadline),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """The request of one attempt, except for the parts that come from the execution."""

    url: str
    method: str
    headers: Mapping[str, str]
    auth: Auth | None
    # The idempotency key: the same for every attempt of an execution, and unique to it.
    key: str
    started_at: datetime
    timeout: timedelta
    # The egress rules of this tenant; None: those of all tenants.
    egress: Egress | None = None
    # The secrets that may sign requests of this tenant.
    allowed_secrets: tuple[str, ...] = ()
    # The audiences of its tokens, besides the origin of its URL.
    allowed_audiences: tuple[str, ...] = ()
    tokens: Tokens | None = field(default=None, repr=False)
    # None: the response ends the attempt.
    callback: CallbackHeaders | None = None


def document(execution: Execution) -> JsonObject:
    """Return what a worker gets, the same for every attempt of an execution."""
    return {
        "execution_id": str(execution.id),
        "tenant": execution.tenant_id,
        "schedule": execution.schedule_name,
        "saga": execution.saga_name,
        "scheduled_for": utc(execution.scheduled_for),
        "payload": execution.payload,
        **({"owner": execution.owner} if execution.owner else {}),
    }


def content(execution: Execution) -> bytes:
    """Return the request body, the same bytes for every attempt of an execution."""
    return json.dumps(
        document(execution), ensure_ascii=False, separators=(",", ":"), sort_keys=True
    ).encode()


def own_headers(request: TargetRequest, execution: Execution, traceparent: str) -> dict[str, str]:
    """Return the headers that no manifest can set."""
    return {
        **BODY_HEADERS,
        **attempt_headers(execution, request.key),
        # One trace for all attempts, with a span for each.
        "traceparent": traceparent,
    }


def unreserved(headers: Mapping[str, str]) -> dict[str, str]:
    """Drop reserved headers: a stored definition may have been edited manually."""
    return {name: text for name, text in headers.items() if not is_reserved_header(name)}
