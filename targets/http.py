"""The call of an HTTP target: one request, one answer, no second thoughts.

A call ends like a handler: it returns, or raises whether another attempt makes sense.

- 2xx: done, once the answer has come to its end or to 2 KiB. 408, 409, 425, 429 and 5xx, no
  connection, no answer, an answer that breaks off: another attempt, not before `Retry-After`.
- Any other status, a redirect, a host or an address that may not be called: no other attempt.

The time of the attempt bounds all of it, from the look-up of the name on: whoever runs the call
cancels it then. What the service has said by that time stands in the `ServiceResponse`.
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
    judge,
    redacted,
)
from tenantcron.targets.signing import read_secret
from tenantcron.targets.tokens import TokenError, Tokens
from tenantcron.targets.tracing import Tracing, new_traceparent

# A scheduler that may call no host never loads it.
if TYPE_CHECKING:
    import httpx

# Nobody listens who takes longer to pick up.
LONGEST_CONNECT: Final = timedelta(seconds=10)

_OF_THE_BODY: Final = {
    "Content-Type": "application/json",
    # What is packed could unpack to anything.
    "Accept-Encoding": "identity",
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """What one attempt sends, but for what the execution itself says."""

    url: str
    method: str
    headers: Mapping[str, str]
    auth: Auth | None
    # The same for every attempt of an execution, and for no other execution.
    key: str
    started_at: datetime
    timeout: timedelta
    # What this tenant may call; None: what all tenants may.
    egress: Egress | None = None
    # What this tenant's requests may be signed with.
    allowed_secrets: tuple[str, ...] = ()
    # What it may have tokens for, besides the origin of its URL.
    allowed_audiences: tuple[str, ...] = ()
    tokens: Tokens | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """Headers that prove whom a request is from, and what of them must never be shown."""

    headers: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


class HttpClient:
    """Calls HTTP targets, within what egress allows, with one client for all."""

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
        """Make the client; the first call would do so, and be late for it."""
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
        """Make the call; what the service says is put into the answer as it comes."""
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
        proof = await _prove(request, url, body)
        own = own_headers(request, execution, traceparent)
        headers = {**_free(request.headers), **own, **proof.headers}
        sent = _Sent(url, request.method, headers, body, request.timeout, proof.hidden)
        answered = await self._send(sent, answer)
        log.debug("http_answered", url=url.place, status=answered.status_code)
        now = request.started_at + timedelta(seconds=monotonic() - began)
        judge(answered.status_code, answered.headers, now)

    async def post(
        self,
        url: str,
        body: bytes,
        proof: RequestCredentials,
        answer: ServiceResponse,
        content_type: str | None = None,
    ) -> None:
        """Ask a service something by the same rules; whatever it says is put into the answer."""
        kind = {"Content-Type": content_type} if content_type else {}
        headers = {**_OF_THE_BODY, **kind, **proof.headers}
        sent = _Sent(self._allowed(url), "POST", headers, body, LONGEST_CONNECT, proof.hidden)
        await self._send(sent, answer)

    def _allowed(self, text: str, egress: Egress | None = None) -> Url:
        url = read_url(text)
        if url is None:
            raise FailCall("the target is not a URL that can be called: apply its manifest again")
        refusal = (egress or self._egress).refusal(url)
        if refusal is not None:
            raise FailCall(f"{url.origin} may not be called: {refusal.message}; {refusal.hint}")
        return url

    async def _send(self, sent: "_Sent", answer: ServiceResponse) -> "httpx.Response":
        """Send a request, read what is kept of the answer, and say in words what went wrong."""
        client = self.open()
        from tenantcron.targets.connecting import (  # noqa: PLC0415 -- as above
            ForbiddenAddressError,
            broken,
        )

        try:
            return await _exchange(client, sent, answer)
        except ForbiddenAddressError as error:
            raise FailCall(str(error)) from None
        except ResolvingError as error:
            raise RetryCall(f"no connection to {sent.url.origin}: {error}") from None
        except Exception as error:
            what = broken(error)
            if what is None:
                raise
            said = redacted(f"{what.said} {sent.url.origin}{what.why}", sent.hidden)
            raise (RetryCall if what.may_pass else FailCall)(said) from None


@dataclass(frozen=True, slots=True)
class _Sent:
    """One request in full, and what of it must never be shown."""

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
        # Byte by byte what was signed: httpx would write some paths and queries another way.
        extensions={"target": sent.url.target.encode()},
        # For each step; whoever runs the call has an eye on the whole.
        timeout=(connect, seconds, seconds, seconds),
    ) as response:
        answer.status = response.status_code
        await _read(response, sent.hidden, answer)
        return response


def content(execution: Execution) -> bytes:
    """Return the body: the same bytes for every attempt of an execution."""
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
        **_OF_THE_BODY,
        "Idempotency-Key": request.key,
        # One trace for all attempts, each with a span of its own.
        "traceparent": traceparent,
        "X-Tenantcron-Execution": str(execution.id),
        "X-Tenantcron-Tenant": execution.tenant_id,
        "X-Tenantcron-Schedule": execution.schedule_name,
        "X-Tenantcron-Saga": execution.saga_name,
        "X-Tenantcron-Scheduled-For": _utc(execution.scheduled_for),
        "X-Tenantcron-Attempt": str(execution.attempt),
        **({"X-Tenantcron-Owner": execution.owner} if execution.owner else {}),
    }


def _free(headers: Mapping[str, str]) -> dict[str, str]:
    """A definition lies in a database, where somebody may have put in what no manifest can."""
    return {name: text for name, text in headers.items() if not is_reserved_header(name)}


async def _prove(request: TargetRequest, url: Url, body: bytes) -> RequestCredentials:
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
    """Return the proof that a signature is."""
    headers = request.headers(secret)
    digests = headers[SIGNATURE], headers[SIGNATURE_V1].partition("=")[2]
    return RequestCredentials(headers, (secret.decode(errors="replace"), *digests))


def timestamp(moment: datetime) -> str:
    """Return a moment as signatures have it."""
    return str(int(moment.timestamp()))


def bearer(token: str) -> RequestCredentials:
    """Return the proof that a token is."""
    return RequestCredentials({"Authorization": f"Bearer {token}"}, (token,))


async def _token(request: TargetRequest, audience: str, url: Url) -> str:
    """Mint a token; the manifest was checked, but its stored definition can be edited."""
    refusal = audience_refusal(audience, url.origin, request.allowed_audiences)
    if refusal is not None:
        raise FailCall(f"{refusal.message}: {refusal.hint}")
    if request.tokens is None:
        raise FailCall("the target asks for an execution token, and this scheduler makes none")
    try:
        return await request.tokens.mint(audience)
    except TokenError as error:
        raise RetryCall(f"no execution token for {audience}: {error}") from error


async def _read(
    response: "httpx.Response", hidden: tuple[str, ...], answer: ServiceResponse
) -> None:
    """Read the beginning of the answer; whatever ends the reading, what has come is kept.

    A secret that begins inside of what is kept must be seen to its end to be found.
    """
    body, enough = bytearray(), LONGEST_RESPONSE + max(map(len, hidden), default=0) * 4
    try:
        async for part in response.aiter_raw():
            body += part[: enough - len(body)]
            if len(body) >= enough:
                return
    finally:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        answer.keep(bytes(body), encoding, hidden)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
