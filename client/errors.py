"""Errors of the client; each message says what to do."""

import socket
import ssl
from collections.abc import Mapping

import httpx

from tenantcron.core.errors import TenantcronError


class RequestError(TenantcronError):
    """A request got no usable response; the message begins with the server's URL."""


class ProblemError(TenantcronError):
    """The server rejected a request, with a problem (RFC 9457); the text is its detail."""

    def __init__(
        self, server: str, status: int, problem: Mapping[str, object], correlation_id: str = ""
    ) -> None:
        self.server = server
        # Finds the request in the server's log.
        self.correlation_id = correlation_id
        self.status = status
        # A stable code, such as TC704; `tenantcron explain CODE` describes it.
        self.code = str(problem.get("code", ""))
        self.title = str(problem.get("title", ""))
        self.detail = str(problem.get("detail", ""))
        # All members, such as `errors` of an invalid request.
        self.members = problem
        super().__init__(self.detail)


def no_response(server: str, error: httpx.HTTPError) -> RequestError:
    """Return why a request got no response, from the errors that caused it."""
    return RequestError(f"{server}: {_reason(error)}")


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "the server did not respond in time: retry, or check that it is running"
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted: {cause.verify_message}"
            case ssl.SSLError():
                return "it does not accept TLS: check the scheme and the port of the URL"
            case socket.gaierror():
                return "the host name cannot be resolved: check the URL"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.ConnectError):
        return "cannot connect: check the URL and that the server is running"
    return "the connection was lost before the response: run it again"


def not_understood(server: str, status: int) -> RequestError:
    """Return what a response without JSON means."""
    if status >= 500:
        return RequestError(
            f"{server}: the server failed with HTTP {status}: retry, or read its log"
        )
    if 300 <= status < 400:
        return RequestError(
            f"{server}: it redirects (HTTP {status}): use the URL that it redirects to"
        )
    return RequestError(
        f"{server}: the response is not from tenantcron (HTTP {status}): check the URL"
    )


def another_version(server: str) -> RequestError:
    """Return the error of a response without the members that this version needs."""
    return RequestError(
        f"{server} is not a tenantcron server of this version: upgrade the older one of the two"
    )
