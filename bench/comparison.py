"""The tables of a comparison, and its aims."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from measured import Run
from peers import catalogue
from peers.catalogue import Peer, Store

Figure = Callable[[Run], float]


def table(runs: list[Run]) -> str:
    """Return all tables as Markdown: medians of the rounds, and ratios made within each."""
    parts = [_at_once(runs, number) for number in _numbers(runs, "at once")]
    parts += [_idle(runs, number) for number in _numbers(runs, "idle")]
    parts += [_drained(runs, number) for number in _numbers(runs, "drained")]
    return "\n\n".join(parts)


def _numbers(runs: Iterable[Run], what: str) -> list[int]:
    return sorted({one.number for one in runs if one.what == what})


def _at_once(runs: list[Run], number: int) -> str:
    head = (
        f"{number:,} due at once | rounds | late: median | late: 99 % | a second | ours to it"
        " | computing for each"
    )
    peers = [one for one in catalogue.PEERS if one.schedules]
    return _markdown(head, [_row_at_once(runs, peer, number) for peer in peers])


def _row_at_once(runs: list[Run], peer: Peer, number: int) -> str:
    own = _of(runs, peer, "at once", number)
    if not own:
        return f"{peer.name} | {_reason(runs, peer, number)} | | | | |"
    started = min(one.started for one in own)
    short = f"; {started:,} started in time" if started < number else ""
    cells = (
        peer.name,
        f"{len(own)}",
        f"{_middle(own, lambda x: x.median):,.0f} ms",
        f"{_middle(own, lambda x: x.late):,.0f} ms{short}",
        f"{_middle(own, lambda x: x.rate):,.0f}",
        _times(ratio(runs, catalogue.OURS, peer, "at once", number)),
        _computing(own),
    )
    return " | ".join(cells)


def _computing(own: list[Run]) -> str:
    """Of one alone it would say what the poll of the moment costs."""
    known = [one for one in own if one.computing and one.number > 1]
    return f"{_middle(known, lambda x: x.computing):,.0f} µs" if known else ""


def _idle(runs: list[Run], number: int) -> str:
    head = f"{number:,} held | put there in | ready in | memory | questions a minute | of a core"
    peers = [one for one in catalogue.PEERS if one.schedules]
    return _markdown(head, [_row_idle(runs, peer, number) for peer in peers])


def _row_idle(runs: list[Run], peer: Peer, number: int) -> str:
    own = _of(runs, peer, "idle", number)
    if not own:
        return f"{peer.name} | {_reason(runs, peer, number)} | | | |"
    cells = (
        peer.name,
        f"{_middle(own, lambda x: x.held):.1f} s",
        f"{_middle(own, lambda x: x.ready):.1f} s",
        f"{_middle(own, lambda x: x.megabytes):,.0f} MB",
        f"{_middle(own, lambda x: x.questions):,.0f}",
        f"{100 * _middle(own, lambda x: x.share):.1f} %",
    )
    return " | ".join(cells)


def _drained(runs: list[Run], number: int) -> str:
    head = f"{number:,} that wait already | rounds | finished a second | ours to it"
    rows = []
    for peer in (one for one in catalogue.PEERS if one.drains):
        own = _of(runs, peer, "drained", number)
        if own:
            times = ratio(runs, catalogue.OUR_EXECUTIONS, peer, "drained", number)
            rate = f"{_middle(own, lambda x: x.rate):,.0f}"
            rows.append(f"{peer.name} | {len(own)} | {rate} | {_times(times)}")
        else:
            rows.append(f"{peer.name} | {_reason(runs, peer, number)} | |")
    return _markdown(head, rows)


def _markdown(head: str, rows: Iterable[str]) -> str:
    columns = head.count("|") + 1
    lines = [head, "|".join(["---"] * columns), *rows]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def _reason(runs: list[Run], peer: Peer, number: int) -> str:
    own = [one for one in runs if one.peer == peer.name]
    if any(one.what == "not installed" for one in own):
        return "not installed"
    failed = any(one.what == "failed" and one.number == number for one in own)
    return "failed" if failed else "not measured"


def _of(runs: Iterable[Run], peer: Peer, what: str, number: int) -> list[Run]:
    return [x for x in runs if (x.peer, x.what, x.number) == (peer.name, what, number)]


def _middle(runs: Iterable[Run], figure: Figure) -> float:
    return median(map(figure, runs))


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} times"


def ratio(runs: list[Run], ours: Peer, theirs: Peer, what: str, number: int) -> float | None:
    """Return the median of our rate to theirs, over the rounds that have both."""
    pairs = _pairs(runs, ours, theirs, what, number)
    return median(a.rate / b.rate for a, b in pairs) if pairs else None


def _pairs(
    runs: list[Run], ours: Peer, theirs: Peer, what: str, number: int
) -> list[tuple[Run, Run]]:
    mine = {one.round: one for one in _of(runs, ours, what, number)}
    return [(mine[x.round], x) for x in _of(runs, theirs, what, number) if x.round in mine]


@dataclass(frozen=True, slots=True)
class Aim:
    """What a ratio should be at least."""

    words: str
    value: float | None
    least: float

    @property
    def missed(self) -> bool:
        """Whether it was measured and is less."""
        return self.value is not None and self.value < self.least

    def __str__(self) -> str:
        """Say how it stands."""
        if self.value is None:
            return f"{self.words}: not measured"
        verdict = "missed" if self.missed else "met"
        return f"{self.words}: {self.value:.2f} times, aim {self.least:g}: {verdict}"


def aims(runs: list[Run]) -> list[Aim]:
    """Return all aims of the comparison."""
    found = []
    for number in (one for one in _numbers(runs, "at once") if one > 1):
        found += [
            _rate_aim(runs, catalogue.PROCRASTINATE, number, 10),
            _rate_aim(runs, catalogue.CELERY, number, 6),
        ]
        found += [_lateness_aim(runs, peer, number) for peer in catalogue.PEERS if _counts(peer)]
    for number in _numbers(runs, "drained"):
        value = ratio(runs, catalogue.OUR_EXECUTIONS, catalogue.PGQUEUER_JOBS, "drained", number)
        found.append(Aim(f"drained to {catalogue.PGQUEUER_JOBS.name}, {number:,}", value, 1))
    return found


def _rate_aim(runs: list[Run], peer: Peer, number: int, least: float) -> Aim:
    value = ratio(runs, catalogue.OURS, peer, "at once", number)
    return Aim(f"finished a second to {peer.name}, {number:,} at once", value, least)


def _lateness_aim(runs: list[Run], peer: Peer, number: int) -> Aim:
    """Theirs to ours: at least as late as we are."""
    pairs = _pairs(runs, catalogue.OURS, peer, "at once", number)
    value = median(b.late / a.late for a, b in pairs) if pairs else None
    return Aim(f"lateness (99 %) of {peer.name} to ours, {number:,} at once", value, 1)


def _counts(peer: Peer) -> bool:
    """Whether it keeps schedules in a database, and is not ours.

    Jobs with a time are no schedules: somebody has to put each of them there. They are shown, as
    what is to be chased.
    """
    is_other = bool(peer.needs) and peer.schedules and peer.store is not Store.REDIS
    return is_other and peer.kind != catalogue.JOBS
