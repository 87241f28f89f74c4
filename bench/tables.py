"""The tables of a comparison, and its goals."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from peers import catalogue
from peers.catalogue import Peer, Store
from results import Run

Figure = Callable[[Run], float]


def table(runs: list[Run]) -> str:
    """Return all tables as Markdown: medians of the rounds, and ratios within each round."""
    parts = [_at_once(runs, number) for number in _numbers(runs, "at once")]
    parts += [_idle(runs, number) for number in _numbers(runs, "idle")]
    parts += [_drained(runs, number) for number in _numbers(runs, "drained")]
    return "\n\n".join(parts)


def _numbers(runs: Iterable[Run], what: str) -> list[int]:
    return sorted({run.number for run in runs if run.what == what})


def _at_once(runs: list[Run], number: int) -> str:
    head = (
        f"{number:,} due at once | rounds | lateness, median | lateness, 99 % | per second | ratio"
        " | CPU each"
    )
    peers = [peer for peer in catalogue.PEERS if peer.schedules]
    return _markdown(head, [_row_at_once(runs, peer, number) for peer in peers])


def _row_at_once(runs: list[Run], peer: Peer, number: int) -> str:
    own = _of(runs, peer, "at once", number)
    if not own:
        return f"{peer.name} | {_reason(runs, peer, number)} | | | | |"
    started = min(run.started for run in own)
    short = f"; {started:,} started in time" if started < number else ""
    cells = (
        peer.name,
        f"{len(own)}",
        f"{_median(own, lambda run: run.median):,.0f} ms",
        f"{_median(own, lambda run: run.p99):,.0f} ms{short}",
        f"{_median(own, lambda run: run.rate):,.0f}",
        _times(ratio(runs, catalogue.TENANTCRON, peer, "at once", number)),
        _cpu(own),
    )
    return " | ".join(cells)


def _cpu(own: list[Run]) -> str:
    """CPU per execution; for a single execution it would be the cost of polling."""
    known = [run for run in own if run.cpu and run.number > 1]
    return f"{_median(known, lambda run: run.cpu):,.0f} µs" if known else ""


def _idle(runs: list[Run], number: int) -> str:
    head = f"{number:,} loaded | load time | ready in | memory | queries per minute | CPU share"
    peers = [peer for peer in catalogue.PEERS if peer.schedules]
    return _markdown(head, [_row_idle(runs, peer, number) for peer in peers])


def _row_idle(runs: list[Run], peer: Peer, number: int) -> str:
    own = _of(runs, peer, "idle", number)
    if not own:
        return f"{peer.name} | {_reason(runs, peer, number)} | | | |"
    cells = (
        peer.name,
        f"{_median(own, lambda run: run.load_seconds):.1f} s",
        f"{_median(own, lambda run: run.ready_seconds):.1f} s",
        f"{_median(own, lambda run: run.megabytes):,.0f} MB",
        f"{_median(own, lambda run: run.queries):,.0f}",
        f"{100 * _median(own, lambda run: run.share):.1f} %",
    )
    return " | ".join(cells)


def _drained(runs: list[Run], number: int) -> str:
    head = f"{number:,} pending | rounds | finished per second | ratio"
    rows = []
    for peer in (peer for peer in catalogue.PEERS if peer.drains):
        own = _of(runs, peer, "drained", number)
        if own:
            times = ratio(runs, catalogue.TENANTCRON_EXECUTIONS, peer, "drained", number)
            rate = f"{_median(own, lambda run: run.rate):,.0f}"
            rows.append(f"{peer.name} | {len(own)} | {rate} | {_times(times)}")
        else:
            rows.append(f"{peer.name} | {_reason(runs, peer, number)} | |")
    return _markdown(head, rows)


def _markdown(head: str, rows: Iterable[str]) -> str:
    columns = head.count("|") + 1
    lines = [head, "|".join(["---"] * columns), *rows]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def _reason(runs: list[Run], peer: Peer, number: int) -> str:
    own = [run for run in runs if run.peer == peer.name]
    if any(run.what == "not installed" for run in own):
        return "not installed"
    failed = any(run.what == "failed" and run.number == number for run in own)
    return "failed" if failed else "not measured"


def _of(runs: Iterable[Run], peer: Peer, what: str, number: int) -> list[Run]:
    return [run for run in runs if (run.peer, run.what, run.number) == (peer.name, what, number)]


def _median(runs: Iterable[Run], figure: Figure) -> float:
    return median(map(figure, runs))


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} times"


def ratio(runs: list[Run], ours: Peer, theirs: Peer, what: str, number: int) -> float | None:
    """Return the median ratio of our rate to theirs, over the rounds with both."""
    pairs = _pairs(runs, ours, theirs, what, number)
    return median(own.rate / other.rate for own, other in pairs) if pairs else None


def _pairs(
    runs: list[Run], ours: Peer, theirs: Peer, what: str, number: int
) -> list[tuple[Run, Run]]:
    own = {run.round: run for run in _of(runs, ours, what, number)}
    return [(own[run.round], run) for run in _of(runs, theirs, what, number) if run.round in own]


@dataclass(frozen=True, slots=True)
class Goal:
    """The minimum of a ratio."""

    text: str
    value: float | None
    minimum: float

    @property
    def missed(self) -> bool:
        """Whether it was measured and is below the minimum."""
        return self.value is not None and self.value < self.minimum

    def __str__(self) -> str:
        """Return the verdict."""
        if self.value is None:
            return f"{self.text}: not measured"
        verdict = "missed" if self.missed else "met"
        return f"{self.text}: {self.value:.2f} times, goal {self.minimum:g}: {verdict}"


def goals(runs: list[Run]) -> list[Goal]:
    """Return all goals of the comparison."""
    found = []
    for number in (number for number in _numbers(runs, "at once") if number > 1):
        found += [
            _rate_goal(runs, catalogue.PROCRASTINATE, number, 10),
            _rate_goal(runs, catalogue.CELERY, number, 6),
        ]
        found += [_lateness_goal(runs, peer, number) for peer in catalogue.PEERS if _counts(peer)]
    for number in _numbers(runs, "drained"):
        value = ratio(
            runs, catalogue.TENANTCRON_EXECUTIONS, catalogue.PGQUEUER_JOBS, "drained", number
        )
        found.append(
            Goal(f"drained compared with {catalogue.PGQUEUER_JOBS.name}, {number:,}", value, 1)
        )
    return found


def _rate_goal(runs: list[Run], peer: Peer, number: int, minimum: float) -> Goal:
    value = ratio(runs, catalogue.TENANTCRON, peer, "at once", number)
    return Goal(
        f"finished per second compared with {peer.name}, {number:,} at once", value, minimum
    )


def _lateness_goal(runs: list[Run], peer: Peer, number: int) -> Goal:
    """Their lateness divided by ours."""
    pairs = _pairs(runs, catalogue.TENANTCRON, peer, "at once", number)
    value = median(theirs.p99 / ours.p99 for ours, theirs in pairs) if pairs else None
    return Goal(f"lateness (99 %) of {peer.name} compared with ours, {number:,} at once", value, 1)


def _counts(peer: Peer) -> bool:
    """Whether it is a peer that keeps schedules in a database.

    Delayed jobs are not schedules: a client has to enqueue each of them. They are shown as a
    reference.
    """
    is_other = bool(peer.needs) and peer.schedules and peer.store is not Store.REDIS
    return is_other and peer.kind != catalogue.JOBS
