"""Celery targets with real brokers, workers, schedulers and the API, some of which are killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.brokers import rabbitmq, redis, require_celery
from support.celery_work import CeleryWork, celery_work
from support.processes import executions, query, until

from faults.brokers import Broker

REPORTS = {f"report{number}": "{}" for number in range(6)}


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real RabbitMQ; each test uses its own queue."""
    require_celery()
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as broker:
        yield broker


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real Redis; each test uses its own queue."""
    require_celery()
    with redis(tmp_path_factory.mktemp("redis")) as broker:
        yield broker


def all_succeeded(work: CeleryWork, count: int) -> bool:
    return work.states() == {"SUCCEEDED": count}


def attempts(url: str) -> list[tuple[str, str]]:
    rows = query(url, "SELECT outcome, error FROM tenantcron.execution_attempt ORDER BY attempt")
    return [(row["outcome"], row["error"] or "") for row in rows]


def test_tasks_report_results_failures_and_cancellations(
    tmp_path: Path, database_url: str, rabbit: Broker
) -> None:
    sagas = {"fine": "{}", "wrong": "{fails: true}", "endless": "{gate: never}"}
    with celery_work(tmp_path, database_url, rabbit, sagas, heartbeat="5s") as work:
        work.start_worker()
        work.fire("fine")
        until(lambda: all_succeeded(work, 1))
        (attempt,) = query(database_url, "SELECT * FROM tenantcron.execution_attempt")
        assert attempt["result"] == {"tenant": "acme"}
        work.fire("wrong")
        until(lambda: work.states()["DEAD"] == 1)
        work.fire("endless")
        until(lambda: work.keys("started").total() == 3)
        (running,) = [row for row in executions(database_url) if row["state"] == "RUNNING"]
        cancelled = work.fleet.shell("execution", "cancel", str(running["id"]), "--reason", "no")
        assert cancelled.code == 0, cancelled
        until(lambda: work.states()["CANCELLED"] == 1)
        assert set(work.keys("started").values()) == {1}
        assert work.keys("effects").total() == 1


def test_killed_workers_lose_nothing_and_every_repeat_has_a_kill(
    tmp_path: Path, database_url: str, rabbit: Broker
) -> None:
    sagas = dict.fromkeys(REPORTS, "{gate: open}")
    with celery_work(tmp_path, database_url, rabbit, sagas, heartbeat="10s") as work:
        first, second = work.start_worker(), work.start_worker()
        work.fire(*sagas)
        until(lambda: work.keys("started").total() == 2)
        work.kill(first)
        work.kill(second)
        work.start_worker()
        work.start_worker()
        until(lambda: work.keys("started").total() == 4)
        work.open("open")
        until(lambda: all_succeeded(work, len(sagas)))
        # RabbitMQ redelivered the same attempts: none was lost.
        assert {row["attempt"] for row in executions(database_url)} == {1}
        assert work.keys("started").total() == len(sagas) + 2
        assert work.keys("effects") == dict.fromkeys(work.keys("started"), 1)


def test_a_message_of_a_lost_attempt_is_dropped_and_a_missing_queue_is_reported(
    tmp_path: Path, database_url: str, rabbit: Broker
) -> None:
    with celery_work(tmp_path, database_url, rabbit, {"report": "{gate: open}"}) as work:
        work.fire("report")
        # No worker has declared the queue yet.
        until(lambda: "does not exist" in str(attempts(database_url)))
        first = work.start_worker()
        until(lambda: work.keys("started").total() == 1)
        work.kill(first)
        work.open("open")
        # Its heartbeat is missed before another worker gets the message.
        query(database_url, "UPDATE tenantcron.execution SET lease_until = now() - interval '1 s'")
        until(lambda: ("LOST", "") in [(outcome, "") for outcome, _ in attempts(database_url)])
        work.start_worker()
        until(lambda: all_succeeded(work, 1))
        # The lost attempt was not run again: its message was dropped.
        assert work.keys("started").total() == 2
        assert work.keys("effects").total() == 1


def test_a_message_that_redis_redelivers_does_not_start_a_task_that_runs(
    tmp_path: Path, database_url: str, red: Broker
) -> None:
    sagas = {"report": "{gate: open}"}
    with celery_work(tmp_path, database_url, red, sagas, heartbeat="5s") as work:
        work.start_worker(VISIBILITY="1")
        work.fire("report")
        until(lambda: work.keys("started").total() == 1)
        work.start_worker(VISIBILITY="1")
        until(lambda: work.logged("another worker has the attempt"))
        work.open("open")
        until(lambda: all_succeeded(work, 1))
        assert [row["attempt"] for row in executions(database_url)] == [1]
        assert work.keys("started").total() == 1
        assert work.keys("effects").total() == 1


def test_two_killed_workers_at_redis_lose_nothing_and_every_repeat_has_a_kill(
    tmp_path: Path, database_url: str, red: Broker
) -> None:
    sagas = dict.fromkeys(list(REPORTS)[:4], "{gate: open}")
    with celery_work(tmp_path, database_url, red, sagas, heartbeat="5s") as work:
        first, second = work.start_worker(), work.start_worker()
        work.fire(*sagas)
        until(lambda: work.keys("started").total() == 2)
        work.kill(first)
        work.kill(second)
        work.open("open")
        work.start_worker()
        work.start_worker()
        until(lambda: all_succeeded(work, len(sagas)))
        outcomes = [outcome for outcome, _ in attempts(database_url)]
        assert (outcomes.count("LOST"), outcomes.count("SUCCEEDED")) == (2, len(sagas))
        assert work.keys("started").total() == len(sagas) + 2
        assert work.keys("effects") == dict.fromkeys(work.keys("started"), 1)


@pytest.mark.parametrize("kind", ["rabbit", "red"])
def test_a_broker_that_is_restarted_loses_neither_queued_nor_running_work(
    tmp_path: Path, database_url: str, kind: str, request: pytest.FixtureRequest
) -> None:
    broker: Broker = request.getfixturevalue(kind)
    sagas = dict.fromkeys(list(REPORTS)[:4], "{gate: open}")
    with celery_work(tmp_path, database_url, broker, sagas) as work:
        work.start_worker()
        work.fire("report0", "report1", "report2")
        # One runs, and two are in the queue.
        until(lambda: work.keys("started").total() == 1)
        until(lambda: handed_over(database_url) == 3)
        broker.kill()
        # Executions that are due meanwhile wait.
        work.fire("report3")
        until(lambda: work.states()["RETRYING"] > 0)
        broker.start()
        work.open("open")
        until(lambda: all_succeeded(work, len(sagas)))
        effects = work.keys("effects")
        assert effects == work.keys("started") == dict.fromkeys(effects, 1)
        assert len(effects) == len(sagas)
        failed = [error for outcome, error in attempts(database_url) if outcome != "SUCCEEDED"]
        assert failed
        assert all(error.startswith("the Celery broker failed") for error in failed), failed


def handed_over(url: str) -> int:
    """Count the attempts that were handed over; their messages are sent at once."""
    return sum(row["handed_over_attempt"] == row["attempt"] == 1 for row in executions(url))
