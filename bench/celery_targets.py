"""Dispatch to a Celery queue by a scheduler, compared with Celery's own client.

    .venv/bin/python bench/celery_targets.py [--quick] [--database-url URL]

A RabbitMQ on loopback has one durable queue. The executor sends claimed executions to it: it mints
the callback token, hands the lease over in the database, and publishes a persistent message. A bare
loop of `apply_async` publishes tasks of the same size to the same queue. Both wait for the broker's
confirmation of each message, and are interleaved in one run. The ratio of the rates by elapsed time
has a goal; the script exits with 1 if it is missed. The ratio by CPU time of this process is shown
without a goal: only the executor mints tokens and writes to PostgreSQL. The bare loop sends one
message at a time, while the executor has up to 50 under way, so waiting for the broker costs the
executor less.

Without RabbitMQ (`apt-get install rabbitmq-server`) nothing is measured.
"""

import argparse
import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep

import structlog
from celery import Celery
from seeding import NOOP, Seeding
from serving import Workspace, add_database_url, server
from sqlalchemy import text

from tenantcron.core.requirements import TargetKind
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.settings import Settings
from tenantcron.core.targets import OtherTarget
from tenantcron.manifests.policy import default_policy
from tenantcron.provider.static_settings import DEFAULTS
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.deliver import Deliveries
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.hand_over import HandOvers
from tenantcron.scheduler.tokens.token_minting import Minter
from tenantcron.schedules.settings import ScheduleSettings, read_settings
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.celery.broker import BrokerPublisher
from tenantcron.targets.celery.runner import CeleryRunner
from tenantcron.targets.execution import AsyncTransaction, Transaction
from tenantcron.targets.python.registry import Handlers

TENANTS = 20
CONCURRENCY = 50
ROUNDS = 5
MIN_RATIO = 0.7
QUEUE = "bench"
BROKER = "BENCH_CELERY_BROKER"
# The script for ordinary users; the one in the path changes to the user of the system's server.
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_START_SECONDS = 60
_CLEAR = (
    "TRUNCATE tenantcron.execution",
    "TRUNCATE tenantcron.execution_attempt",
    "DELETE FROM tenantcron.schedule_cursor",
)


class NoDatabase:
    """Handlers that send messages use no transaction."""

    def begin(self) -> AsyncTransaction:
        """Fail: not used."""
        raise NotImplementedError

    def begin_plain(self) -> Transaction:
        """Fail: not used."""
        raise NotImplementedError


