"""Text that needs quotes, because YAML means something else by its first character."""

import re
from typing import NamedTuple

from tenantcron.manifests.loading.characters import one_line, without_forbidden
from tenantcron.manifests.loading.events import Unreadable

_LOOK_BACK = 200

_LINE = re.compile(r"[^\r\n]*+")
_COMMENT = re.compile(r"[ \t]#")
_STARS_BEFORE = re.compile(r"(?<!\S)(?>\*\S*+[ \t]++)++\Z")
_KEY_BEFORE = re.compile(r"([\w.-]{1,60})[\"']?[ \t]*:[ \t]+\Z")
_KEY_ITSELF = re.compile(r"([^:]*+):(?:[ \t]|\Z)")
_END_OF_FLOW = re.compile(r",(?=[ \t]|\Z)|[\]}]")
# What every parser takes for a name, and what may follow the alias on its line.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_MORE_TEXT = re.compile(r"[ \t]++(?![#:,\]}\s]|\Z)")


class Unquoted(NamedTuple):
    """A key or a value as it is written, and how to write it with quotes."""

    kind: str
    text: str
    quoted: str


def find(text: str, start: int) -> Unquoted:
    """Return what a person would take for the key or value that begins here."""
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    before = text[max(line_start, start - _LOOK_BACK) : start]
    line = _LINE.match(text, start)
    written = _COMMENT.split(line.group() if line else "", 1)[0]
    if sum(map(before.count, "{[")) > sum(map(before.count, "}]")):
        written = _END_OF_FLOW.split(written, 1)[0]
    written = written.rstrip(" \t,")
    key = _KEY_BEFORE.search(before)
    itself = None if key else _KEY_ITSELF.match(written)
    if itself:
        return Unquoted("key", itself.group(1).rstrip(), f"{_quote(itself.group(1))}:")
    return Unquoted("value", written, (f"{key.group(1)}: " if key else "") + _quote(written))


def needs_quotes(text: str, start: int) -> Unreadable:
    """Say that what begins here must be in quotes, and how that looks."""
    # A parser that looks ahead for a key stops only at the second star of `- */5 * * * *`.
    stars = _STARS_BEFORE.search(text[max(0, start - _LOOK_BACK) : start])
    start -= len(stars.group()) if stars else 0
    found = find(text, start)
    message = f"a {found.kind} that begins with `{text[start : start + 1]}` must be in quotes"
    end = start + max(1, len(found.text))
    return Unreadable(message, start, end, hint=f"write {found.quoted}")


def is_meant_as_text(text: str, name: str, end: int) -> bool:
    """Whether an alias that ends here, and that nothing defines, is text without its quotes."""
    return not _NAME.fullmatch(name) or _MORE_TEXT.match(text, end) is not None


def _quote(written: str) -> str:
    """Put quotes around a text, those that leave the text as it is."""
    shown = one_line(without_forbidden(written))
    if '"' in shown or "\\" in shown:
        return "'" + shown.replace("'", "''") + "'"
    return f'"{shown}"'
