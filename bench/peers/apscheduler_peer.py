"""APScheduler 3 with its jobs in Postgres: one process, as two would run every job twice."""

from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.cron import CronTrigger
from recording import arguments, mark_ready, url

THREADS = 20


def _with_store(scheduler: BaseScheduler) -> BaseScheduler:
    store = SQLAlchemyJobStore(url=url().replace("postgresql:", "postgresql+psycopg:"))
    # Run late jobs: the comparison requires all due jobs to run.
    defaults = {"misfire_grace_time": None, "coalesce": True}
    scheduler.configure(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(THREADS)},
        job_defaults=defaults,
        timezone=UTC,
    )
    return scheduler


def _load(number: int, due: float) -> None:
    scheduler = _with_store(BackgroundScheduler())
    scheduler.start(paused=True)
    at = datetime.fromtimestamp(due, UTC)
    trigger = CronTrigger(
        month=at.month, day=at.day, hour=at.hour, minute=at.minute, second=at.second, timezone=UTC
    )
    for _ in range(number):
        scheduler.add_job("recording:record_start", trigger)
    scheduler.shutdown()


def _work() -> None:
    scheduler = _with_store(BlockingScheduler())
    scheduler.add_listener(lambda _: mark_ready(), 1)  # EVENT_SCHEDULER_STARTED
    scheduler.start()


if __name__ == "__main__":
    action, _, number, due = arguments()
    if action == "load":
        _load(number, due)
    else:
        _work()
