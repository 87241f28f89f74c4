"""The middleware that handles every request.

It requires one valid `Host`, which must be trusted if the settings list trusted hosts. It assigns a
correlation id, which audit records, log lines and the response contain. It limits the size of
bodies, including chunked ones. It adds security headers for browsers. It logs internal errors, of
which the caller receives only the correlation id.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter
from typing import Final
from uuid import UUID, uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantcron.actor.context import correlation
from tenantcron.api.connections import LIVENESS
from tenantcron.api.replies import problem_reply
from tenantcron.api.routing import CORRELATION
from tenantcron.core.hosts import host_of, is_trusted
from tenantcron.manifests.loading.source import MAX_BYTES
from tenantcron.scheduler.metrics.counts import RequestCounts
from tenantcron.service.problems import ApiProblem, problem_of
from tenantcron.store.connection.deadlines import budget

log = structlog.get_logger()

# One more than the loader accepts, because the loader has the better error message.
LONGEST_BODY: Final = MAX_BYTES + 1
_DIGITS: Final = 12
# Probes, scrapes and pages of the dashboard are not requests to the API.
_API: Final = "/v1/"
# Orchestrators call the probes by IP address.
_PROBES: Final = (LIVENESS, "/readyz")
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """The middleware between the server and the application."""

    app: ASGIApp
    # The total time for all database calls of a request.
    timeout: timedelta
    # The trusted hosts; if empty, any host is accepted.
    hosts: tuple[str, ...] = ()
    requests: RequestCounts = field(default_factory=RequestCounts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        correlation_id = uuid4()
        scope[CORRELATION] = correlation_id
        with correlation(correlation_id), budget(self.timeout):
            await self._serve(scope, receive, _Reply(send, correlation_id))

    async def _serve(self, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        started = perf_counter()
        try:
            _refuse_host(scope, self.hosts)
            _refuse_too_long(scope)
            await self.app(scope, _limited(receive), reply)
        except ClientDisconnect:
            log.info("request_abandoned", method=scope["method"], path=scope["path"])
            return
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                log.error("request_failed", path=scope["path"], exc_info=error)
                problem = ApiProblem("TC714", "report the id in X-Correlation-Id to the operator")
            if not reply.begun:
                await problem_reply(problem)(scope, receive, reply)
        seconds = perf_counter() - started
        if scope["path"].startswith(_API):
            self.requests.note(reply.status, seconds)
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"],
            status=reply.status,
            milliseconds=round(seconds * 1000, 1),
        )


class _Reply:
    """Sends a response with the common headers."""

    __slots__ = ("_correlation_id", "_send", "begun", "status")

    def __init__(self, send: Send, correlation_id: UUID) -> None:
        self._send = send
        self._correlation_id = correlation_id
        self.begun = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun, self.status = True, int(message["status"])
            headers = MutableHeaders(raw=message["headers"])
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
            headers["X-Correlation-Id"] = str(self._correlation_id)
        await self._send(message)


def _refuse_host(scope: Scope, trusted: tuple[str, ...]) -> None:
    """Reject a request without a valid `Host`, or with an untrusted one."""
    named = Headers(scope=scope).getlist("host")
    host = host_of(named[0]) if len(named) == 1 else None
    # HTTP/1.0 has no `Host` header; some load balancers still use it for probes.
    if host is None and (named or scope["http_version"] != "1.0"):
        raise ApiProblem("TC715", "send one `Host` header with a valid host name")
    if not trusted or scope["path"] in _PROBES:
        return
    if host is None or not is_trusted(host, trusted):
        raise ApiProblem("TC716", "use a host name that the server trusts")


def _refuse_too_long(scope: Scope) -> None:
    """Reject a body with a too large `Content-Length` before reading it."""
    length = Headers(scope=scope).get("content-length", "0")
    if not length.isdecimal() or len(length) > _DIGITS or int(length) > LONGEST_BODY:
        raise _too_long()


def _limited(receive: Receive) -> Receive:
    read = 0

    async def limited() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > LONGEST_BODY:
            raise _too_long()
        return message

    return limited


def _too_long() -> ApiProblem:
    return ApiProblem("TC706", f"the limit of a body is {LONGEST_BODY} bytes")
