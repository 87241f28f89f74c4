"""Read YAML as events with libyaml's parser (through ruamel.yaml), then with ruamel's own parser.

Both yield the same events for YAML 1.2, except for these differences, which this file resolves:

- libyaml (0.1.7 in the wheels) rejects colons inside plain scalars of flow style (`{at: 02:00}`).
  If it fails, it runs again with such colons replaced, which is still fast.
- It rejects other valid text (`[a?]`), and surrogate escapes, which we report ourselves. So if it
  fails again, ruamel's own parser decides, for texts that it can read in time.
- ruamel's own parser rejects tabs between tokens of block style, `['a':b]`, and invalid text after
  a closed document. Without libyaml more is rejected, but nothing is read differently.
- A colon directly after the name of an anchor or alias is ambiguous, so it is rejected.
- A tag before an anchor belongs to the node's position (libyaml) or does not.
- An empty value is after the colon (libyaml) or after the blank lines that follow it.
- Block scalars and block collections end where the next token starts; here, where their text ends.
"""

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from tenantcron.manifests.loading.events import Event, Kind, TextMark, Unreadable

Reader = Callable[[str], Iterator[Event]]

# The parser in Python takes about 50 microseconds per value, and quadratic time for long tags.
MAX_PURE = 50_000

_ONLY_COMMENTS = re.compile(r"(?>\s++|#[^\r\n]*+|\.\.\.(?=\s|\Z))*+")
# Few manifests need these, so they are compiled on first use, not at every start.
_COLON = r"(?>\s++|#[^\r\n]*+)*+:"
_NAME = r"(?:!\S*+\s++)?[&*]([^\s,\[\]{}]*+)"
_TOO_BIG = r"\\U(?!000[0-9a-fA-F]|0010)[0-9a-fA-F]{8}"
# A colon that is no indicator: no whitespace or bracket follows, no quote or bracket precedes.
_INNER_COLON = r"(?<=[^\s,\[\]{}\"':]):(?=[^\s,\[\]{}])"
_COLON_SUBSTITUTE = "\uf8ff"  # in the private use area


class _ParserEvent(Protocol):
    """The fields of ruamel.yaml's event classes; some classes have only a part of them."""

    start_mark: TextMark
    end_mark: TextMark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None
    flow_style: bool
    explicit: bool


def readers(size: int) -> tuple[Reader, ...]:
    """Return the parsers to try on a text of that size, the fastest first."""
    try:
        import ruamel.yaml.cyaml  # noqa: F401 -- only to check whether it exists
    except ImportError:
        return (read_pure,)
    if size > MAX_PURE:
        return (read_quick, read_with_substitutes)
    return (read_quick, read_with_substitutes, read_pure)


def read_quick(text: str) -> Iterator[Event]:
    """Read with libyaml."""
    return _read(text, _parse_quick(text))


def read_with_substitutes(text: str) -> Iterator[Event]:
    """Read with libyaml, with the colons inside plain scalars replaced."""
    if _COLON_SUBSTITUTE in text:
        raise Unreadable("the text contains the substitute for colons", 0, 0)
    for event in _read(text, _parse_quick(re.sub(_INNER_COLON, _COLON_SUBSTITUTE, text))):
        kind, start, end, value, plain, anchor, tagged = event
        yield kind, start, end, value.replace(_COLON_SUBSTITUTE, ":"), plain, anchor, tagged


def _parse_quick(text: str) -> Iterator[_ParserEvent]:
    """Return libyaml's events."""
    from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined] # not exported

    return iter(CParser(text).get_event, None)


def read_pure(text: str) -> Iterator[Event]:
    """Read with the parser in Python, if the text is not too long for it."""
    if len(text) > MAX_PURE:
        message = f"without libyaml, YAML may have at most {MAX_PURE:,} characters"
        raise Unreadable(message, 0, 0, hint="install ruamel.yaml.clib", code="TC002")
    from ruamel.yaml import YAML

    return _read(text, YAML(typ="safe", pure=True).parse(text))


def _read(text: str, parsed: Iterator[_ParserEvent]) -> Iterator[Event]:
    """Translate the events of the first document, and the error that stops the parser."""
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.events import DocumentEndEvent

    translator = _Translator(text)
    translations = translator.translations()
    try:
        for event in parsed:
            translate = translations.get(type(event))
            if translate is not None:
                yield translate(event)
            elif isinstance(event, DocumentEndEvent):
                yield from translator.rest(event)
                return
    except MarkedYAMLError as error:
        from tenantcron.manifests.loading.yaml_words import explain  # only for invalid files

        raise explain(text, error) from None
    except (ValueError, OverflowError):
        # Raised for an escape in a string or a tag that represents no character.
        raise _no_character(text, translator.reached) from None


