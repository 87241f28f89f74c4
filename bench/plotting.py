"""Line plots with logarithmic axes, as SVG small enough to be checked in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 170, 40, 48
# Distinguishable with colour vision deficiency.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis of powers of ten, from one pixel to another."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterable[float]:
        """Return the powers of ten."""
        return (10.0**power for power in range(self.low, self.high + 1))


def axis(values: Iterable[float], start: float, end: float) -> Axis:
    """Return an axis that covers all values."""
    logs = [log10(value) for value in values]
    low, high = floor(min(logs)), ceil(max(logs))
    return Axis(low, max(high, low + 1), start, end)


def plot(title: str, across: str, up: str, lines: Mapping[str, Points]) -> str:
    """Return a plot of the lines, each with its name at its end; all values are above 0."""
    points = [point for line in lines.values() for point in line]
    x = axis((first for first, _ in points), LEFT, WIDTH - RIGHT)
    y = axis((second for _, second in points), HEIGHT - BOTTOM, TOP)
    parts = [
        *_frame(title, across, up),
        *(_tick_across(x, value) for value in x.ticks()),
        *(_tick_up(y, value) for value in y.ticks()),
        *_lines(x, y, lines),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" font-family="sans-serif" font-size="12" role="img">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _frame(title: str, across: str, up: str) -> list[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 20, title, "start"),
        _text(middle, HEIGHT - 10, across, "middle"),
        _text(6, TOP - 8, up, "start"),
    ]


def _tick_across(x: Axis, value: float) -> str:
    at = x.at(value)
    line = f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#dddddd"/>'
    return line + _text(at, HEIGHT - BOTTOM + 16, _number(value), "middle")


def _tick_up(y: Axis, value: float) -> str:
    at = y.at(value)
    line = f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
    return line + _text(LEFT - 6, at + 4, _number(value), "end")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _lines(x: Axis, y: Axis, lines: Mapping[str, Points]) -> Iterable[str]:
    labels = _apart([y.at(line[-1][1]) for line in lines.values()])
    for (name, line), colour, label in zip(lines.items(), COLOURS, labels, strict=False):
        way = "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in line)
        yield f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for a, b in line:
            yield f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{colour}"/>'
        yield _text(WIDTH - RIGHT + 8, label + 4, name, "start", colour)


def _apart(places: Sequence[float]) -> list[float]:
    """Move labels down until they do not overlap."""
    moved, last = dict.fromkeys(range(len(places)), 0.0), float("-inf")
    for number in sorted(moved, key=lambda index: places[index]):
        last = moved[number] = max(places[number], last + 14)
    return list(moved.values())


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#222222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}>{escape(text)}</text>"
