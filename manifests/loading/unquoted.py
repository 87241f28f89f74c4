"""Text that needs quotes, because its first character has a meaning in YAML."""

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
# Names that all parsers accept, and text that may not follow an alias on its line.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_MORE_TEXT = re.compile(r"[ \t]++(?![#:,\]}\s]|\Z)")


class Unquoted(NamedTuple):
    """A key or a value without quotes, and its quoted form."""

    kind: str
    text: str
    quoted: str


def find(text: str, start: int) -> Unquoted:
    """Return the key or value that the author probably meant to begin here."""
    line_start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    before = text[max(line_start, start - _LOOK_BACK) : start]
    line = _LINE.match(text, start)
    value = _COMMENT.split(line.group() if line else "", 1)[0]
    if sum(map(before.count, "{[")) > sum(map(before.count, "}]")):
        value = _END_OF_FLOW.split(value, 1)[0]
    value = value.rstrip(" \t,")
    key = _KEY_BEFORE.search(before)
    itself = None if key else _KEY_ITSELF.match(value)
    if itself:
        return Unquoted("key", itself.group(1).rstrip(), f"{_quote(itself.group(1))}:")
    return Unquoted("value", value, (f"{key.group(1)}: " if key else "") + _quote(value))


def needs_quotes(text: str, start: int) -> Unreadable:
    """Return the error for a key or value that must be quoted, with its quoted form."""
    # A parser that looks ahead for a key stops only at the second star of `- */5 * * * *`.
    stars = _STARS_BEFORE.search(text[max(0, start - _LOOK_BACK) : start])
    start -= len(stars.group()) if stars else 0
    found = find(text, start)
    message = f"a {found.kind} that begins with `{text[start : start + 1]}` must be quoted"
    end = start + max(1, len(found.text))
    return Unreadable(message, start, end, hint=f"write {found.quoted}")


def is_meant_as_text(text: str, name: str, end: int) -> bool:
    """Whether an undefined alias that ends here is text without quotes."""
    return not _NAME.fullmatch(name) or _MORE_TEXT.match(text, end) is not None


def _quote(text: str) -> str:
    """Quote a text with the kind of quotes that needs no escapes."""
    shown = one_line(without_forbidden(text))
    if '"' in shown or "\\" in shown:
        return "'" + shown.replace("'", "''") + "'"
    return f'"{shown}"'
