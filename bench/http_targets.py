"""HTTP target calls per second of a scheduler, compared with httpx itself.

    .venv/bin/python bench/http_targets.py [--quick]

A service in a separate process responds with 204 to everything. It is called by the executor, with
headers, signature and checks, and by a bare `httpx.AsyncClient`, interleaved in one run. Calls are
counted per second of CPU time of this process, which is the cost of a call here, and per second of
elapsed time. The ratio of the former has a goal; the script exits with 1 if it is missed. Nothing
is written to a database: `scheduler.py` measures that.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter, process_time
from uuid import UUID, uuid4

import httpx
import structlog

from tenantcron.actor.model import scheduler_actor
from tenantcron.core.auth import HmacAuth
from tenantcron.core.egress import Egress
from tenantcron.core.names import TenantId
from tenantcron.core.requirements import TargetKind
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.targets import HttpTarget
from tenantcron.manifests.policy import default_policy
from tenantcron.provider.static_settings import DEFAULTS
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.deliver import Deliveries
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.schedules.settings import ScheduleSettings, read_settings
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.contract import TargetRunner
from tenantcron.targets.execution import AsyncTransaction, Transaction
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.runner import HttpRunner
from tenantcron.targets.python.registry import Handlers

CONCURRENCY = 50
ROUNDS = 5
# The executor adds a signature, ten headers and the egress checks to what httpx does.
MIN_RATIO = 0.5
SECRET = "BENCH_HMAC"  # noqa: S105 -- the name of a variable
_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"

Call = Callable[[], Awaitable[None]]


class NoDatabase:
    """Calls need no database."""

    def begin(self) -> AsyncTransaction:
        """Fail: not used."""
        raise NotImplementedError

    def begin_plain(self) -> Transaction:
        """Fail: not used."""
        raise NotImplementedError


def serve(pipe: Connection) -> None:
    """Respond with 204 to everything, until the process is ended."""
    asyncio.run(_serve(pipe))


async def _serve(pipe: Connection) -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _answer(reader: StreamReader, writer: StreamWriter) -> None:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or 0))
        writer.write(_ANSWER)


def executor_call(caller: HttpClient, port: int) -> Call:
    """Return a call as the scheduler makes it."""
    policy = default_policy()._replace(egress=_egress(port), allowed_secrets=(f"env:{SECRET}",))
    runners: dict[str, TargetRunner] = {TargetKind.HTTP: HttpRunner(caller)}
    deliveries = Deliveries(runners, policy, _no_time_passed)
    executor = Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries)
    settings = read_settings(DEFAULTS)
    auth = HmacAuth(SecretRef("env", SECRET))
    target = HttpTarget(f"http://127.0.0.1:{port}/run", "POST", {"X-Team": "billing"}, auth)

    async def call() -> None:
        attempt = await executor.run(_claimed(), settings, target)
        if attempt.outcome is not AttemptOutcome.SUCCEEDED:
            raise RuntimeError(attempt.error)

    return call


def httpx_call(client: httpx.AsyncClient, port: int) -> Call:
    """Return a plain httpx call."""
    url = f"http://127.0.0.1:{port}/run"

    async def call() -> None:
        answer = await client.post(url, json={"payload": {}})
        answer.raise_for_status()

    return call


@dataclass(frozen=True, slots=True)
class Rate:
    """Calls per second of CPU time, and of elapsed time."""

    cpu: float
    elapsed: float


async def rate(call: Call, number: int) -> Rate:
    """Make calls, a fixed number at a time."""
    left = iter(range(number))

    async def work() -> None:
        for _ in left:
            await call()

    began, cpu = perf_counter(), process_time()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return Rate(number / (process_time() - cpu), number / (perf_counter() - began))


async def measure(port: int, number: int) -> int:
    """Measure both, interleaved, and print the results."""
    os.environ[SECRET] = "0123456789abcdef" * 2
    caller = HttpClient(_egress(port))
    limits = httpx.Limits(max_connections=1024, max_keepalive_connections=100)
    async with httpx.AsyncClient(trust_env=False, limits=limits) as client:
        calls = {"executor": executor_call(caller, port), "httpx": httpx_call(client, port)}
        rates: dict[str, list[Rate]] = {name: [] for name in calls}
        for call in calls.values():
            await rate(call, number // 10)
        for _ in range(ROUNDS):
            for name, call in calls.items():
                rates[name].append(await rate(call, number))
    await caller.close()
    turns = zip(rates["executor"], rates["httpx"], strict=True)
    ratio = median(ours.cpu / bare.cpu for ours, bare in turns)
    for name, found in rates.items():
        cpu, elapsed = (median(values) for values in zip(*map(astuple, found), strict=True))
        print(f"{name:10} {cpu:8.0f} calls/s of CPU, {elapsed:8.0f} calls/s elapsed")
    print(f"{'ratio':10} {ratio:8.2f} (goal: at least {MIN_RATIO})")
    return int(ratio < MIN_RATIO)


def _egress(port: int) -> Egress:
    return Egress(("http://127.0.0.1",), ("127.0.0.0/8",), (port,))


async def _no_time_passed(_: Claimed, __: ScheduleSettings) -> timedelta:
    return timedelta(0)


def _claimed() -> Claimed:
    return Claimed(
        id=uuid4(),
        scheduled_for=datetime(2026, 12, 1, tzinfo=UTC),
        tenant_id=TenantId("acme"),
        schema_name="tenant_acme",
        schedule_id=UUID(int=2),
        schedule_name="nightly",
        saga_name="reconcile",
        definition_id=UUID(int=3),
        attempt=1,
        attempts_allowed=3,
        losses=0,
        suspicion=0,
        lease_token=uuid4(),
        started_at=datetime.now(UTC),
        actor=scheduler_actor("bench"),
    )


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    number = 500 if parser.parse_args().quick else 3000
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    receiver, pipe = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=serve, args=(pipe,), daemon=True)
    process.start()
    try:
        return asyncio.run(measure(receiver.recv(), number))
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    sys.exit(main())
