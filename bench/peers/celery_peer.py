"""Celery with Redis: beat, and tasks with an eta.

One worker with two processes, results ignored, a hundred tasks prefetched per process, and no
communication between workers. Beat keeps its schedules in a file, as it does by default. Entries
have an interval and a last run, so all are due at the same second: that is cheaper for beat than
its crontab.
"""

import os
import sys
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.schedules import schedule
from celery.signals import beat_init, worker_ready
from recording import arguments, mark_ready, record_start

HOUR = timedelta(hours=1)

app = Celery("bench", broker=os.environ["BENCH_REDIS"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=100,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    enable_utc=True,
)


@app.task(name="noop")
def noop() -> None:
    """Only record the time."""
    record_start()


@worker_ready.connect
@beat_init.connect
def _ready(**_: object) -> None:
    mark_ready()


def _load(kind: str, number: int, due: float) -> None:
    """Send the tasks; the schedules of beat are part of its configuration."""
    if kind != "eta":
        return
    at = datetime.fromtimestamp(due, UTC)
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(number):
            noop.apply_async(eta=at, producer=producer)


def _work() -> None:
    options = ["worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "ERROR"]
    app.worker_main([*options, "--without-gossip", "--without-mingle", "--without-heartbeat"])


def _beat(number: int, due: float) -> None:
    last = datetime.fromtimestamp(due, UTC) - HOUR
    entry = {"task": "noop", "schedule": schedule(HOUR, app=app), "last_run_at": last}
    app.conf.beat_schedule = {str(index): entry for index in range(number)}
    file = os.path.join(os.environ["BENCH_RECORDS"], "beat")  # noqa: PTH118 -- beat requires a string
    app.Beat(schedule=file, loglevel="ERROR", quiet=True).run()


if __name__ == "__main__":
    # The processes of the pool look up the module by name.
    sys.modules["celery_peer"] = sys.modules["__main__"]
    action, kind, number, due = arguments()
    if action == "load":
        _load(kind, number, due)
    elif action == "beat":
        _beat(number, due)
    else:
        _work()
