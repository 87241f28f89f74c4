"""Read JSON (RFC 8259) as events, with messages for what is not JSON."""

import re
from collections.abc import Iterator
from json import loads

from tenantcron.manifests.loading.characters import describe, one_line
from tenantcron.manifests.loading.events import Event, Kind, Unreadable

_WHITESPACE = re.compile(r"[ \t\r\n]*+")
# Up to the closing quote, or to a character that a string cannot contain. The possessive repeat has
# an atomic group, because before Python 3.11.5 `(?:...)*+` stops in the middle of a partial match.
_STRING = re.compile(r'"(?>[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_WORD = re.compile(r"[^\s,:\[\]{}\"'/#]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LITERALS = frozenset({"true", "false", "null"})
_OPENING: dict[str, Kind] = {"{": "mapping", "[": "sequence"}
_CLOSING = {"{": "}", "[": "]"}
_WRONG_STARTS = {
    "'": ("JSON strings have double quotes", 'write "..." instead'),
    "/": ("JSON has no comments", "remove it, or use a YAML file"),
    "#": ("JSON has no comments", "remove it, or use a YAML file"),
    ",": ("a value is missing before this comma", None),
}


class _Open:
    """An open bracket."""

    __slots__ = ("bracket", "is_empty", "start")

    def __init__(self, bracket: str, start: int) -> None:
        """Start empty."""
        self.bracket = bracket
        self.start = start
        self.is_empty = True


def read_json(text: str) -> Iterator[Event]:
    """Yield the events of a text, which must be one value."""
    return _Reader(text).read()


class _Reader:
    """Reads the text with a stack of open brackets instead of recursion."""

    __slots__ = ("_open", "_position", "_text")

    def __init__(self, text: str) -> None:
        """Start at the beginning."""
        self._text = text
        self._position = 0
        self._open: list[_Open] = []

    def read(self) -> Iterator[Event]:
        """Yield the events of the outermost value, and reject any text after it."""
        if self._peek() == "":
            return
        yield self._value()
        while self._open:
            yield from self._step(self._open[-1])
        if self._peek():
            raise self._wrong_start() or self._error("there is text after the end of the document")

    def _step(self, inside: _Open) -> Iterator[Event]:
        """Yield the next entry inside the bracket, or its end."""
        if self._peek() == _CLOSING[inside.bracket]:
            self._position += 1
            self._open.pop()
            yield "end", self._position, self._position, "", False, None, False
            return
        if not inside.is_empty:
            self._take_comma(inside)
        inside.is_empty = False
        if inside.bracket == "{":
            yield self._key()
        yield self._value()

    def _take_comma(self, inside: _Open) -> None:
        """Skip the comma between two entries."""
        if self._peek() != ",":
            raise self._not_finished(inside)
        comma = self._position
        self._position += 1
        if self._peek() in _CLOSING.values():
            self._position = comma
            raise self._error("there is a comma after the last entry", "remove the comma")

    def _key(self) -> Event:
        """Read a key and its colon."""
        if self._peek() != '"':
            word = one_line(self._word())
            raise self._wrong_start() or self._error("a key in double quotes is missing here", (
                f'write "{word}"' if word else None
            ))  # fmt: skip
        key = self._string()
        if self._peek() != ":":
            raise self._error("a `:` is missing after the key")
        self._position += 1
        return key

    def _value(self) -> Event:
        """Read a scalar, or the bracket that opens a list or a mapping."""
        character = self._peek()
        if character == '"':
            return self._string()
        if character not in _OPENING:
            return self._literal()
        start = self._position
        self._position += 1
        self._open.append(_Open(character, start))
        return _OPENING[character], start, self._position, "", False, None, False

    def _string(self) -> Event:
        """Read a string."""
        start = self._position
        match = _STRING.match(self._text, start)
        end = match.end() if match else start
        if self._text[end : end + 1] != '"':
            raise self._bad_string(start, end)
        self._position = end + 1
        content = self._text[start + 1 : end]
        value = str(loads(f'"{content}"')) if "\\" in content else content
        return "scalar", start, self._position, value, False, None, False

    def _literal(self) -> Event:
        """Read a number, true, false or null."""
        start, word = self._position, self._word()
        if word not in _LITERALS and not _NUMBER.fullmatch(word):
            raise self._wrong_start() or self._not_a_literal(word)
        self._position += len(word)
        return "scalar", start, self._position, word, True, None, False

    def _peek(self) -> str:
        """Skip whitespace and return the next character, or nothing at the end."""
        match = _WHITESPACE.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return self._text[self._position : self._position + 1]

    def _word(self) -> str:
        """Return the text up to whitespace or punctuation of JSON."""
        match = _WORD.match(self._text, self._position)
        return match.group() if match else ""

    def _error(self, message: str, hint: str | None = None) -> Unreadable:
        """Return an error at the next character."""
        return Unreadable(message, self._position, self._position + 1, hint=hint)

    def _wrong_start(self) -> Unreadable | None:
        """Recognise syntax of other languages."""
        character = self._text[self._position : self._position + 1]
        return self._error(*_WRONG_STARTS[character]) if character in _WRONG_STARTS else None

    def _not_finished(self, inside: _Open) -> Unreadable:
        """Return the error for a missing comma or a missing end of a bracket."""
        if self._peek():
            return self._wrong_comment() or self._error("a comma is missing before this")
        return Unreadable(
            f"this `{inside.bracket}` is never closed", inside.start, inside.start + 1
        )

    def _wrong_comment(self) -> Unreadable | None:
        """Recognise a comment after an entry."""
        return self._wrong_start() if self._peek() in "/#" else None

    def _not_a_literal(self, word: str) -> Unreadable:
        """Return the error for a bare word that is not a value."""
        end = self._position + max(len(word), 1)
        if not word:
            return Unreadable("a value is missing here", self._position, end)
        lower = word.lower()
        if lower.lstrip("+-") in {"nan", "inf", "infinity"}:
            return Unreadable(
                f"`{one_line(word)}` is not JSON", self._position, end, hint="use null"
            )
        if word[0] in "+-.0123456789":
            message = f"`{one_line(word)}` is not a JSON number"
            return Unreadable(message, self._position, end, hint="remove the leading +, 0 or dot")
        hint = f"write {lower}" if lower in _LITERALS else "put it in double quotes"
        return Unreadable(f"`{one_line(word)}` is not a JSON value", self._position, end, hint=hint)

    def _bad_string(self, start: int, end: int) -> Unreadable:
        """Return the error for a forbidden character in a string, or its missing end."""
        character = self._text[end : end + 1]
        if character == "":
            return Unreadable("this string is never closed", start, start + 1)
        if character == "\\":
            hint = "write a backslash as \\\\"
            return Unreadable("the string has an unknown escape", end, end + 2, hint=hint)
        if character in "\r\n":
            return Unreadable(
                "a line ends inside a string", end, end, hint="close it, or write \\n"
            )
        if character == "\t":
            return Unreadable("the string contains a tab", end, end + 1, hint="write \\t")
        message = f"{describe(character)} is not allowed in a string"
        return Unreadable(message, end, end + 1, hint="remove the character", code="TC009")
