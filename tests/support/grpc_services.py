"""Real gRPC services on loopback: in the event loop of the test, or in a process to kill.

Without grpcio, the tests that need it are skipped. With `GRPC_TESTS=required`, as in CI, they fail
instead.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from support.calls import KEY, STARTED_AT, Ended, an_execution, egress_to

from tenantcron.core.grpc_targets import METHOD, SERVICE
from tenantcron.core.targets import OtherTarget
from tenantcron.core.values import JsonValue
from tenantcron.targets.contract import TargetCall
from tenantcron.targets.responses import FailCall, RetryCall

if os.environ.get("GRPC_TESTS") == "required":
    __import__("grpc")
grpc = pytest.importorskip("grpc")

from grpc import aio  # noqa: E402 -- after the check

from tenantcron.targets.grpc.connecting import trusted_roots  # noqa: E402 -- as above
from tenantcron.targets.grpc.runner import GrpcRunner  # noqa: E402 -- as above
from tenantcron.targets.grpc.saga_runner_pb2 import RunRequest, RunResponse  # noqa: E402 -- as above

Run = Callable[[RunRequest, Any], Awaitable[RunResponse]]

# Prints its port, then a line for each call, which never ends.
HANGING = f"""
import sys, time, grpc
from concurrent.futures import ThreadPoolExecutor

def run(request, context):
    print("called", flush=True)
    time.sleep(3600)

server = grpc.server(ThreadPoolExecutor(1))
method = grpc.unary_unary_rpc_method_handler(run)
server.add_generic_rpc_handlers(
    (grpc.method_handlers_generic_handler("{SERVICE}", {{"{METHOD}": method}}),)
)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"""


@dataclass(slots=True)
class GrpcService:
    """A service, and the calls that it has received."""

    port: int
    requests: list[RunRequest] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)


async def done(_: RunRequest, __: Any) -> RunResponse:
    """Return no result."""
    return RunResponse()


def method_handlers(run: Any, service: str = SERVICE) -> Any:
    """Return the handlers of a service with the method `Run`."""
    method = grpc.unary_unary_rpc_method_handler(
        run,
        request_deserializer=RunRequest.FromString,
        response_serializer=RunResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(service, {METHOD: method})


@asynccontextmanager
async def grpc_service(
    run: Run = done, *, credentials: Any = None, service: str = SERVICE
) -> AsyncIterator[GrpcService]:
    """Serve for the duration of the block, with TLS if there are credentials."""
    running = GrpcService(0)

    async def record(request: RunRequest, context: Any) -> RunResponse:
        running.requests.append(request)
        running.metadata.append({key: str(text) for key, text in context.invocation_metadata()})
        return await run(request, context)

    server = aio.server()
    server.add_generic_rpc_handlers((method_handlers(record, service),))
    address = "127.0.0.1:0"
    running.port = (
        server.add_secure_port(address, credentials)
        if credentials
        else server.add_insecure_port(address)
    )
    await server.start()
    try:
        yield running
    finally:
        await server.stop(None)


@contextmanager
def hanging_process() -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a service in another process, whose method never returns; yield also its port."""
    with subprocess.Popen(
        [sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def grpc_runner(**options: Any) -> GrpcRunner:
    """Return the runner of a replica."""
    ca_file = options.pop("ca_file", None)
    resolve = options.pop("resolve", None)
    return GrpcRunner(trusted_roots(ca_file), resolve, **options)


def grpc_call(port: int, **options: JsonValue) -> TargetCall:
    """Return an attempt at a service on this machine, without TLS."""
    target = {"address": f"127.0.0.1:{port}", "plaintext": True, **options}
    return TargetCall(
        execution=an_execution(),
        target=OtherTarget("grpc", target),
        key=KEY,
        started_at=STARTED_AT,
        timeout=timedelta(seconds=20),
        egress=egress_to(port),
        allowed_secrets=(),
        allowed_audiences=(),
    )


async def ended_call(call: TargetCall, runner: GrpcRunner | None = None) -> Ended:
    """Run an attempt, and return its failure if there is one."""
    try:
        await (runner or grpc_runner()).run(call)
    except (RetryCall, FailCall) as error:
        return Ended(call.answer, error)
    return Ended(call.answer)
