"""JSON as events, by the letter of RFC 8259, and in words what is not JSON."""

import re
from collections.abc import Iterator
from json import loads

from tenantcron.manifests.loading.characters import describe, one_line
from tenantcron.manifests.loading.events import Event, Kind, Unreadable

_BLANKS = re.compile(r"[ \t\r\n]*+")
# Up to the closing quote, or to what a string cannot hold. What a possessive repeat repeats is an
# atomic group: before Python 3.11.5 `(?:...)*+` stops in the middle of a last partial match.
_STRING = re.compile(r'"(?>[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_WORD = re.compile(r"[^\s,:\[\]{}\"'/#]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LITERALS = frozenset({"true", "false", "null"})
_OPENING: dict[str, Kind] = {"{": "mapping", "[": "sequence"}
_CLOSING = {"{": "}", "[": "]"}
_WRONG_STARTS = {
    "'": ("strings take double quotes in JSON", 'write "..." instead'),
    "/": ("comments are not JSON", "remove it, or use a YAML file"),
    "#": ("comments are not JSON", "remove it, or use a YAML file"),
    ",": ("a value is missing before this comma", None),
}


class _Open:
    """A bracket that waits for its end."""

    __slots__ = ("bracket", "is_empty", "start")

    def __init__(self, bracket: str, start: int) -> None:
        """Nothing is in it yet."""
        self.bracket = bracket
        self.start = start
        self.is_empty = True


def read_json(text: str) -> Iterator[Event]:
    """Yield the events of the one value that the text must be."""
    return _Reader(text).read()


class _Reader:
    """Walks through the text with a stack of open brackets, so that depth costs no recursion."""

    __slots__ = ("_open", "_position", "_text")

    def __init__(self, text: str) -> None:
        """Start at the beginning."""
        self._text = text
        self._position = 0
        self._open: list[_Open] = []

    def read(self) -> Iterator[Event]:
        """Yield events until the outermost value is complete, then look for leftovers."""
        if self._peek() == "":
            return
        yield self._value()
        while self._open:
            yield from self._step(self._open[-1])
        if self._peek():
            raise self._wrong_start() or self._error("there is text behind the end of the document")

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
        """Step over the comma between two entries."""
        if self._peek() != ",":
            raise self._not_finished(inside)
        comma = self._position
        self._position += 1
        if self._peek() in _CLOSING.values():
            self._position = comma
            raise self._error("a comma after the last entry", "remove the comma")

    def _key(self) -> Event:
        """Read a key and the colon behind it."""
        if self._peek() != '"':
            word = one_line(self._word())
            raise self._wrong_start() or self._error("a key in double quotes is missing here", (
                f'write "{word}"' if word else None
            ))  # fmt: skip
        key = self._string()
        if self._peek() != ":":
            raise self._error("a `:` is missing behind the key")
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
            raise self._wrong_start() or self._no_literal(word)
        self._position += len(word)
        return "scalar", start, self._position, word, True, None, False

    def _peek(self) -> str:
        """Step over blanks and return the character behind them, or nothing at the end."""
        match = _BLANKS.match(self._text, self._position)
        self._position = match.end() if match else self._position
        return self._text[self._position : self._position + 1]

    def _word(self) -> str:
        """Return what stands here up to a blank or a mark of JSON."""
        match = _WORD.match(self._text, self._position)
        return match.group() if match else ""

    def _error(self, message: str, hint: str | None = None) -> Unreadable:
        """Point at the character that is next."""
        return Unreadable(message, self._position, self._position + 1, hint=hint)

    def _wrong_start(self) -> Unreadable | None:
        """Recognise what other languages have and JSON has not."""
        character = self._text[self._position : self._position + 1]
        return self._error(*_WRONG_STARTS[character]) if character in _WRONG_STARTS else None

    def _not_finished(self, inside: _Open) -> Unreadable:
        """Say what is missing between two entries, or at the end of the text."""
        if self._peek():
            return self._wrong_comment() or self._error("a comma is missing before this")
        return Unreadable(
            f"this `{inside.bracket}` is never closed", inside.start, inside.start + 1
        )

    def _wrong_comment(self) -> Unreadable | None:
        """Recognise a comment behind an entry."""
        return self._wrong_start() if self._peek() in "/#" else None

    def _no_literal(self, word: str) -> Unreadable:
        """Say why a bare word is no value."""
        end = self._position + max(len(word), 1)
        if not word:
            return Unreadable("a value is missing here", self._position, end)
        lower = word.lower()
        if lower.lstrip("+-") in {"nan", "inf", "infinity"}:
            return Unreadable(
                f"`{one_line(word)}` is not JSON", self._position, end, hint="use null"
            )
        if word[0] in "+-.0123456789":
            message = f"`{one_line(word)}` is not a number in JSON"
            return Unreadable(message, self._position, end, hint="no leading +, 0 or dot")
        hint = f"write {lower}" if lower in _LITERALS else "put it in double quotes"
        return Unreadable(
            f"`{one_line(word)}` is not a value in JSON", self._position, end, hint=hint
        )

    def _bad_string(self, start: int, end: int) -> Unreadable:
        """Say what a string cannot hold, or that its end is missing."""
        character = self._text[end : end + 1]
        if character == "":
            return Unreadable("this string is never closed", start, start + 1)
        if character == "\\":
            hint = "write a backslash as \\\\"
            return Unreadable("an unknown escape in a string", end, end + 2, hint=hint)
        if character in "\r\n":
            return Unreadable(
                "a line ends inside a string", end, end, hint="close it, or write \\n"
            )
        if character == "\t":
            return Unreadable("a tab inside a string", end, end + 1, hint="write \\t")
        message = f"{describe(character)} is not allowed in a string"
        return Unreadable(message, end, end + 1, hint="remove the character", code="TC009")
