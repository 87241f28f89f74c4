"""What one process counts of its own work. `metrics` gives the numbers their names.

Plain numbers, added up a batch at a time: thousands of executions a second pass by here, and in
most processes nobody asks.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.reasons import ReasonKind, why_ended, why_unstarted
from tenantcron.store.rows.executions import State
from tenantcron.store.steps.claiming import Claim
from tenantcron.store.steps.finishing import Ended, Finished

# Seconds: of a quick handler up to the longest timeouts.
DURATIONS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
# Of a start at once, which is the promise, up to a catch-up of an hour.
LATENESS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)
REFRESHES: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)


class Tally:
    """How many values there were up to each bound, and their sum: a histogram."""

    __slots__ = ("_bounds", "_place", "_places", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._place = partial(bisect_left, bounds)
        self._places: Counter[int] = Counter()
        self.total = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Take many values at once."""
        self._places.update(map(self._place, values))
        self.total += sum(values)

    def add_times(self, value: float, times: int) -> None:
        """Take the same value so many times."""
        self._places[self._place(value)] += times
        self.total += value * times

    def up_to(self) -> Iterable[tuple[float, int]]:
        """Yield each bound with the number of values up to it, the last one without bound."""
        number = 0
        for place, bound in enumerate((*self._bounds, float("inf"))):
            number += self._places[place]
            yield bound, number


def _durations() -> dict[AttemptOutcome, Tally]:
    return {outcome: Tally(DURATIONS) for outcome in AttemptOutcome}


@dataclass(frozen=True, slots=True)
class LastAudit:
    """When an audit was made, and how many of each kind it has found."""

    at: datetime
    findings: Counter[str]


@dataclass(slots=True)
class Counts:
    """The numbers of one process since it started."""

    fired: int = 0
    ended: Counter[tuple[State, ReasonKind]] = field(default_factory=Counter)
    durations: dict[AttemptOutcome, Tally] = field(default_factory=_durations)
    lateness: Tally = field(default_factory=lambda: Tally(LATENESS))
    refreshes: Tally = field(default_factory=lambda: Tally(REFRESHES))
    # Of this process, taken away from it or given up; and of others, which it took over.
    leases_lost: int = 0
    leases_recovered: int = 0
    results_refused: int = 0
    # While a handler blocked the event loop for a second or more.
    loop_blocked_seconds: float = 0.0
    # Events that webhooks took, and calls of webhooks that failed.
    events_delivered: Counter[str] = field(default_factory=Counter)
    webhook_failures: Counter[str] = field(default_factory=Counter)
    # None: nobody audits here.
    audited: LastAudit | None = None

    def note_claim(self, claim: Claim) -> None:
        """Count what a claim has started and what it has ended."""
        if claim.lateness:
            self.lateness.add(claim.lateness)
        for one in claim.skipped:
            self.ended[one.state, why_unstarted(one.reason)] += 1

    def note_unstarted(self, ended: Mapping[tuple[State, str], int]) -> None:
        """Count executions that ended without a start, by state and reason."""
        for (state, reason), number in ended.items():
            self.ended[state, why_unstarted(reason)] += number

    def note_ended(self, ended: Iterable[Ended], finished: Finished) -> None:
        """Count the attempts of a batch that were written, and the executions that they ended."""
        # What one claim has started shares its time, so that little is left to be counted singly.
        alike = Counter(
            (one.state, one.outcome, one.reason, one.claimed.started_at)
            for one in _written(ended, finished)
        )
        for (state, outcome, reason, started_at), number in alike.items():
            seconds = _seconds(started_at, finished.at)
            self.durations[AttemptOutcome(outcome)].add_times(seconds, number)
            if state is not State.RETRYING:
                self.ended[state, why_ended(state, outcome, reason)] += number
        self.results_refused += len(finished.refused)


def _written(ended: Iterable[Ended], finished: Finished) -> Iterable[Ended]:
    """Leave out what was refused, and tell what was cancelled in the end."""
    if not finished.refused and not finished.cancelled:
        return ended
    return (finished.as_written(one) for one in ended if not finished.is_refused(one.claimed))


def _seconds(since: datetime, until: datetime | None) -> float:
    return 0.0 if until is None else max((until - since).total_seconds(), 0.0)
