"""The refresh intervals of replicas."""

from datetime import timedelta
from random import Random

from tenantcron.provider.pace import Pace

MINUTE, TEN = timedelta(seconds=60), timedelta(seconds=10)


def test_every_wait_is_drawn_between_the_interval_and_its_jitter() -> None:
    pace = Pace(Random(7))  # noqa: S311 -- no secret
    waits = [pace.draw() for _ in range(200)]

    assert all(MINUTE <= wait <= MINUTE + TEN for wait in waits)
    assert len(set(waits)) > 190
    assert max(waits) - min(waits) > timedelta(seconds=8), "all of the jitter is used"


def test_replicas_started_at_once_do_not_run_in_lockstep() -> None:
    paces = [Pace(Random(seed)) for seed in range(20)]  # noqa: S311 -- no secret
    assert len({pace.draw() for pace in paces}) == 20

    later = [sum((pace.draw() for _ in range(60)), timedelta()) for pace in paces]
    assert max(later) - min(later) > TEN, "they drift apart"


def test_interval_and_jitter_can_be_set() -> None:
    assert Pace(Random(1), timedelta(seconds=5), timedelta()).draw() == timedelta(seconds=5)  # noqa: S311 -- no secret
