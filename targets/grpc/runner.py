"""The adapter of gRPC targets: one call of `tenantcron.v1.SagaRunner/Run` for each attempt.

A call ends like a handler: it returns, or raises an error that decides whether it is retried
(`statuses`). The response ends the attempt. What happens at each failure:

- **The scheduler dies before the call:** the attempt is lost, and another replica repeats it.
- **The scheduler dies during the call, or before the response is recorded:** the server sees the
  call cancelled when the connection closes. Another replica repeats it with the same idempotency
  key, so the service must recognise the key, as with HTTP.
- **The server dies during the call:** `UNAVAILABLE`, which is retried.
- **The server hangs:** the deadline of the call is the timeout of the attempt, and the scheduler
  cancels the call then: `TIMED_OUT`.
- **An operator cancels, the lease is lost, or the scheduler shuts down:** the call is cancelled,
  which the server sees.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tenantcron.core.egress import bare
from tenantcron.core.grpc_targets import GrpcTarget, read_grpc_target
from tenantcron.core.requirements import TargetKind
from tenantcron.core.targets import OtherTarget
from tenantcron.core.values import JsonValue
from tenantcron.targets.contract import Delivered, RunnerServices, TargetCall
from tenantcron.targets.extras import require_library
from tenantcron.targets.faults import storable
from tenantcron.targets.headers import FENCE
from tenantcron.targets.http.checking import ForbiddenAddressError, checked_addresses
from tenantcron.targets.http.resolving import Resolve, Resolver, ResolvingError, asking_tenant
from tenantcron.targets.minting import mint_token
from tenantcron.targets.output import keep_result
from tenantcron.targets.responses import FailCall, RetryCall, redacted
from tenantcron.targets.tracing import Tracing, new_traceparent

# A scheduler without gRPC targets never loads grpc, and may not have it.
if TYPE_CHECKING:
    import grpc

    from tenantcron.targets.grpc.saga_runner_pb2 import RunRequest

_LONGEST_DETAILS: Final = 1000


class GrpcAdapter:
    """The kind `grpc`."""

    # The model in `manifests/language/models.py` has the schema.
    options_schema: Final[Mapping[str, JsonValue]] = {}

    def open(self, services: RunnerServices) -> "GrpcRunner":
        """Return the runner; raise a UsageError if grpcio or the CA file is missing."""
        require_library(TargetKind.GRPC)
        from tenantcron.targets.grpc.connecting import trusted_roots  # noqa: PLC0415 -- as above

        return GrpcRunner(trusted_roots(services.settings.ca_file), Resolver(), services.tracing)


@dataclass(frozen=True, slots=True)
class GrpcRunner:
    """Calls gRPC services."""

    trusted: "grpc.ChannelCredentials"
    resolve: Resolve
    tracing: Tracing | None = None

    async def run(self, call: TargetCall) -> Delivered:
        """Call the service once."""
        target = _allowed(call)
        asking_tenant.set(call.execution.tenant_id)
        if self.tracing is None:
            await self._run(call, target, new_traceparent(call.execution))
            return Delivered.DONE
        with self.tracing.call("POST", target.url.place) as span:
            await self._run(call, target, span.traceparent)
        return Delivered.DONE

    async def close(self) -> None:
        """Do nothing: each call closes its channel."""

    async def _run(self, call: TargetCall, target: GrpcTarget, traceparent: str) -> None:
        addresses = await self._addresses(call, target)
        token = await _token(call, target)
        hidden = () if token is None else (token,)
        bearer = () if token is None else (("authorization", f"Bearer {token}"),)
        metadata = (
            ("traceparent", traceparent),
            (FENCE.lower(), str(call.execution.fence)),
            *bearer,
        )
        result = await self._exchange(call, target, addresses, metadata, hidden)
        keep_result(_as_result(redacted(storable(result), hidden)))

    async def _addresses(self, call: TargetCall, target: GrpcTarget) -> Sequence[str]:
        try:
            return await checked_addresses(bare(target.url.host), call.egress, self.resolve)
        except ForbiddenAddressError as error:
            raise FailCall(str(error)) from None
        except ResolvingError as error:
            raise RetryCall(f"no connection to {target.url.origin}: {error}") from None

    async def _exchange(
        self,
        call: TargetCall,
        target: GrpcTarget,
        addresses: Sequence[str],
        metadata: Sequence[tuple[str, str]],
        hidden: tuple[str, ...],
    ) -> str:
        """Send the request and return the result; convert the status of a failure."""
        from grpc.aio import AioRpcError  # noqa: PLC0415 -- as above

        from tenantcron.targets.grpc.connecting import new_channel  # noqa: PLC0415 -- as above
        from tenantcron.targets.grpc.saga_runner_pb2 import (  # noqa: PLC0415 -- as above
            RunRequest,
            RunResponse,
        )
        from tenantcron.targets.grpc.statuses import PUSHBACK, call_failure  # noqa: PLC0415 -- as above

        async with new_channel(target, addresses, self.trusted) as channel:
            method = channel.unary_unary(
                target.url.target,
                request_serializer=RunRequest.SerializeToString,
                response_deserializer=RunResponse.FromString,
            )
            try:
                response = await method(
                    _request(call), timeout=call.timeout.total_seconds(), metadata=metadata
                )
            except AioRpcError as error:
                trailers = dict(error.trailing_metadata() or ())
                details = redacted(storable((error.details() or "")[:_LONGEST_DETAILS]), hidden)
                raise call_failure(error.code(), details, str(trailers.get(PUSHBACK, ""))) from None
        return str(response.result)


def _allowed(call: TargetCall) -> GrpcTarget:
    """Read the target; check it again, because the stored definition can be edited."""
    options = call.target.options if isinstance(call.target, OtherTarget) else {}
    target = read_grpc_target(options)
    if target is None:
        raise FailCall("the address of the target is invalid: apply its manifest again")
    refusal = call.egress.refusal(target.url)
    if refusal is not None:
        origin = target.url.origin
        raise FailCall(f"{origin} may not be called: {refusal.message}; {refusal.hint}")
    return target


async def _token(call: TargetCall, target: GrpcTarget) -> str | None:
    if target.auth is None:
        return None
    return await mint_token(call.tokens, target.audience, target.url.origin, call.allowed_audiences)


def _request(call: TargetCall) -> "RunRequest":
    from google.protobuf.timestamp_pb2 import Timestamp  # noqa: PLC0415 -- as above

    from tenantcron.targets.grpc.saga_runner_pb2 import RunRequest  # noqa: PLC0415 -- as above

    execution = call.execution
    scheduled_for = Timestamp()
    scheduled_for.FromDatetime(execution.scheduled_for)
    return RunRequest(
        execution_id=str(execution.id),
        tenant=execution.tenant_id,
        schedule=execution.schedule_name,
        saga=execution.saga_name,
        scheduled_for=scheduled_for,
        payload=json.dumps(execution.payload, ensure_ascii=False, sort_keys=True),
        idempotency_key=call.key,
        attempt=execution.attempt,
        owner=execution.owner or "",
    )


def _as_result(text: str) -> object:
    """Return a result that is JSON as its value, any other as text, and an empty one as None."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text
