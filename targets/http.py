"""Calls of HTTP targets: one request and one response.

A call ends like a handler: it returns, or raises an error that decides whether it is retried.

- 2xx: success, once the response has ended or 2 KiB of it have arrived. 408, 409, 425, 429 and 5xx,
  no connection, no response, an interrupted response: a retry, not before `Retry-After`.
- Any other status, a redirect, a forbidden host or address: no retry.

The timeout of the attempt covers everything, including name resolution: the caller cancels the call
then. The `ServiceResponse` contains what has arrived by that time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import structlog

from tenantcron.actor.signatures import SIGNATURE, SIGNATURE_V1, SignedRequest
from tenantcron.core.auth import Auth, HmacAuth, TokenAuth, audience_refusal
from tenantcron.core.egress import Egress, Url, read_url
from tenantcron.core.headers import is_reserved_header
from tenantcron.targets.execution import Execution
from tenantcron.targets.resolving import Resolve, Resolver, ResolvingError, asking_tenant
from tenantcron.targets.responses import (
    LONGEST_RESPONSE,
    FailCall,
    RetryCall,
    ServiceResponse,
    check_status,
    redacted,
)
from tenantcron.targets.signing import read_secret
from tenantcron.targets.tokens import TokenError, Tokens
from tenantcron.targets.tracing import Tracing, new_traceparent

# A scheduler that calls no host never loads httpx.
if TYPE_CHECKING:
    import httpx

# A service that needs longer to accept a connection counts as unreachable.
LONGEST_CONNECT: Final = timedelta(seconds=10)

_BODY_HEADERS: Final = {
    "Content-Type": "application/json",
    # A compressed response could decompress to any size.
    "Accept-Encoding": "identity",
}

log = structlog.get_logger(__name__)


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


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """Headers that authenticate a request, and the secrets in them that must never be shown."""

    headers: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


class HttpClient:
    """Calls HTTP targets subject to the egress rules; all calls share one httpx client."""

    def __init__(
        self,
        egress: Egress,
        *,
        ca_file: Path | None = None,
        resolve: Resolve | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._egress = egress
        self._ca_file = ca_file
        self._resolve = resolve or Resolver()
        self._tracing = tracing
        self._client: httpx.AsyncClient | None = None

    def open(self) -> "httpx.AsyncClient":
        """Create the httpx client now, so that it does not delay the first call."""
        if self._client is None:
            from tenantcron.targets.connecting import new_client  # noqa: PLC0415 -- as above

            self._client = new_client(self._egress, self._resolve, self._ca_file)
        return self._client

    async def close(self) -> None:
        """Close all connections."""
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
        credentials = await _authenticate(request, url, body)
        own = own_headers(request, execution, traceparent)
        headers = {**_unreserved(request.headers), **own, **credentials.headers}
        sent = _Sent(url, request.method, headers, body, request.timeout, credentials.hidden)
        response = await self._send(sent, answer)
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
        headers = {**_BODY_HEADERS, **kind, **credentials.headers}
        sent = _Sent(self._allowed(url), "POST", headers, body, LONGEST_CONNECT, credentials.hidden)
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
        client = self.open()
        from tenantcron.targets.connecting import (  # noqa: PLC0415 -- as above
            ForbiddenAddressError,
            connection_failure,
        )

        try:
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


@dataclass(frozen=True, slots=True)
class _Sent:
    """A complete request, and the secrets in it that must never be shown."""

    url: Url
    method: str
    headers: Mapping[str, str]
    body: bytes
    timeout: timedelta
    hidden: tuple[str, ...]


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


def content(execution: Execution) -> bytes:
    """Return the request body, the same bytes for every attempt of an execution."""
    document = {
        "execution_id": str(execution.id),
        "tenant": execution.tenant_id,
        "schedule": execution.schedule_name,
        "saga": execution.saga_name,
        "scheduled_for": _utc(execution.scheduled_for),
        "payload": execution.payload,
        **({"owner": execution.owner} if execution.owner else {}),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def own_headers(request: TargetRequest, execution: Execution, traceparent: str) -> dict[str, str]:
    """Return the headers that no manifest can set."""
    return {
        **_BODY_HEADERS,
        "Idempotency-Key": request.key,
        # One trace for all attempts, with a span for each.
        "traceparent": traceparent,
        "X-Tenantcron-Execution": str(execution.id),
        "X-Tenantcron-Tenant": execution.tenant_id,
        "X-Tenantcron-Schedule": execution.schedule_name,
        "X-Tenantcron-Saga": execution.saga_name,
        "X-Tenantcron-Scheduled-For": _utc(execution.scheduled_for),
        "X-Tenantcron-Attempt": str(execution.attempt),
        **({"X-Tenantcron-Owner": execution.owner} if execution.owner else {}),
    }


def _unreserved(headers: Mapping[str, str]) -> dict[str, str]:
    """Drop reserved headers: a stored definition may have been edited manually."""
    return {name: text for name, text in headers.items() if not is_reserved_header(name)}


async def _authenticate(request: TargetRequest, url: Url, body: bytes) -> RequestCredentials:
    match request.auth:
        case None:
            return RequestCredentials()
        case TokenAuth(audience):
            return bearer(await _token(request, audience or url.origin, url))
        case HmacAuth(ref):
            secret = await read_secret(ref, request.allowed_secrets)
            return signed(
                secret,
                SignedRequest(
                    method=request.method,
                    url=str(url),
                    timestamp=timestamp(request.started_at),
                    key=request.key,
                    body=body,
                ),
            )


def signed(secret: bytes, request: SignedRequest) -> RequestCredentials:
    """Return the headers that sign a request."""
    headers = request.headers(secret)
    digests = headers[SIGNATURE], headers[SIGNATURE_V1].partition("=")[2]
    return RequestCredentials(headers, (secret.decode(errors="replace"), *digests))


def timestamp(moment: datetime) -> str:
    """Format a time as Unix seconds, for signatures."""
    return str(int(moment.timestamp()))


def bearer(token: str) -> RequestCredentials:
    """Return the header of a bearer token."""
    return RequestCredentials({"Authorization": f"Bearer {token}"}, (token,))


async def _token(request: TargetRequest, audience: str, url: Url) -> str:
    """Mint a token; check the audience again, because the stored definition can be edited."""
    refusal = audience_refusal(audience, url.origin, request.allowed_audiences)
    if refusal is not None:
        raise FailCall(f"{refusal.message}: {refusal.hint}")
    if request.tokens is None:
        raise FailCall("the target needs an execution token, and this scheduler has no signing key")
    try:
        return await request.tokens.mint(audience)
    except TokenError as error:
        raise RetryCall(f"no execution token for {audience}: {error}") from error


async def _read(
    response: "httpx.Response", hidden: tuple[str, ...], answer: ServiceResponse
) -> None:
    """Read the start of the response; store what has arrived even if reading fails.

    Reads beyond the stored part, so that a secret that crosses its end is found and redacted.
    """
    body, most = bytearray(), LONGEST_RESPONSE + max(map(len, hidden), default=0) * 4
    try:
        async for chunk in response.aiter_raw():
            body += chunk[: most - len(body)]
            if len(body) >= most:
                return
    finally:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        answer.keep(bytes(body), encoding, hidden)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
