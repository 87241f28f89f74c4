"""Celery with Redis: beat, and tasks with an eta.

One worker with two processes, nothing kept of results, a hundred tasks fetched ahead for each
process, and without the talk between workers. Beat keeps its schedules in a file, as it does by
default. Entries have an interval and a last run, so that all come due at the same second: that is
cheaper for beat than its crontab.
"""

import os
import sys
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.schedules import schedule
from celery.signals import beat_init, worker_ready
from noting import asked, note, ready

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
    """Do nothing but note the time."""
    note()


@worker_ready.connect
@beat_init.connect
def _ready(**_: object) -> None:
    ready()


def _hold(kind: str, number: int, due: float) -> None:
    """Send the tasks; the schedules of beat are part of its configuration."""
    if kind != "eta":
        return
    at = datetime.fromtimestamp(due, UTC)
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(number):
            noop.apply_async(eta=at, producer=producer)


def _work() -> None:
    words = ["worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "ERROR"]
    app.worker_main([*words, "--without-gossip", "--without-mingle", "--without-heartbeat"])


def _beat(number: int, due: float) -> None:
    last = datetime.fromtimestamp(due, UTC) - HOUR
    entry = {"task": "noop", "schedule": schedule(HOUR, app=app), "last_run_at": last}
    app.conf.beat_schedule = {str(one): entry for one in range(number)}
    file = os.path.join(os.environ["BENCH_NOTES"], "beat")  # noqa: PTH118 -- beat takes a string
    app.Beat(schedule=file, loglevel="ERROR", quiet=True).run()


if __name__ == "__main__":
    # The processes of the pool look the module up by its name.
    sys.modules["celery_peer"] = sys.modules["__main__"]
    action, kind, number, due = asked()
    if action == "hold":
        _hold(kind, number, due)
    elif action == "beat":
        _beat(number, due)
    else:
        _work()
