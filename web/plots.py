"""The plot of a schedule's history: the durations of executions as SVG coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.web.rendering import took
from tenantcron.web.words import NOTHING, duration, moment

WIDTH: Final = 720
HEIGHT: Final = 120
_MARGIN: Final = 10
_LEAST: Final = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True)
class Point:
    """An execution in the plot; without a duration it is at the bottom."""

    x: float
    y: float
    id: str
    state: str
    title: str


@dataclass(frozen=True, slots=True)
class Plot:
    """All points, oldest first, and the duration at the top."""

    points: tuple[Point, ...]
    top: str
    median: str


def durations(rows: Sequence[ExecutionRow]) -> Plot:
    """Return the plot of executions, which are given newest first."""
    oldest_first = list(reversed(rows))
    spans = [took(row.started_at, row.finished_at) for row in oldest_first]
    known = sorted(span for span in spans if span is not None)
    top = max([*known, _LEAST])
    step = (WIDTH - 2 * _MARGIN) / max(len(rows) - 1, 1)
    points = tuple(
        Point(
            round(_MARGIN + step * index, 1),
            round(HEIGHT - _MARGIN - (span or timedelta()) / top * (HEIGHT - 2 * _MARGIN), 1),
            str(row.id),
            row.state,
            _title(row, span),
        )
        for index, (row, span) in enumerate(zip(oldest_first, spans, strict=True))
    )
    return Plot(points, duration(top), duration(known[len(known) // 2]) if known else NOTHING)


def _title(row: ExecutionRow, span: timedelta | None) -> str:
    length = f", took {duration(span)}" if span is not None else ""
    return f"{moment(row.scheduled_for)}: {row.state.lower()}{length}"
