"""The progress of the main loops, as probes see it."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tenantcron.core.settings import Settings
from tenantcron.core.wake_signal import WakeSignal
from tenantcron.scheduler.replica import progress as progressing
from tenantcron.scheduler.replica.polling_loops import run_loop
from tenantcron.scheduler.replica.progress import Progress
from tenantcron.store.connection.errors import DatabaseAwayError

SETTINGS = Settings(
    folder=Path(), lease=timedelta(seconds=60), database_timeout=timedelta(seconds=15)
)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progressing, "monotonic", made)
    return made


def stuck(progress: Progress, settings: Settings = SETTINGS) -> list[str]:
    return list(progress.stuck(settings))


def test_a_step_that_runs_for_two_leases_makes_no_progress(clock: Clock) -> None:
    progress = Progress()
    progress.began("fire")
    clock.seconds += 120
    assert stuck(progress) == []

    clock.seconds += 1

    assert stuck(progress) == ["the loop fire has made no progress for 121 s"]


def test_a_loop_that_sleeps_as_planned_makes_progress(clock: Clock) -> None:
    progress = Progress()
    progress.began("refresh")
    progress.ended("refresh", sleeps=3600.0)
    clock.seconds += 3600

    assert stuck(progress) == []


def test_a_loop_that_does_not_wake_makes_no_progress(clock: Clock) -> None:
    progress = Progress()
    progress.began("claim")
    progress.ended("claim", sleeps=10.0)
    clock.seconds += 10 + 121

    assert stuck(progress) == ["the loop claim has made no progress for 121 s"]


def test_a_short_lease_leaves_a_statement_the_time_to_expire(clock: Clock) -> None:
    progress = Progress()
    short = Settings(folder=Path(), lease=timedelta(seconds=5))
    progress.began("fire")
    clock.seconds += 30

    assert stuck(progress, short) == []


async def test_a_loop_whose_database_is_unavailable_makes_progress_and_keeps_the_error() -> None:
    progress, stopping, failed = Progress(), asyncio.Event(), asyncio.Event()

    async def step() -> float:
        failed.set()
        raise DatabaseAwayError("the database is away")

    loop = asyncio.create_task(run_loop("heartbeat", step, WakeSignal(), stopping, progress))
    await failed.wait()
    stopping.set()
    await loop

    assert stuck(progress) == []
    assert progress.error_of("heartbeat") == "the database is away"
