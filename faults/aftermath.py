"""What an outage of the database may not take away, and how soon work continues after it.

- **forgotten**: a success that the database had acknowledged to its worker, and that is not
  recorded. An asynchronous failover excuses it: the standby had not received the commit.
- **reported**: a success or a delivery that was lost in an asynchronous failover, and that the
  product does not report as such, although the scheduler that made it outlived the failover.
- **resumed**: a scheduler that is not killed and does not look for work within 10 s after the
  database can be reached again. The time for which the machine kept it from running is added. An
  outage that the next one follows at once is not judged.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from faults.evidence import Evidence, Line
from faults.journal import Findings, Journal, Outage

SEATS = ("near", "far")
# A replica looks for a failover when it listens again, and once a minute.
_REPORTS_WITHIN = timedelta(seconds=45)
_REPORTS_DEAF_WITHIN = timedelta(seconds=100)


def check_forgotten(journal: Journal, evidence: Evidence, findings: Findings) -> None:
    """Compare the successes that were acknowledged with those that are recorded."""
    recorded = _recorded(evidence)
    for line in evidence.lines:
        if line.what != "A" or journal.is_in_gap(line.at):
            continue
        findings.look("forgotten")
        if (line.execution, line.attempt) not in recorded:
            where = "/".join(line.key)
            words = f"attempt {line.attempt} of {line.execution} ({where})"
            findings.add("forgotten", f"{words} was acknowledged at {line.at}, and is gone")


def check_reported(journal: Journal, evidence: Evidence, findings: Findings) -> None:
    """Compare what asynchronous failovers have lost with what the product reports."""
    recorded = _recorded(evidence)
    calls = Counter((line.what, line.execution, line.attempt) for line in evidence.lines)
    for line in evidence.lines:
        attempt = line.execution, line.attempt
        is_gone = line.what == "A" and attempt not in recorded
        is_repeated = calls[line.what, *attempt] > 1
        if (is_gone or is_repeated) and _outlives_gap(journal, line):
            findings.look("reported")
            if attempt not in evidence.reported:
                words = f"attempt {line.attempt} of {line.execution} ({'/'.join(line.key)})"
                findings.add("reported", f"{words}, {line.what} at {line.at} by {line.pid}")


def _outlives_gap(journal: Journal, line: Line) -> bool:
    """Whether the record of a line may be gone, and its scheduler had the time to report that."""
    life = journal.lives.get(line.pid)
    if life is None:
        return False
    within = _REPORTS_WITHIN if life.hears else _REPORTS_DEAF_WITHIN
    return any(
        gap.since <= line.at <= gap.until and life.lasts(line.at, gap.until + within)
        for gap in journal.gaps
    )


def _recorded(evidence: Evidence) -> set[tuple[UUID, int]]:
    return {
        (execution, attempt["attempt"])
        for execution, attempts in evidence.attempts.items()
        for attempt in attempts
        if attempt["outcome"] == "SUCCEEDED"
    }


def check_resumed(journal: Journal, evidence: Evidence, findings: Findings) -> None:
    """Look how soon each scheduler looked for work after each outage."""
    for seat, outage in _judged(journal, evidence):
        findings.look("resumed")
        times = evidence.progress[seat]
        place = bisect_left(times, outage.back)
        allowed = outage.within + _held_up(evidence, outage)
        found = (times[place] - outage.back).total_seconds() if place < len(times) else None
        if found is None or found > allowed:
            after = "never" if found is None else f"after {found:.1f} s"
            words = f"the scheduler {seat} looked for work {after}, {allowed:.1f} s are allowed"
            findings.add("resumed", f"{outage.name} from {outage.since} to {outage.back}: {words}")


def _judged(journal: Journal, evidence: Evidence) -> Iterator[tuple[str, Outage]]:
    for outage in journal.outages:
        for seat in SEATS:
            times = evidence.progress[seat]
            # One that had just begun is not judged.
            concerned = outage.seat in (None, seat) and times and times[0] < outage.since
            if concerned and not _is_followed(journal, outage, seat):
                yield seat, outage


def _is_followed(journal: Journal, outage: Outage, seat: str) -> bool:
    """Whether another outage began before work had to continue."""
    end = outage.back + timedelta(seconds=outage.within)
    return any(
        other.since < end and other.back > outage.back
        for other in journal.outages
        if other.seat in (None, seat)
    )


def _held_up(evidence: Evidence, outage: Outage) -> float:
    """Return for how long the machine kept schedulers from running when they had to continue."""
    end = outage.back + timedelta(seconds=2 * outage.within)
    lost: dict[int, float] = {}
    for wait in evidence.held_up:
        if outage.back <= wait.at <= end:
            lost[wait.pid] = lost.get(wait.pid, 0.0) + wait.seconds
    return max(lost.values(), default=0.0)
