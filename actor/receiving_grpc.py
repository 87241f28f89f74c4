"""Authentication of executions in gRPC services that they call.

    proofs = ExecutionProofs(Verifier(keys=FetchedKeys(url), issuer="tenantcron", audience=ours))
    server = grpc.server(ThreadPoolExecutor(), interceptors=[proofs])

    def Run(self, request, context):
        proof = proof_of_call(request.tenant)

`AsyncExecutionProofs` does the same for the async methods of a `grpc.aio` server. Calls without a
valid token end with `UNAUTHENTICATED` or `PERMISSION_DENIED` before the method runs, and with
`UNAVAILABLE` if the keys or the issuer cannot be reached.

Only this module needs gRPC: `pip install 'tenantcron[grpc]'`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, final

import grpc
from grpc import aio

from tenantcron.actor.introspection import IntrospectionUnavailableError
from tenantcron.actor.key_sets import KeysUnavailableError
from tenantcron.actor.verification import InvalidTokenError, Proof, TokenRefusal, Verifier

# Probes have no token.
HEALTH: Final = "/grpc.health.v1.Health/"

_SCHEME: Final = "bearer"
_current: ContextVar[Proof] = ContextVar("tenantcron_proof")

# Methods have any messages.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Method = Callable[[Any, Any], Any]
_Details = grpc.HandlerCallDetails


def proof_of_call(tenant: str | None = None) -> Proof:
    """Return the verified token of the current call.

    If a tenant is given, the token must belong to it: raises an InvalidTokenError otherwise.
    """
    proof = _current.get()
    if tenant is not None and proof.tenant != tenant:
        raise InvalidTokenError(TokenRefusal.TENANT, "the token belongs to another tenant")
    return proof


class _Refused(Exception):  # noqa: N818 -- the end of a call, not an error of ours
    """The status and the details with which a call ends."""

    def __init__(self, status: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.status = status
        self.details = details


@final
class ExecutionProofs(grpc.ServerInterceptor):
    """Verifies the tokens of calls, for servers of `grpc`."""

    def __init__(self, verifier: Verifier, *, public: Collection[str] = (HEALTH,)) -> None:
        self._verifier = verifier
        # Prefixes of methods that need no token.
        self._public = tuple(public)

    def intercept_service(
        self, continuation: Callable[[_Details], _Handler | None], handler_call_details: _Details
    ) -> _Handler | None:
        """Wrap the method, because interceptors run in the only thread that accepts calls."""
        handler = continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(self._public):
            return handler
        return _wrapped(handler, self._proven)

    def _proven(self, method: _Method) -> _Method:
        def run(request: Any, context: grpc.ServicerContext) -> Any:
            try:
                _current.set(_verified(self._verifier, context.invocation_metadata()))
            except _Refused as refused:
                context.abort(refused.status, refused.details)
            return method(request, context)

        return run


@final
class AsyncExecutionProofs(aio.ServerInterceptor):
    """Verifies the tokens of calls, for servers of `grpc.aio`."""

    def __init__(self, verifier: Verifier, *, public: Collection[str] = (HEALTH,)) -> None:
        self._verifier = verifier
        self._public = tuple(public)

    async def intercept_service(
        self,
        continuation: Callable[[_Details], Awaitable[_Handler | None]],
        handler_call_details: _Details,
    ) -> _Handler | None:
        """Verify the token in a thread, because fetching keys blocks."""
        if not handler_call_details.method.startswith(self._public):
            metadata = handler_call_details.invocation_metadata
            try:
                _current.set(await asyncio.to_thread(_verified, self._verifier, metadata))
            except _Refused as refused:
                return _aborting(refused)
        return await continuation(handler_call_details)


def _verified(verifier: Verifier, metadata: Iterable[tuple[str, str | bytes]]) -> Proof:
    try:
        return verifier.verify(_bearer(metadata))
    except InvalidTokenError as error:
        is_known = error.refusal in (TokenRefusal.TENANT, TokenRefusal.ROLE)
        code = grpc.StatusCode.PERMISSION_DENIED if is_known else grpc.StatusCode.UNAUTHENTICATED
        raise _Refused(code, str(error)) from None
    except (KeysUnavailableError, IntrospectionUnavailableError) as error:
        raise _Refused(grpc.StatusCode.UNAVAILABLE, str(error)) from None


def _bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    given = [text for key, text in metadata if key == "authorization"]
    # With two headers, a proxy may have checked the other one.
    if len(given) == 1 and isinstance(given[0], str):
        scheme, _, token = given[0].partition(" ")
        if scheme.lower() == _SCHEME and token:
            return token.strip()
    raise _Refused(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is missing")


def _wrapped(handler: _Handler, proven: Callable[[_Method], _Method]) -> _Handler:
    """Return the handler of a method, with the method wrapped."""
    request = "stream" if handler.request_streaming else "unary"
    name = f"{request}_{'stream' if handler.response_streaming else 'unary'}"
    new: Callable[..., _Handler] = getattr(grpc, f"{name}_rpc_method_handler")
    method: _Method = getattr(handler, name)
    return new(proven(method), handler.request_deserializer, handler.response_serializer)


def _aborting(refused: _Refused) -> _Handler:
    async def abort(_: Any, context: aio.ServicerContext[Any, Any]) -> None:
        await context.abort(refused.status, refused.details)

    return grpc.unary_unary_rpc_method_handler(abort)
