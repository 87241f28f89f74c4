"""Authentication of callers in real gRPC servers, sync and async."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from grpc import aio
from support.grpc_services import grpc
from support.tokens import VERIFIER, payload, signed

from tenantcron.actor.key_sets import FetchedKeys
from tenantcron.actor.receiving_grpc import AsyncExecutionProofs, ExecutionProofs, proof_of_call
from tenantcron.actor.verification import InvalidTokenError, Verifier

Serve = Callable[[Verifier], Any]


@pytest.fixture(scope="module", autouse=True)
async def one_loop() -> AsyncIterator[None]:
    """Keep one event loop for all tests: a thread of grpc.aio may use it after a test."""
    yield  # noqa: PT022 -- it lasts as long as the module


def tenant(request: bytes, _: Any) -> bytes:
    try:
        return proof_of_call(request.decode() or None).tenant.encode()
    except InvalidTokenError as error:
        return error.refusal.value.encode()


def tenants(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for request in requests:
        yield tenant(request, context)


async def tenant_async(request: bytes, context: Any) -> bytes:
    return tenant(request, context)


async def tenants_async(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield tenant(request, context)


def health(_: bytes, __: Any) -> bytes:
    return b"serving"


async def health_async(_: bytes, __: Any) -> bytes:
    return b"serving"


def services(unary: Any, stream: Any, probe: Any) -> Any:
    methods = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Stream": grpc.stream_stream_rpc_method_handler(stream),
    }
    probes = {"Check": grpc.unary_unary_rpc_method_handler(probe)}
    return (
        grpc.method_handlers_generic_handler("acme.v1.Billing", methods),
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", probes),
    )


@asynccontextmanager
async def serve_sync(verifier: Verifier) -> AsyncIterator[int]:
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, interceptors=[ExecutionProofs(verifier)])
        server.add_generic_rpc_handlers(services(tenant, tenants, health))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()


@asynccontextmanager
async def serve_async(verifier: Verifier) -> AsyncIterator[int]:
    server = aio.server(interceptors=[AsyncExecutionProofs(verifier)])
    server.add_generic_rpc_handlers(services(tenant_async, tenants_async, health_async))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


@pytest.fixture(params=[serve_sync, serve_async], ids=["sync", "async"])
def serve(request: pytest.FixtureRequest) -> Serve:
    chosen: Serve = request.param
    return chosen


async def unary(
    port: int, authorization: Sequence[str], request: bytes = b"", method: str = "Unary"
) -> bytes:
    service = "grpc.health.v1.Health" if method == "Check" else "acme.v1.Billing"
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        metadata = [("authorization", text) for text in authorization]
        call: Any = channel.unary_unary(f"/{service}/{method}")
        return bytes(await call(request, metadata=metadata, timeout=20))


async def status(port: int, *authorization: str) -> str:
    with pytest.raises(aio.AioRpcError) as caught:
        await unary(port, authorization)
    return str(caught.value.code().name)


async def test_the_method_gets_the_verified_token_of_its_call(serve: Serve) -> None:
    bearer = f"Bearer {signed(payload())}"
    async with serve(VERIFIER) as port:
        assert await unary(port, [bearer]) == b"acme"
        assert await unary(port, [bearer], b"acme") == b"acme"
        assert await unary(port, [bearer], b"globex") == b"tenant"


async def test_all_messages_of_a_stream_belong_to_the_verified_call(serve: Serve) -> None:
    async with serve(VERIFIER) as port, aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        metadata = [("authorization", f"Bearer {signed(payload())}")]
        method: Any = channel.stream_stream("/acme.v1.Billing/Stream")
        requests = iter([b"", b"acme", b"globex"])
        messages = method(requests, metadata=metadata, timeout=20)
        assert [message async for message in messages] == [b"acme", b"acme", b"tenant"]


async def test_a_call_without_exactly_one_valid_token_does_not_reach_the_method(
    serve: Serve,
) -> None:
    good = f"Bearer {signed(payload())}"
    async with serve(VERIFIER) as port:
        for given in ([], ["Bearer"], ["Basic YTpi"], ["Bearer x"], [good, good]):
            assert await status(port, *given) == "UNAUTHENTICATED", given


async def test_a_missing_role_is_forbidden(serve: Serve) -> None:
    async with serve(replace(VERIFIER, role="service:billing")) as port:
        assert await status(port, f"Bearer {signed(payload())}") == "PERMISSION_DENIED"


async def test_without_keys_the_caller_may_try_again(serve: Serve) -> None:
    unreachable = replace(VERIFIER, keys=FetchedKeys("http://127.0.0.1:9/jwks.json"))
    async with serve(unreachable) as port:
        assert await status(port, f"Bearer {signed(payload())}") == "UNAVAILABLE"


async def test_health_checks_need_no_token(serve: Serve) -> None:
    async with serve(VERIFIER) as port:
        assert await unary(port, [], method="Check") == b"serving"
