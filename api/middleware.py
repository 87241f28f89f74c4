"""The edge: what holds for every request, whatever it is about.

Each names one host, which is one of the trusted ones if the settings list any. Each gets a
correlation id, which its audit records and log lines carry and its reply names. Bodies
are read up to a limit, also those that do not say how long they are. Replies have the headers that
keep browsers from doing anything with them. What nobody has foreseen is logged here, and the caller
learns the id only.
"""

from dataclasses import dataclass
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
from tenantcron.api.replies import refused
from tenantcron.api.routing import CORRELATION
from tenantcron.core.hosts import host_of, is_trusted
from tenantcron.manifests.loading.source import MAX_BYTES
from tenantcron.service.problems import ApiProblem, problem_of
from tenantcron.store.connection.deadlines import budget

log = structlog.get_logger()

# One more than the loader takes: it says best what is wrong with a manifest that is too long.
LONGEST_BODY: Final = MAX_BYTES + 1
_DIGITS: Final = 12
# Orchestrators call them by address.
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
    """Stands between the server and the application."""

    app: ASGIApp
    # For all database calls of a request together.
    timeout: timedelta
    # Names that it is served under; none: any.
    hosts: tuple[str, ...] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
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
                problem = ApiProblem("TC714", "ask about the id in X-Correlation-Id")
            if not reply.begun:
                await refused(problem)(scope, receive, reply)
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"],
            status=reply.status,
            milliseconds=round((perf_counter() - started) * 1000, 1),
        )


class _Reply:
    """Sends a reply on, with the headers that all have."""

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
    """Refuse a request that names no valid host, or one that is not served."""
    named = Headers(scope=scope).getlist("host")
    host = host_of(named[0]) if len(named) == 1 else None
    # HTTP/1.0 has no `Host` header; probes of load balancers still speak it.
    if host is None and (named or scope["http_version"] != "1.0"):
        raise ApiProblem("TC715", "send one `Host` header with a valid name")
    if not trusted or scope["path"] in _PROBES:
        return
    if host is None or not is_trusted(host, trusted):
        raise ApiProblem("TC716", "use the name that the platform has given the server")


def _refuse_too_long(scope: Scope) -> None:
    """Refuse a body that says how long it is before any of it is read."""
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
    return ApiProblem("TC706", f"a body has at most {LONGEST_BODY} bytes")
