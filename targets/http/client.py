"""Calls of HTTP targets: one request and one response.

A call ends like a handler: it returns, or raises an error that decides whether it is retried.

- 2xx: success, once the response has ended or 2 KiB of it have arrived. 408, 409, 425, 429 and 5xx,
  no connection, no response, an interrupted response: a retry, not before `Retry-After`.
- Any other status, a redirect, a forbidden host or address: no retry.

The timeout of the attempt covers everything, including name resolution: the caller cancels the call
then. The `ServiceResponse` contains what has arrived by that time.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog

from tenantcron.core.egress import Egress, Url, read_url
from tenantcron.targets.execution import Execution
from tenantcron.targets.http.authenticating import authenticate
from tenantcron.targets.http.checking import ForbiddenAddressError
from tenantcron.targets.http.client_certificates import ClientCertificates
from tenantcron.targets.http.credentials import CertificateFiles, RequestCredentials
from tenantcron.targets.http.oauth2 import OAuth2Tokens
from tenantcron.targets.http.requests import (
    BODY_HEADERS,
    TargetRequest,
    content,
    own_headers,
    unreserved,
)
from tenantcron.targets.http.resolving import Resolve, Resolver, ResolvingError, asking_tenant
from tenantcron.targets.http.statuses import check_status
from tenantcron.targets.responses import FailCall, RetryCall, ServiceResponse, redacted
from tenantcron.targets.tracing import Tracing, new_traceparent

# A scheduler that calls no host never loads httpx.
if TYPE_CHECKING:
    import httpx

FORM: Final = "application/x-www-form-urlencoded"
# A service that needs longer to accept a connection counts as unreachable.
LONGEST_CONNECT: Final = timedelta(seconds=10)

log = structlog.get_logger(__name__)


class HttpClient:
    """Calls HTTP targets subject to the egress rules.

    All calls share one httpx client, except for calls with a client certificate.
    """

    def __init__(
        self,
        egress: Egress,
        *,
        ca_file: Path | None = None,
        resolve: Resolve | None = None,
        tracing: Tracing | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._egress = egress
        self._ca_file = ca_file
        self._resolve = resolve or Resolver()
        self._tracing = tracing
        self._client: httpx.AsyncClient | None = None
        self._certificates: ClientCertificates | None = None
        self._oauth2 = OAuth2Tokens(self._post_form, now)

    def open(self) -> "httpx.AsyncClient":
        """Create the httpx client now, so that it does not delay the first call."""
        if self._client is None:
            from tenantcron.targets.http.connecting import new_client, trusting  # noqa: PLC0415 -- as above

            context = partial(trusting, self._ca_file)
            client = partial(new_client, self._egress, self._resolve)
            self._client = client(context())
            self._certificates = ClientCertificates(context, client)
        return self._client

    async def close(self) -> None:
        """Close all connections."""
        await self._oauth2.close()
        if self._certificates is not None:
            await self._certificates.close()
        if self._client is not None:
            await self._client.aclose()

    async def call(
        self, request: TargetRequest, execution: Execution, answer: ServiceResponse
    ) -> None:
        """Call the target; `answer` receives the response as it arrives."""
        url = self._allowed(request.url, request.egress)
        asking_tenant.set(execution.tenant_id)
        if self._tracing is None:
            await self._call(request, url, execution, answer, new_traceparent(execution))
            return
        with self._tracing.call(request.method, url.place) as span:
            try:
                await self._call(request, url, execution, answer, span.traceparent)
            finally:
                span.answered(answer.status)

    async def _call(
        self,
        request: TargetRequest,
        url: Url,
        execution: Execution,
        answer: ServiceResponse,
        traceparent: str,
    ) -> None:
        began = monotonic()
        body = content(execution)
        headers = {**unreserved(request.headers), **own_headers(request, execution, traceparent)}

        async def exchange() -> "tuple[httpx.Response, RequestCredentials]":
            tenant = execution.tenant_id
            credentials = await authenticate(request, tenant, url, body, self._oauth2)
            sent = _to_send(request, url, headers, body, credentials)
            return await self._send(sent, answer), credentials

        response, credentials = await exchange()
        if response.status_code == HTTPStatus.UNAUTHORIZED and credentials.drop is not None:
            # The service has rejected a cached token, and with it the request: send it once more.
            log.debug("cached_token_rejected", url=url.place)
            credentials.drop()
            response, _ = await exchange()
        log.debug("http_answered", url=url.place, status=response.status_code)
        now = request.started_at + timedelta(seconds=monotonic() - began)
        check_status(response.status_code, response.headers, now)

    async def post(
        self,
        url: str,
        body: bytes,
        credentials: RequestCredentials,
        answer: ServiceResponse,
        content_type: str | None = None,
    ) -> None:
        """Post to a service subject to the same rules; `answer` receives any response."""
        kind = {"Content-Type": content_type} if content_type else {}
        headers = {**BODY_HEADERS, **kind, **credentials.headers}
        sent = _Sent(self._allowed(url), "POST", headers, body, LONGEST_CONNECT, credentials.hidden)
        await self._send(sent, answer)

    async def _post_form(
        self,
        url: str,
        form: bytes,
        credentials: RequestCredentials,
        answer: ServiceResponse,
        egress: Egress | None,
    ) -> None:
        """Post a form to a token endpoint, subject to the egress rules of a tenant."""
        headers = {**BODY_HEADERS, "Content-Type": FORM, **credentials.headers}
        allowed = self._allowed(url, egress)
        sent = _Sent(allowed, "POST", headers, form, LONGEST_CONNECT, credentials.hidden)
        await self._send(sent, answer)

    def _allowed(self, text: str, egress: Egress | None = None) -> Url:
        url = read_url(text)
        if url is None:
            raise FailCall("the URL of the target is invalid: apply its manifest again")
        refusal = (egress or self._egress).refusal(url)
        if refusal is not None:
            raise FailCall(f"{url.origin} may not be called: {refusal.message}; {refusal.hint}")
        return url

    async def _send(self, sent: "_Sent", answer: ServiceResponse) -> "httpx.Response":
        """Send a request and read the start of the response; convert connection errors."""
        from tenantcron.targets.http.connecting import connection_failure  # noqa: PLC0415 -- as above

        try:
            async with self._client_for(sent.certificate) as client:
                return await _exchange(client, sent, answer)
        except ForbiddenAddressError as error:
            raise FailCall(str(error)) from None
        except ResolvingError as error:
            raise RetryCall(f"no connection to {sent.url.origin}: {error}") from None
        except Exception as error:
            failure = connection_failure(error)
            if failure is None:
                raise
            text = redacted(f"{failure.text} {sent.url.origin}{failure.cause}", sent.hidden)
            raise (RetryCall if failure.is_transient else FailCall)(text) from None

    @asynccontextmanager
    async def _client_for(
        self, certificate: CertificateFiles | None
    ) -> AsyncIterator["httpx.AsyncClient"]:
        shared = self.open()
        if certificate is None or self._certificates is None:
            yield shared
            return
        async with self._certificates.client(certificate) as client:
            yield client


@dataclass(frozen=True, slots=True)
class _Sent:
    """A complete request, and the secrets in it that must never be shown."""

    url: Url
    method: str
    headers: Mapping[str, str]
    body: bytes
    timeout: timedelta
    hidden: tuple[str, ...]
    certificate: CertificateFiles | None = None


def _to_send(
    request: TargetRequest,
    url: Url,
    headers: Mapping[str, str],
    body: bytes,
    credentials: RequestCredentials,
) -> _Sent:
    headers, hidden = {**headers, **credentials.headers}, credentials.hidden
    if request.callback is not None:
        headers |= request.callback.headers()
        hidden = (*hidden, request.callback.token)
    certificate = credentials.certificate
    return _Sent(url, request.method, headers, body, request.timeout, hidden, certificate)


async def _exchange(
    client: "httpx.AsyncClient", sent: _Sent, answer: ServiceResponse
) -> "httpx.Response":
    seconds = sent.timeout.total_seconds()
    connect = min(seconds, LONGEST_CONNECT.total_seconds())
    async with client.stream(
        sent.method,
        str(sent.url),
        content=sent.body,
        headers=dict(sent.headers),
        # Exactly the signed bytes: httpx would encode some paths and queries differently.
        extensions={"target": sent.url.target.encode()},
        # Per step; the caller enforces the total time.
        timeout=(connect, seconds, seconds, seconds),
    ) as response:
        answer.status = response.status_code
        await _read(response, sent.hidden, answer)
        return response


async def _read(
    response: "httpx.Response", hidden: tuple[str, ...], answer: ServiceResponse
) -> None:
    """Read the start of the response; store what has arrived even if reading fails.

    Reads beyond the stored part, so that a secret that crosses its end is found and redacted.
    """
    body, most = bytearray(), answer.longest + max(map(len, hidden), default=0) * 4
    try:
        async for chunk in response.aiter_raw():
            body += chunk[: most - len(body)]
            if len(body) >= most:
                return
    finally:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        answer.keep(bytes(body), encoding, hidden)
