"""Procrastinate: periodic tasks, and delayed jobs.

Ten concurrent jobs in each worker, and a connection pool of the same size. Nothing wakes a worker
when a delayed job is due, so it polls for those ten times a second instead of every five seconds.
It is notified of periodic tasks.
"""

import asyncio
import logging
from datetime import UTC, datetime

import procrastinate
from recording import arguments, cron_with_seconds, mark_ready, record_start, submission, url

CONCURRENCY = 10
POLLING = {"jobs": 0.1, "periodic": 5.0}
JOBS_PER_CALL = 1_000


def _app() -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=url(), max_size=CONCURRENCY)
    app = procrastinate.App(connector=connector)

    @app.task(name="noop")
    async def noop(**_: object) -> None:
        record_start()

    return app


async def _load(app: procrastinate.App, kind: str, number: int, due: float) -> None:
    """Create the tables and the jobs; periodic tasks are part of the worker's code."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        if kind == "jobs":
            with submission():
                await _defer(app, number, due)


async def _defer(app: procrastinate.App, number: int, due: float) -> None:
    at = datetime.fromtimestamp(due, UTC)
    for first in range(0, number, JOBS_PER_CALL):
        batch: list[dict[str, object]] = [{} for _ in range(min(JOBS_PER_CALL, number - first))]
        await app.configure_task("noop", schedule_at=at).batch_defer_async(*batch)


async def _work(app: procrastinate.App, kind: str, number: int, due: float) -> None:
    if kind == "periodic":
        for index in range(number):
            app.periodic(cron=cron_with_seconds(due), periodic_id=str(index))(app.tasks["noop"])
    async with app.open_async():
        mark_ready()
        await app.run_worker_async(
            concurrency=CONCURRENCY, fetch_job_polling_interval=POLLING[kind]
        )


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # it warns about being started as a script
    action, *rest = arguments()
    asyncio.run((_load if action == "load" else _work)(_app(), *rest))
