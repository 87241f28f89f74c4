"""Exceptions that a handler raises to decide how its attempt ends, or gets when it is stopped."""

from datetime import timedelta
from typing import Final

LONGEST_WAIT: Final = timedelta(days=366)


class Retry(Exception):  # noqa: N818 -- a request of the handler, not an error of ours
    """Retry after a delay (a timedelta or seconds), by default after the schedule's backoff.

    The attempt has failed and counts; once all attempts are used up the execution is dead.
    """

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = None if after is None else _wait(after)


class Fail(Exception):  # noqa: N818 -- as above
    """Do not retry: another attempt would fail in the same way."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class WithoutTraceback:
    """Marks errors of our own targets: the reason is enough, a traceback adds nothing."""


class Cancelled(BaseException):
    """The execution was cancelled or timed out; let it propagate, the result does not count.

    Not an `Exception`, so that a handler that catches those does not continue by accident.
    """


def _wait(after: timedelta | float) -> timedelta:
    wait = after if isinstance(after, timedelta) else timedelta(seconds=after)
    if not timedelta(0) <= wait <= LONGEST_WAIT:
        raise ValueError(f"Retry(after={after!r}): wait between 0 and {LONGEST_WAIT.days} days")
    return wait
