"""Tables of text that fit the terminal, formatted line by line so that a list can be streamed.

If a line is too short, prose is narrowed first, then optional columns are dropped, then names are
narrowed, and then prose once more. Ids, states and times are never cut. If that is not enough, or
it cuts a name in a narrow terminal, each row becomes a list of its cells. Tables of rich read every
row before they print the first one, and they pad every line.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from rich.cells import cell_len, set_cell_size

from tenantcron.cli.terminal import Palette
from tenantcron.core.words import visible

_GAP = "  "
# In a narrower terminal, a row with a cut name becomes a list.
_NARROW = 70
_ELLIPSIS = "…"


class Fit(Enum):
    """What happens to a column if the line is too short."""

    WHOLE = auto()
    OPTIONAL = auto()
    PROSE = auto()
    NAME = auto()


def _unstyled(_: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its least width if it is narrowed, and the style of a cell."""

    title: str
    fit: Fit = Fit.WHOLE
    least: int = 14
    style: Callable[[str], str | None] = _unstyled
    # The least width after the names were narrowed, too; None: the same.
    tightest: int | None = None


@dataclass(frozen=True, slots=True)
class TextColumns:
    """Columns with their widths in cells; a dropped column has None."""

    columns: Sequence[Column]
    widths: Sequence[int | None]
    # Width of a line, gaps included.
    available: int
    is_narrowed: bool
    is_list: bool

    @classmethod
    def fitting(
        cls, columns: Sequence[Column], rows: Iterable[Sequence[str]], available: int
    ) -> "TextColumns":
        """Return columns that fit these rows."""
        wanted = [_width(column.title) for column in columns]
        for row in rows:
            wanted = [max(pair) for pair in zip(wanted, map(_width, row), strict=True)]
        widths = _fitted_widths(columns, wanted, available)
        is_list = _excess(widths, available) > 0 or (
            available < _NARROW and _has_cut_name(columns, wanted, widths)
        )
        return cls(columns, widths, available, widths != wanted, is_list)

    def head(self, paint: Palette) -> Iterator[str]:
        """Yield the line of titles, which a list does not have."""
        titles = [column.title for column in self.columns]
        if not self.is_list and any(titles):
            yield paint("dim", self._line(titles, None))

    def row(self, cells: Sequence[str], paint: Palette) -> Iterator[str]:
        """Yield the lines of one row."""
        shown = [visible(cell) for cell in cells]
        if self.is_list:
            return self._listed(shown, paint)
        return iter((self._line(shown, paint),))

    def _listed(self, cells: Sequence[str], paint: Palette) -> Iterator[str]:
        yield paint("strong", cells[0])
        indent = " " * (len(cells[0]) - len(cells[0].lstrip()) + len(_GAP))
        longest = max(_width(column.title) for column in self.columns[1:])
        for column, cell in list(zip(self.columns, cells, strict=True))[1:]:
            if cell:
                title = column.title + " " * (longest - _width(column.title))
                yield f"{indent}{paint('dim', title)}{_GAP}{_styled(column, cell, paint)}"

    def _line(self, cells: Sequence[str], paint: Palette | None) -> str:
        kept = [
            (column, cell, width)
            for column, cell, width in zip(self.columns, cells, self.widths, strict=True)
            if width is not None
        ]
        while kept and not kept[-1][1]:
            kept.pop()
        needed = [max(_width(cell), width) for _, cell, width in kept]
        is_cut = self.is_narrowed or _excess(needed, self.available) > 0
        parts = [_fitted(cell, width, is_cut=is_cut) for _, cell, width in kept[:-1]]
        # The last cell may use the rest of the line.
        room = -_excess([*map(_width, parts), 0], self.available)
        parts += [_fitted(cell, room, is_cut=is_cut).rstrip() for _, cell, _ in kept[-1:]]
        return _GAP.join(
            _styled(column, part, paint) if paint else part
            for (column, _, _), part in zip(kept, parts, strict=True)
        )


def _styled(column: Column, text: str, paint: Palette) -> str:
    style = column.style(text.rstrip())
    return paint(style, text) if style else text


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(visible(text))


def _excess(widths: Sequence[int | None], available: int) -> int:
    kept = [width for width in widths if width is not None]
    return sum(kept) + len(_GAP) * (len(kept) - 1) - available


def _fitted_widths(
    columns: Sequence[Column], wanted: Sequence[int], available: int
) -> list[int | None]:
    """Narrow and drop columns in the order of their fit until the line is long enough."""
    widths: list[int | None] = list(wanted)
    _narrow(columns, widths, Fit.PROSE, available)
    for at in reversed(range(len(columns))):
        if columns[at].fit is Fit.OPTIONAL and _excess(widths, available) > 0:
            widths[at] = None
    # Space of dropped columns goes back to the prose.
    for at, column in enumerate(columns):
        if column.fit is Fit.PROSE:
            widths[at] = wanted[at]
    _narrow(columns, widths, Fit.PROSE, available)
    _narrow(columns, widths, Fit.NAME, available)
    tight = [replace(column, least=column.tightest or column.least) for column in columns]
    _narrow(tight, widths, Fit.PROSE, available)
    return widths


def _has_cut_name(
    columns: Sequence[Column], wanted: Sequence[int], widths: Sequence[int | None]
) -> bool:
    return any(
        column.fit is Fit.NAME and given is not None and given < needed
        for column, needed, given in zip(columns, wanted, widths, strict=True)
    )


def _narrow(columns: Sequence[Column], widths: list[int | None], fit: Fit, available: int) -> None:
    """Narrow the widest of these columns first, so that short ones stay readable."""
    while (excess := _excess(widths, available)) > 0:
        spare = {
            at: width - column.least
            for at, (column, width) in enumerate(zip(columns, widths, strict=True))
            if column.fit is fit and width is not None and width > column.least
        }
        if not spare:
            return
        widest, *others = sorted(spare.values(), reverse=True)
        at = next(at for at, room in spare.items() if room == widest)
        taken = min(excess, max(widest - max(others, default=0), 1))
        widths[at] = (widths[at] or 0) - taken


def _fitted(text: str, width: int, *, is_cut: bool) -> str:
    """Pad a text to a number of cells, or truncate it."""
    length = _width(text)
    if length > width and is_cut:
        return set_cell_size(text, width - 1) + _ELLIPSIS
    return text + " " * (width - length)


def lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], paint: Palette, available: int
) -> Iterator[str]:
    """Yield the lines of a table whose rows are all known."""
    fitted = TextColumns.fitting(columns, rows, available)
    yield from fitted.head(paint)
    for row in rows:
        yield from fitted.row(row, paint)
