"""Columns of text for long lists, formatted line by line so that a list can be streamed.

Tables of rich read every row before they print the first one, which dominates the time of a list.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from tenantcron.cli.terminal import Palette
from tenantcron.core.words import visible

_GAP = "  "
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class TextColumns:
    """Columns with their widths in cells; those in `dim` are dimmed."""

    titles: Sequence[str]
    widths: Sequence[int]
    # Width of a line, gaps included.
    available: int
    dim: frozenset[int] = frozenset()

    @classmethod
    def fitting(
        cls,
        titles: Sequence[str],
        rows: Iterable[Sequence[str]],
        available: int,
        *,
        dim: frozenset[int] = frozenset(),
    ) -> "TextColumns":
        """Return columns that fit these rows, narrowed if the line is too short."""
        widths = [_width(title) for title in titles]
        for row in rows:
            widths = [max(pair) for pair in zip(widths, map(_width, row), strict=True)]
        room = available - len(_GAP) * (len(titles) - 1)
        return cls(titles, _narrowed(widths, room), available, dim)

    def head(self, paint: Palette) -> str:
        """Return the line of titles."""
        return paint("dim", self._line(self.titles, None))

    def line(self, cells: Sequence[str], paint: Palette) -> str:
        """Return the line of one row."""
        return self._line(cells, paint)

    def _line(self, cells: Sequence[str], paint: Palette | None) -> str:
        shown = [visible(cell) for cell in cells]
        while shown and not shown[-1]:
            shown.pop()
        needed = sum(max(pair) for pair in zip(map(_width, shown), self.widths, strict=False))
        is_cut = needed + len(_GAP) * (len(shown) - 1) > self.available
        parts = [
            _fitted(cell, width, is_cut=is_cut)
            for cell, width in zip(shown, self.widths, strict=False)
        ]
        if parts:
            parts[-1] = parts[-1].rstrip()
        return _GAP.join(
            paint("dim", part) if paint and at in self.dim else part
            for at, part in enumerate(parts)
        )


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(visible(text))


def _narrowed(widths: list[int], available: int) -> list[int]:
    """Shrink the widest column until the line fits, so that short columns stay readable."""
    widths = list(widths)
    excess = sum(widths) - max(available, len(widths))
    while excess > 0:
        widest = widths.index(max(widths))
        others = max((width for at, width in enumerate(widths) if at != widest), default=1)
        taken = min(excess, max(widths[widest] - others, 1))
        widths[widest] -= taken
        excess -= taken
    return widths


def _fitted(text: str, width: int, *, is_cut: bool) -> str:
    """Pad a text to a number of cells, or truncate it."""
    length = _width(text)
    if length > width and is_cut:
        return set_cell_size(text, width - 1) + _ELLIPSIS
    return text + " " * (width - length)


def lines(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    paint: Palette,
    available: int,
    *,
    dim: frozenset[int] = frozenset(),
) -> Iterator[str]:
    """Yield the lines of a table whose rows are all known."""
    columns = TextColumns.fitting(titles, rows, available, dim=dim)
    yield columns.head(paint)
    for row in rows:
        yield columns.line(row, paint)
