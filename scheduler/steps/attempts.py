"""Outcomes of attempts, as values."""

from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from tenantcron.core.durations import format_duration
from tenantcron.core.names import Owner
from tenantcron.schedules.execution_reasons import ReasonCode, reason_text
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.authorising import CheckError
from tenantcron.targets.calls import Raised
from tenantcron.targets.faults import described, headline_of, storable
from tenantcron.targets.output import Output
from tenantcron.targets.python.isolation.messages import FailureKind, RemoteError
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.signals import Fail, Retry, WithoutTraceback


class AttemptOutcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"
    INTERRUPTED = "INTERRUPTED"
    CANCELLED = "CANCELLED"
    # The owner is not authorised; nothing was started.
    REFUSED = "REFUSED"


class Stop(StrEnum):
    """Why a handler is stopped. Each leads to the outcome of the same name."""

    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"
    INTERRUPTED = "INTERRUPTED"
    CANCELLED = "CANCELLED"


# The reason of an execution after such an attempt, unless something else decides it.
CODES: Final = {
    AttemptOutcome.FAILED: ReasonCode.FAILED,
    AttemptOutcome.TIMED_OUT: ReasonCode.TIMED_OUT,
    AttemptOutcome.LOST: ReasonCode.WORKER_LOST,
    AttemptOutcome.INTERRUPTED: ReasonCode.INTERRUPTED,
    AttemptOutcome.CANCELLED: ReasonCode.CANCELLED,
    AttemptOutcome.REFUSED: ReasonCode.OWNER_REFUSED,
}


class KeyForgotten(WithoutTraceback, Fail):
    """The call is not made: its target may have forgotten the idempotency key."""

    def __init__(self, keeps: timedelta) -> None:
        self.detail = format_duration(keeps)
        super().__init__(reason_text(ReasonCode.KEY_FORGOTTEN, self.detail) or "")


class Attempt(NamedTuple):
    """An attempt that has ended. The first line of its error is for people.

    `retry_after` is the delay that the handler requests for the next attempt. `final` means that
    there is no next attempt.
    """

    claimed: Claimed
    outcome: AttemptOutcome
    error: str | None = None
    retry_after: timedelta | None = None
    final: bool = False
    # The response of the service, if the saga has an HTTP target.
    answer: ServiceResponse | None = None
    # The end of the handler's log, and its return value as JSON.
    log: str | None = None
    result: str | None = None
    # Code and detail of the reason, if they do not follow from the outcome and the error.
    why: tuple[ReasonCode, str] | None = None
    # Whether a remote worker has accepted it: it has not ended, and nothing is written.
    accepted: bool = False
    # Whether lines of its log were stored while it ran.
    has_live_log: bool = False

    @property
    def is_loss(self) -> bool:
        """Whether it was lost with its replica, which does not count as an attempt.

        The silence of a remote worker counts, like any other failure of a target. Otherwise work
        that crashes its worker would be repeated for ever.
        """
        return self.outcome is AttemptOutcome.LOST and self.why is None

    def with_output(self, output: Output, *, is_stored: bool = False) -> "Attempt":
        """Return the attempt with the output of its handler. Only a success has a result."""
        result = output.result if self.succeeded else None
        return self._replace(log=output.log, result=result, has_live_log=is_stored)

    @property
    def succeeded(self) -> bool:
        """Whether the handler has done its work."""
        return self.outcome is AttemptOutcome.SUCCEEDED


def ended(claimed: Claimed, raised: Raised) -> Attempt:
    """Return the attempt of a handler that returned or raised."""
    match raised:
        case None:
            return Attempt(claimed, AttemptOutcome.SUCCEEDED)
        case Retry():
            error = described(raised)
            return Attempt(claimed, AttemptOutcome.FAILED, error, retry_after=raised.after)
        case RemoteError(failure=failure):
            final = failure.kind is FailureKind.FAIL
            error = described(raised)
            return Attempt(claimed, AttemptOutcome.FAILED, error, failure.after, final)
        case KeyForgotten(detail=detail):
            why = ReasonCode.KEY_FORGOTTEN, detail
            error = described(raised)
            return Attempt(claimed, AttemptOutcome.FAILED, error, final=True, why=why)
        case Fail():
            return Attempt(claimed, AttemptOutcome.FAILED, described(raised), final=True)
        case _:
            return Attempt(claimed, AttemptOutcome.FAILED, described(raised))


def stopped(claimed: Claimed, stop: Stop, why: str, raised: Raised) -> Attempt:
    """Return the attempt of a handler that was stopped. What it raised shows where it was."""
    outcome = AttemptOutcome(stop.value)
    headline = why or reason_text(CODES[outcome], None) or outcome.value
    error = storable(headline) if raised is None else described(raised, headline)
    return Attempt(claimed, outcome, error)


def refused(claimed: Claimed, why: str) -> Attempt:
    """Return a failed attempt that could not start, and that a retry would not help."""
    return Attempt(claimed, AttemptOutcome.FAILED, storable(why), final=True)


def forbidden(claimed: Claimed, owner: Owner, reason: str) -> Attempt:
    """Return the attempt of an execution whose owner the authoriser refused."""
    return Attempt(claimed, AttemptOutcome.REFUSED, storable(f"owner {owner} may not: {reason}"))


def undecided(claimed: Claimed, owner: Owner, error: BaseException) -> Attempt:
    """Return a failed attempt whose authorisation check failed. The next attempt checks again."""
    why = str(error) if isinstance(error, CheckError) else headline_of(error)
    headline = f"whether owner {owner} may do this could not be checked: {why}"
    return Attempt(claimed, AttemptOutcome.FAILED, described(error, headline))
