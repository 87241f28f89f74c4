"""What a handler can raise to say how its attempt ends, and what it gets when it is stopped."""

from datetime import timedelta
from typing import Final

LONGEST_WAIT: Final = timedelta(days=366)


class Retry(Exception):  # noqa: N818 -- a handler raises it to ask for something: no error of ours
    """Try again: after that long (a timedelta, or seconds), else after the schedule's backoff.

    The attempt has failed and counts; once all attempts are used up the execution is dead.
    """

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = None if after is None else _wait(after)


class Fail(Exception):  # noqa: N818 -- as above
    """Do not try again: another attempt would end the same way."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Said:
    """Marks what our own targets raise: the reason says all, where it was raised says nothing."""


class Cancelled(BaseException):
    """The execution was cancelled or its time is up; let it pass, nobody waits for a result.

    Not an `Exception`, so that a handler that catches those does not run on by accident.
    """


def _wait(after: timedelta | float) -> timedelta:
    wait = after if isinstance(after, timedelta) else timedelta(seconds=after)
    if not timedelta(0) <= wait <= LONGEST_WAIT:
        raise ValueError(f"Retry(after={after!r}): wait between 0 and {LONGEST_WAIT.days} days")
    return wait
