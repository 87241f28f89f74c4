"""PGQueuer: schedules, and delayed jobs. With asyncpg and uvloop, a hundred jobs per batch."""

import asyncio
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries
from pgqueuer.models import Schedule
from recording import arguments, cron_with_seconds, mark_ready, record_start, submission, url

JOBS_PER_CALL = 1_000


async def _load(kind: str, number: int, due: float) -> None:
    """Create the tables and the jobs; schedules are part of the worker's code."""
    connection = await asyncpg.connect(url())
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    if kind == "jobs":
        with submission():
            for first in range(0, number, JOBS_PER_CALL):
                await _enqueue(queries, min(JOBS_PER_CALL, number - first), due)
    await connection.close()


async def _enqueue(queries: Queries, number: int, due: float) -> None:
    wait = timedelta(seconds=max(due - time.time(), 0))
    await queries.enqueue(["noop"] * number, [None] * number, [0] * number, [wait] * number)


async def _work(kind: str, number: int, due: float) -> None:
    connection = await asyncpg.connect(url())
    queue = PgQueuer(AsyncpgDriver(connection))
    if kind == "schedules":
        _add_schedules(queue, number, due)
        reported = asyncio.create_task(_mark_ready_when_stored(number))
        await queue.sm.run()
        await reported
    else:
        _add_entrypoint(queue)
        mark_ready()
        await queue.run(batch_size=100)


def _add_schedules(queue: PgQueuer, number: int, due: float) -> None:
    async def noop(_: Schedule) -> None:
        record_start()

    for index in range(number):
        queue.schedule(f"noop{index}", cron_with_seconds(due))(noop)


async def _mark_ready_when_stored(number: int) -> None:
    """Report that this process is ready when all schedules are in the table."""
    connection = await asyncpg.connect(url())
    while await connection.fetchval("SELECT count(*) FROM pgqueuer_schedules") < number:
        await asyncio.sleep(0.05)
    await connection.close()
    mark_ready()


def _add_entrypoint(queue: PgQueuer) -> None:
    @queue.entrypoint("noop")
    async def noop(_: Job) -> None:
        record_start()


if __name__ == "__main__":
    action, *rest = arguments()
    uvloop.run((_load if action == "load" else _work)(*rest))
