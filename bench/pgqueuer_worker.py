"""A PGQueuer worker with no-op jobs, in its fastest configuration."""

import os

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Job, PgQueuer
from pgqueuer.domain.types import QueueExecutionMode


async def _work() -> None:
    connection = await asyncpg.connect(os.environ["BENCH_URL"])
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("noop")
    async def noop(_: Job) -> None:
        """Do nothing."""

    await queue.run(batch_size=100, mode=QueueExecutionMode.drain)


uvloop.run(_work())
