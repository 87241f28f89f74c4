"""Completions per second that two cores carry, reported by remote workers through the API.

    .venv/bin/python bench/callbacks.py [--quick] [--database-url URL]

Two `tenantcron serve` processes record `POST /v1/executions/{id}:complete` of attempts that were
handed over, each with its own token and a small result. The workers have sent heartbeats before,
which are measured as well; other workers complete with their first report. The cost of a report is
the CPU time of both processes and of PostgreSQL. Two cores divided by it is the rate that has a
goal; the script exits with 1 if it is missed. The elapsed rate is printed as well; it includes the
client of this script, and depends on the load of the machine.
"""

import argparse
import asyncio
import os
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter
from uuid import UUID

import httpx
import structlog
from api_server import process, read_response, wait_until_ready
from seeding import Seeding
from serving import Workspace, add_database_url, server
from sqlalchemy import text

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.execution_tokens import CALLBACKS, Claims, lease_digest, sign
from tenantcron.actor.keys import SigningKey
from tenantcron.actor.model import scheduler_actor
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.scheduler.tokens.key_material import KeyMaterial
from tenantcron.scheduler.tokens.signing_keys import SigningKeys
from tenantcron.store.connection.arrays import uuids, words
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.times import database_time

TENANTS = 200
PROCESSES = 2
CONNECTIONS_PER_PROCESS = 32
CORES = 2
GOAL = 2_000
WARM_UP = 200
_RESULT = b'{"result":{"invoices":12},"progress":100,"progress_text":"done"}'
_PROGRESS = b'{"progress":40,"progress_text":"ada"}'
_TIMEOUT = timedelta(hours=1)
_START = text(
    "UPDATE tenantcron.execution SET state = 'RUNNING', attempt = 1, worker_id = 'bench',"
    " started_at = now(), lease_token = gen_random_uuid(), lease_until = now() + interval '1 hour'"
    " RETURNING id, tenant_id, lease_token"
)
# As `hand_over.sql`, for all at once.
_HAND_OVER = text(
    "UPDATE tenantcron.execution AS e SET handed_over_attempt = 1, handed_over_lease = g.digest,"
    " handed_over_at = now(), heartbeat_every = interval '1 hour',"
    " attempt_deadline = now() + interval '1 hour'"
    " FROM unnest(CAST(:ids AS uuid[]), CAST(:digests AS text[])) AS g (id, digest)"
    " WHERE e.id = g.id"
)
_BACKENDS = text("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker of one attempt sends."""

    execution: UUID
    token: str

    def request(self, action: str, body: bytes) -> bytes:
        """Return the request."""
        head = (
            f"POST /v1/executions/{self.execution}:{action} HTTP/1.1\r\nHost: bench\r\n"
            f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds per report, and reports per second of elapsed time."""

    what: str
    service: float
    database: float
    elapsed: float

    @property
    def carried(self) -> float:
        """Reports per second that the cores carry, if they do nothing else."""
        return CORES / (self.service + self.database)


async def handed_over(database: Database, settings: Settings, number: int) -> list[Report]:
    """Create attempts that remote workers run, and their tokens."""
    seeds = Seeding(database, settings)
    await seeds.prepare()
    await seeds.add_tenants(TENANTS)
    await seeds.add_pending(number, tenants=TENANTS)
    key = await _signing_key(database, settings)
    async with database.transaction() as connection:
        now = await database_time(connection)
        started = (await connection.execute(_START)).all()
        digests = [lease_digest(row.id, row.lease_token) for row in started]
        parameters = {"ids": uuids(row.id for row in started), "digests": words(digests)}
        await connection.execute(_HAND_OVER, parameters)
        await connection.execute(text("ANALYZE tenantcron.execution_live"))
    return [
        Report(row.id, sign(_claims(settings, row.tenant_id, row.id, digest, now), key))
        for row, digest in zip(started, digests, strict=True)
    ]


async def _signing_key(database: Database, settings: Settings) -> SigningKey:
    who = Attribution(scheduler_actor(settings.service))
    keys = SigningKeys(database, KeyMaterial(settings), who)
    return await keys.find(await keys.first())


def _claims(settings: Settings, tenant: str, execution: UUID, digest: str, now: datetime) -> Claims:
    return Claims(
        issuer=settings.issuer,
        subject=scheduler_actor(settings.service).id,
        audience=CALLBACKS,
        tenant=TenantId(tenant),
        execution=execution,
        attempt=1,
        lease=digest,
        now=now,
        deadline=now + _TIMEOUT,
        lifetime=_TIMEOUT,
    )


async def send(ports: Sequence[int], requests: Sequence[bytes]) -> None:
    """Send each request once; raise if one fails. A worker always reports to the same process."""
    left = {port: iter(requests[first :: len(ports)]) for first, port in enumerate(ports)}
    codes: Counter[int] = Counter()

    async def connection(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in left[port]:
            writer.write(request)
            codes[await read_response(reader)] += 1
        writer.close()

    await asyncio.gather(*(connection(port) for port in [*ports] * CONNECTIONS_PER_PROCESS))
    if set(codes) != {200}:
        raise RuntimeError(f"not all reports were recorded, by status: {dict(codes)}")


async def measure(place: Workspace, number: int) -> list[Cost]:
    """Measure heartbeats and completions of the same attempts."""
    master = os.urandom(32).hex()
    settings = replace(place.settings, master_key=master)
    async with open_database(settings) as database:
        reports = await handed_over(database, settings, WARM_UP + 2 * number)
        quiet, busy = reports[WARM_UP:][:number], reports[WARM_UP:][number:]
        ports = [_free_port() for _ in range(PROCESSES)]
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    process(place, "serve", "--port", str(port), TENANTCRON_MASTER_KEY=master)
                )
                for port in ports
            ]
            for port in ports:
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                    await wait_until_ready(client)
            bench = Bench(database, tuple(service.pid for service in started), tuple(ports))
            await bench.report("warm-up", reports[:WARM_UP], "complete", _RESULT)
            return [
                await bench.report("first heartbeats", busy, "heartbeat", _PROGRESS),
                await bench.report("heartbeats", busy, "heartbeat", _PROGRESS),
                await bench.report("completions without any", quiet, "complete", _RESULT),
                await bench.report("completions", busy, "complete", _RESULT),
            ]


@dataclass(frozen=True, slots=True)
class Bench:
    """The processes whose CPU time is measured."""

    database: Database
    services: tuple[int, ...]
    ports: tuple[int, ...]

    async def report(self, what: str, reports: Sequence[Report], action: str, body: bytes) -> Cost:
        """Send reports, and return what each one cost."""
        requests = [report.request(action, body) for report in reports]
        service, database = cpu_seconds(self.services), await self._database_seconds()
        began = perf_counter()
        await send(self.ports, requests)
        elapsed = perf_counter() - began
        service = cpu_seconds(self.services) - service
        database = await self._database_seconds() - database
        number = len(reports)
        return Cost(what, service / number, database / number, number / elapsed)

    async def _database_seconds(self) -> float:
        async with self.database.transaction() as connection:
            return cpu_seconds((await connection.execute(_BACKENDS)).scalars().all())


def cpu_seconds(processes: Sequence[int]) -> float:
    """Return the CPU time that processes have used."""
    files = (Path(f"/proc/{pid}/schedstat") for pid in processes)
    return sum(int(file.read_text().split()[0]) for file in files if file.exists()) / 1e9


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer reports")
    add_database_url(parser)
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    with server(arguments.database_url) as place:
        costs = asyncio.run(measure(place, 2_000 if arguments.quick else 10_000))
    for cost in costs:
        print(
            f"{cost.what:24} {cost.service * 1e6:6.0f} µs of CPU in the API,"
            f" {cost.database * 1e6:6.0f} µs in PostgreSQL:"
            f" {cost.carried:6,.0f}/s on {CORES} cores; {cost.elapsed:6,.0f}/s elapsed"
        )
    print(f"goal: at least {GOAL:,} completions/s on {CORES} cores")
    return int(costs[-1].carried < GOAL)


if __name__ == "__main__":
    sys.exit(main())
