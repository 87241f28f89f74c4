"""PGQueuer: schedules, and jobs with a time. With asyncpg and uvloop, a hundred jobs a batch."""

import asyncio
import time
from datetime import timedelta

import asyncpg
import uvloop
from noting import asked, cron_with_seconds, note, ready, url
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries
from pgqueuer.models import Schedule

JOBS_A_CALL = 1_000


async def _hold(kind: str, number: int, due: float) -> None:
    """Make the tables, and the jobs; schedules are part of the worker's code."""
    connection = await asyncpg.connect(url())
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    if kind == "jobs":
        for first in range(0, number, JOBS_A_CALL):
            await _enqueue(queries, min(JOBS_A_CALL, number - first), due)
    await connection.close()


async def _enqueue(queries: Queries, number: int, due: float) -> None:
    wait = timedelta(seconds=max(due - time.time(), 0))
    await queries.enqueue(["noop"] * number, [None] * number, [0] * number, [wait] * number)


async def _work(kind: str, number: int, due: float) -> None:
    connection = await asyncpg.connect(url())
    queue = PgQueuer(AsyncpgDriver(connection))
    if kind == "schedules":
        _add_schedules(queue, number, due)
        told = asyncio.create_task(_tell(number))
        await queue.sm.run()
        await told
    else:
        _add_entrypoint(queue)
        ready()
        await queue.run(batch_size=100)


def _add_schedules(queue: PgQueuer, number: int, due: float) -> None:
    async def noop(_: Schedule) -> None:
        note()

    for one in range(number):
        queue.schedule(f"noop{one}", cron_with_seconds(due))(noop)


async def _tell(number: int) -> None:
    """Say `ready` when all schedules are in the table."""
    connection = await asyncpg.connect(url())
    while await connection.fetchval("SELECT count(*) FROM pgqueuer_schedules") < number:
        await asyncio.sleep(0.05)
    await connection.close()
    ready()


def _add_entrypoint(queue: PgQueuer) -> None:
    @queue.entrypoint("noop")
    async def noop(_: Job) -> None:
        note()


if __name__ == "__main__":
    action, *rest = asked()
    uvloop.run((_hold if action == "hold" else _work)(*rest))
