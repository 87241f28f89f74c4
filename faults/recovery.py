"""Checks on what survives a database outage, and how soon work continues after it.

- **forgotten**: a success that the database acknowledged to its worker, and that is not recorded.
  An asynchronous failover excuses it: the standby had not received the commit.
- **reported**: a success or a delivery that was lost in an asynchronous failover and that the
  product does not report, although the scheduler that made it survived the failover.
- **resumed**: a supervised scheduler that does not claim within 10 s after the database is
  reachable again. Time in which the machine did not let it run is added. An outage that is followed
  immediately by another one is not checked.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from faults.evidence import Evidence, Line
from faults.journal import Findings, Journal, Outage

INSTANCES = ("near", "far")
# A replica checks for a failover when it listens again, and once a minute.
_REPORTS_WITHIN = timedelta(seconds=45)
_REPORTS_UNNOTIFIED_WITHIN = timedelta(seconds=100)


def check_forgotten(journal: Journal, evidence: Evidence, findings: Findings) -> None:
    """Compare acknowledged successes with recorded ones."""
    recorded = _recorded(evidence)
    for line in evidence.lines:
        if line.what != "A" or journal.is_in_gap(line.at):
            continue
        findings.examine("forgotten")
        if (line.execution, line.attempt) not in recorded:
            where = "/".join(line.key)
            message = f"attempt {line.attempt} of {line.execution} ({where})"
            findings.add(
                "forgotten", f"{message} was acknowledged at {line.at} and is not recorded"
            )


def check_reported(journal: Journal, evidence: Evidence, findings: Findings) -> None:
    """Compare the losses of asynchronous failovers with those that the product reports."""
    recorded = _recorded(evidence)
    calls = Counter((line.what, line.execution, line.attempt) for line in evidence.lines)
    for line in evidence.lines:
        attempt = line.execution, line.attempt
        is_gone = line.what == "A" and attempt not in recorded
        is_repeated = calls[line.what, *attempt] > 1
        if (is_gone or is_repeated) and _outlives_gap(journal, line):
            findings.examine("reported")
            if attempt not in evidence.reported:
                message = f"attempt {line.attempt} of {line.execution} ({'/'.join(line.key)})"
                findings.add("reported", f"{message}, {line.what} at {line.at} by {line.pid}")


def _outlives_gap(journal: Journal, line: Line) -> bool:
    """Whether the record of a line may be lost, and its scheduler had time to report that."""
    life = journal.lives.get(line.pid)
    if life is None:
        return False
    within = _REPORTS_WITHIN if life.is_notified else _REPORTS_UNNOTIFIED_WITHIN
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
    """Check how soon each scheduler claimed after each outage."""
    for instance, outage in _checked(journal, evidence):
        findings.examine("resumed")
        times = evidence.progress[instance]
        place = bisect_left(times, outage.back)
        allowed = outage.within + _stalled_for(evidence, outage)
        found = (times[place] - outage.back).total_seconds() if place < len(times) else None
        if found is None or found > allowed:
            after = "never" if found is None else f"after {found:.1f} s"
            message = f"the scheduler {instance} claimed {after}, {allowed:.1f} s are allowed"
            findings.add(
                "resumed", f"{outage.name} from {outage.since} to {outage.back}: {message}"
            )


def _checked(journal: Journal, evidence: Evidence) -> Iterator[tuple[str, Outage]]:
    for outage in journal.outages:
        for instance in INSTANCES:
            times = evidence.progress[instance]
            # A scheduler that had just started is not checked.
            concerned = outage.instance in (None, instance) and times and times[0] < outage.since
            if concerned and not _is_followed(journal, outage, instance):
                yield instance, outage


def _is_followed(journal: Journal, outage: Outage, instance: str) -> bool:
    """Whether another outage began before work had to continue."""
    end = outage.back + timedelta(seconds=outage.within)
    return any(
        other.since < end and other.back > outage.back
        for other in journal.outages
        if other.instance in (None, instance)
    )


def _stalled_for(evidence: Evidence, outage: Outage) -> float:
    """Return how long the machine kept schedulers from running when they had to continue."""
    end = outage.back + timedelta(seconds=2 * outage.within)
    lost: dict[int, float] = {}
    for wait in evidence.stalls:
        if outage.back <= wait.at <= end:
            lost[wait.pid] = lost.get(wait.pid, 0.0) + wait.seconds
    return max(lost.values(), default=0.0)
