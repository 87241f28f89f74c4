"""Pictures of a terminal as one animated SVG, without scripts: CSS shows one picture at a time.

Each distinct line is defined once and referenced by the pictures that contain it.
"""

import re
from collections.abc import Sequence
from html import escape

CHARACTER, ROW, MARGIN = 8.4, 19, 14
STYLE = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
text{fill:#d7dae0;white-space:pre}
.b{font-weight:700}.d{opacity:.65}
.c1{fill:#e06c75}.c2{fill:#98c379}.c3{fill:#e5c07b}.c4{fill:#61afef}.c5{fill:#c678dd}.c6{fill:#56b6c2}\
.c8{fill:#7f848e}
"""
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-ln-z]|\(B)|[\x0e\x0f]")

Picture = tuple[float, Sequence[str]]


def animated_svg(pictures: Sequence[Picture], columns: int, last: float) -> str:
    """Return the pictures as an endless animation; `last` is how long the last one stays."""
    length = pictures[-1][0] + last
    ends = [at for at, _ in pictures[1:]] + [length]
    ids: dict[str, str] = {}
    groups, rules = [], []
    for number, ((start, lines), end) in enumerate(zip(pictures, ends, strict=True)):
        uses = "".join(
            f'<use href="#{ids.setdefault(line, f"l{len(ids)}")}" y="{row * ROW}"/>'
            for row, line in enumerate(lines)
            if line
        )
        groups.append(f'<g class="f" style="animation-name:f{number}">{uses}</g>')
        rules.append(_keyframes(number, start / length, end / length))
    width = round(columns * CHARACTER + 2 * MARGIN)
    height = len(pictures[0][1]) * ROW + 2 * MARGIN
    lines = "".join(f'<text id="{name}">{_spans(line)}</text>' for line, name in ids.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="A recording of a terminal">\n'
        f"<style>{STYLE}.f{{visibility:hidden;animation:{length:.2f}s step-end infinite}}\n"
        f"{''.join(rules)}</style>\n<defs>{lines}</defs>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#1e2127"/>\n'
        f'<g transform="translate({MARGIN} {MARGIN + 14})">{"".join(groups)}</g>\n</svg>\n'
    )


def _keyframes(number: int, start: float, end: float) -> str:
    """Return the rule that shows a picture between two fractions of the animation."""
    hidden = "visibility:hidden"
    before = f"0%{{{hidden}}}" if start > 0 else ""
    after = f"{end:.4%}{{{hidden}}}" if end < 1 else ""
    return f"@keyframes f{number}{{{before}{start:.4%}{{visibility:visible}}{after}}}\n"


def _spans(line: str) -> str:
    """Turn the colours of a line into spans."""
    parts = _SGR.split(_OTHER.sub("", line))
    spans, style = [_span(parts[0], frozenset())], frozenset[str]()
    for codes, text in zip(parts[1::2], parts[2::2], strict=True):
        style = _styled(style, [int(code or 0) for code in codes.split(";")])
        spans.append(_span(text, style))
    return "".join(spans)


def _styled(style: frozenset[str], codes: list[int]) -> frozenset[str]:
    for code in codes:
        if code == 0:
            style = frozenset()
        elif code == 1:
            style |= {"b"}
        elif code == 2:
            style |= {"d"}
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = f"c{code - 30}" if code < 90 else ("c8" if code == 90 else f"c{code - 90}")
            style = frozenset(part for part in style if part[0] != "c") | {colour}
        elif code == 39:
            style = frozenset(part for part in style if part[0] != "c")
    return style


def _span(text: str, style: frozenset[str]) -> str:
    shown = escape(text, quote=False)
    return f'<tspan class="{" ".join(sorted(style))}">{shown}</tspan>' if style and text else shown