class _Translator:
    """Translates ruamel's events, with positions that do not depend on the parser."""

    __slots__ = ("_flows", "_text", "reached")

    def __init__(self, text: str) -> None:
        """Start at the beginning of the text."""
        self._text = text
        self._flows: list[bool] = []
        self.reached = 0

    def translations(self) -> dict[type, Callable[[_ParserEvent], Event]]:
        """Return the translation of each relevant class of events."""
        from ruamel.yaml import events

        return {
            events.ScalarEvent: self._scalar,
            events.AliasEvent: self._alias,
            events.MappingStartEvent: self._mapping,
            events.SequenceStartEvent: self._sequence,
            events.MappingEndEvent: self._closing,
            events.SequenceEndEvent: self._closing,
        }

    def _scalar(self, event: _ParserEvent) -> Event:
        """Translate a scalar, with the position of its text."""
        start, end, style = event.start_mark.index, event.end_mark.index, event.style
        anchor, tagged = event.anchor, event.tag is not None
        if tagged or anchor is not None:
            start = self._start(event)
        if style and style in "|>":
            end = start + len(self._text[start:end].rstrip())
        elif start == end:
            start = end = self._empty(start)
        self.reached = end
        return "scalar", start, end, event.value, not style, anchor, tagged

    def _alias(self, event: _ParserEvent) -> Event:
        """Translate an alias."""
        start = event.start_mark.index
        self._check_name(start)
        self.reached = event.end_mark.index
        return "alias", start, self.reached, event.anchor or "", False, None, False

    def _check_name(self, start: int) -> None:
        """Reject names that the parsers read differently."""
        name = re.compile(_NAME).match(self._text, start)
        if name and ":" in name.group(1):
            colon = self._text.index(":", name.start(1))
            message = "the name of an anchor or alias cannot contain a colon"
            raise Unreadable(message, colon, colon + 1, hint="put a space before the colon")

    def _start(self, event: _ParserEvent) -> int:
        """Return the start of a node, which includes a tag before the anchor."""
        start = event.start_mark.index
        if event.anchor is not None:
            self._check_name(start)
        if event.tag and self._text[start : start + 1] == "&":
            tag = self._text.find("!", self.reached, start)
            return start if tag < 0 else tag
        return start

    def _empty(self, start: int) -> int:
        """Return the position of an empty value: after its colon."""
        colon = re.compile(_COLON).match(self._text, self.reached, start)
        return colon.end() if colon else start

    def _mapping(self, event: _ParserEvent) -> Event:
        """Open a mapping."""
        return self._opening("mapping", event)

    def _sequence(self, event: _ParserEvent) -> Event:
        """Open a sequence."""
        return self._opening("sequence", event)

    def _opening(self, kind: Kind, event: _ParserEvent) -> Event:
        """Open a mapping or a sequence."""
        self._flows.append(event.flow_style)
        start, self.reached = self._start(event), event.end_mark.index
        return kind, start, self.reached, "", False, event.anchor, event.tag is not None

    def _closing(self, event: _ParserEvent) -> Event:
        """Close it after its bracket or, in block style, after its last entry."""
        if self._flows.pop():
            self.reached = event.end_mark.index
        return "end", self.reached, self.reached, "", False, None, False

    def rest(self, event: _ParserEvent) -> Iterator[Event]:
        """Check, without parsing, that only comments follow the document."""
        ended = event.end_mark.index
        rest = _ONLY_COMMENTS.match(self._text, ended)
        start = rest.end() if rest else ended
        if start == len(self._text):
            return
        if not event.explicit and not self._text.startswith(("---", "%"), start):
            raise Unreadable(
                "the document has ended before this line",
                start,
                start + 1,
                hint="indent the line like the first key, or close the quote or bracket before it",
            )
        yield "another", start, start + 3, "", False, None, False


def _no_character(text: str, reached: int) -> Unreadable:
    """Return the error at the escape that represents no character."""
    escape = re.compile(_TOO_BIG).search(text, reached)
    start, end = escape.span() if escape else (reached, reached + 1)
    message = "this escape is not a character"
    return Unreadable(message, start, end, hint="the last one is \\U0010FFFF", code="TC009")
