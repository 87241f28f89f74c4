"""Procrastinate: periodic tasks, and jobs with a time.

Ten jobs at a time in each worker, and its pool of connections as large. Nothing wakes a worker when
the time of a job has come, so it looks for those ten times a second instead of every five seconds;
of periodic tasks it is told.
"""

import asyncio
import logging
from datetime import UTC, datetime

import procrastinate
from noting import asked, cron_with_seconds, note, ready, url

CONCURRENCY = 10
POLLING = {"jobs": 0.1, "periodic": 5.0}
JOBS_A_CALL = 1_000


def _app() -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=url(), max_size=CONCURRENCY)
    app = procrastinate.App(connector=connector)

    @app.task(name="noop")
    async def noop(**_: object) -> None:
        note()

    return app


async def _hold(app: procrastinate.App, kind: str, number: int, due: float) -> None:
    """Make the tables, and the jobs; periodic tasks are part of the worker's code."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        if kind == "jobs":
            await _defer(app, number, due)


async def _defer(app: procrastinate.App, number: int, due: float) -> None:
    at = datetime.fromtimestamp(due, UTC)
    for first in range(0, number, JOBS_A_CALL):
        some = [{} for _ in range(min(JOBS_A_CALL, number - first))]
        await app.configure_task("noop", schedule_at=at).batch_defer_async(*some)


async def _work(app: procrastinate.App, kind: str, number: int, due: float) -> None:
    if kind == "periodic":
        for one in range(number):
            app.periodic(cron=cron_with_seconds(due), periodic_id=str(one))(app.tasks["noop"])
    async with app.open_async():
        ready()
        await app.run_worker_async(
            concurrency=CONCURRENCY, fetch_job_polling_interval=POLLING[kind]
        )


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # it would rather not be started as a script
    action, *rest = asked()
    asyncio.run((_hold if action == "hold" else _work)(_app(), *rest))