@contextmanager
def rabbitmq(epmd: str) -> Iterator[str]:
    """Run RabbitMQ on loopback with its files in a temporary folder; yield its URL."""
    with TemporaryDirectory(prefix="tenantcron-bench-") as name:
        folder, port, names = Path(name), _free_port(), _free_port()
        (folder / "plugins").write_text("[].", encoding="utf-8")
        variables = {
            "HOME": name,
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
        }
        registry = subprocess.Popen([epmd, "-port", str(names), "-address", "127.0.0.1"])
        broker = subprocess.Popen(
            [RABBITMQ],
            env=os.environ | variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_for(port)
            yield f"amqp://guest:guest@127.0.0.1:{port}//"
        finally:
            os.killpg(broker.pid, signal.SIGKILL)
            broker.wait()
            registry.kill()
            registry.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = perf_counter() + _START_SECONDS
    while perf_counter() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            sleep(0.2)
        else:
            return
    raise RuntimeError(f"RabbitMQ has not started within {_START_SECONDS} s")


def noop(_execution: object) -> None:
    """Do nothing: no worker consumes the queue."""


def celery_client(url: str) -> Callable[[], None]:
    """Return a call of `apply_async` that waits for the broker's confirmation."""
    app = Celery("bench", broker=url, set_as_current=False)
    app.conf.broker_transport_options = {"confirm_publish": True}
    app.conf.task_ignore_result = True
    task = app.task(name="bench.noop")(noop)
    with app.connection_for_write() as connection:
        app.amqp.queues[QUEUE](connection.default_channel).declare()
    body = {"execution_id": "x" * 36, "tenant": "t1", "schedule": "s1", "payload": {}}

    def send() -> None:
        task.apply_async(args=[body], queue=QUEUE)

    return send


@dataclass(frozen=True, slots=True)
class Rate:
    """Messages per second of CPU time of this process, and of elapsed time."""

    cpu: float
    elapsed: float


async def rate(number: int, send: Callable[[], Awaitable[None]]) -> Rate:
    """Return the rate of sending a number of messages."""
    began, cpu = perf_counter(), process_time()
    await send()
    return Rate(number / (process_time() - cpu), number / (perf_counter() - began))


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A replica that dispatches to the queue."""

    database: Database
    settings: Settings
    executor: Executor

    async def started(self, number: int) -> list[Claimed]:
        """Claim new executions, and remove those before."""
        async with self.database.transaction() as connection:
            for statement in _CLEAR:
                await connection.execute(text(statement))
        await Seeding(self.database, self.settings).add_pending(number, tenants=TENANTS)
        replica = Replica(self.database, self.settings, capabilities=NOOP)
        found: list[Claimed] = []
        while claimed := (await claim_batch(replica)).started:
            found.extend(claimed)
        return found

    async def dispatch(self, started: Sequence[Claimed]) -> None:
        """Send executions, a fixed number at a time."""
        settings, left = read_settings(DEFAULTS), iter(started)
        target = OtherTarget(TargetKind.CELERY, {"task": "bench.noop", "queue": QUEUE})

        async def work() -> None:
            for claimed in left:
                attempt = await self.executor.run(claimed, settings, target)
                if not attempt.accepted:
                    raise RuntimeError(attempt.error)

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


def executor(database: Database, settings: Settings, url: str) -> tuple[Executor, CeleryRunner]:
    """Return the executor of a replica that serves Celery targets."""
    os.environ[BROKER] = url
    app = Celery("tenantcron", set_as_current=False)
    runner = CeleryRunner(BrokerPublisher(SecretRef("env", BROKER), None), app.amqp.as_task_v2)
    minter = Minter(database, settings)
    deliveries = Deliveries(
        {TargetKind.CELERY: runner},
        default_policy()._replace(allowed_celery_tasks=(f"{QUEUE}/*",)),
        _no_time_passed,
        minter,
        HandOvers(database, minter, "http://127.0.0.1:8080"),
    )
    return Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries), runner


async def measure(place: Workspace, url: str, number: int) -> int:
    """Measure both, interleaved, and print the results."""
    settings = replace(place.settings, master_key=os.urandom(32).hex())
    send = celery_client(url)
    rates: dict[str, list[Rate]] = {"executor": [], "apply_async": []}
    async with open_database(settings) as database:
        seeds = Seeding(database, settings)
        await seeds.prepare()
        await seeds.add_tenants(TENANTS)
        run, runner = executor(database, settings, url)
        scheduler = Scheduler(database, settings, run)
        for turn in range(ROUNDS + 1):
            started = await scheduler.started(number)
            ours = await rate(number, partial(scheduler.dispatch, started))
            theirs = await rate(number, partial(_apply_all, send, number))
            if turn:  # the first round connects and warms up
                rates["executor"].append(ours)
                rates["apply_async"].append(theirs)
        await runner.close()
    return report(rates)


async def _apply_all(send: Callable[[], None], number: int) -> None:
    for _ in range(number):
        send()


async def _no_time_passed(_: Claimed, __: ScheduleSettings) -> timedelta:
    return timedelta(0)


def report(rates: dict[str, list[Rate]]) -> int:
    """Print the rates and their ratio; return 1 if the goal is missed."""
    for name, found in rates.items():
        cpu, elapsed = (
            median(getattr(rate, part) for rate in found) for part in ("cpu", "elapsed")
        )
        print(f"{name:12} {elapsed:8.0f} messages/s elapsed, {cpu:8.0f} messages/s of CPU")
    turns = list(zip(rates["executor"], rates["apply_async"], strict=True))
    elapsed = median(ours.elapsed / bare.elapsed for ours, bare in turns)
    cpu = median(ours.cpu / bare.cpu for ours, bare in turns)
    print(f"{'ratio':12} {elapsed:8.2f} elapsed (goal: at least {MIN_RATIO}), {cpu:.2f} of CPU")
    return int(elapsed < MIN_RATIO)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer messages")
    add_database_url(parser)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    epmd = shutil.which("epmd")
    if epmd is None or not RABBITMQ.exists():
        print("RabbitMQ is not installed: nothing is measured")
        return 0
    with rabbitmq(epmd) as url, server(arguments.database_url) as place:
        return asyncio.run(measure(place, url, 300 if arguments.quick else 2000))


if __name__ == "__main__":
    sys.exit(main())
