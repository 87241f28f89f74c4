"""The exceptions that handlers raise on purpose."""

from datetime import timedelta

import pytest

from tenantcron.targets.signals import Cancelled, Fail, Retry


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, None),
        (timedelta(minutes=2), timedelta(minutes=2)),
        (1.5, timedelta(seconds=1.5)),
        (0, timedelta(0)),
    ],
)
def test_the_delay_of_a_retry_is_a_timedelta_or_seconds(
    after: timedelta | float | None, expected: timedelta | None
) -> None:
    assert Retry("busy", after=after).after == expected


@pytest.mark.parametrize("after", [-1, float("nan"), 1e9, timedelta(days=-1)])
def test_a_retry_with_an_invalid_delay_is_rejected(after: timedelta | float) -> None:
    with pytest.raises(ValueError, match=r"after|NaN"):
        Retry(after=after)


def test_retry_and_fail_have_a_reason() -> None:
    assert (Retry("busy").reason, Fail("gone").reason) == ("busy", "gone")


def test_code_that_catches_exceptions_does_not_catch_a_cancellation() -> None:
    assert not issubclass(Cancelled, Exception)
