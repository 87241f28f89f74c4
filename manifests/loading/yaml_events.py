"""YAML as events: libyaml's parser through ruamel.yaml, and ruamel's own one behind it.

Both yield the same events under YAML 1.2, but for these differences, all settled in this file:

- libyaml (0.1.7 in the wheels) refuses colons inside plain scalars of flow style (`{at: 02:00}`).
  Where it fails, it is asked again with such colons in disguise, which is still quick.
- It refuses more that is valid (`[a?]`), and surrogate escapes, which are ours to report. So where
  it fails again, ruamel's own parser has the last word, on texts that it can read in time.
- ruamel's own parser refuses tabs between tokens of block style, `['a':b]`, and bad text behind a
  closed document. That stays: without libyaml more is refused, but nothing is read otherwise.
- A colon right behind the name of an anchor or alias belongs to the name or not: it is refused.
- A tag before an anchor belongs to the node's place (libyaml) or does not.
- The place of an empty value: behind the colon (libyaml) or behind the blank lines that follow it.
- Block scalars and block collections end where the next token starts: here, where their text ends.
"""

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from tenantcron.manifests.loading.events import Event, Kind, Unreadable

Reader = Callable[[str], Iterator[Event]]

# The parser in Python takes some 50 microseconds a value, and quadratic time over long tags.
MAX_PURE = 50_000

_ONLY_COMMENTS = re.compile(r"(?>\s++|#[^\r\n]*+|\.\.\.(?=\s|\Z))*+")
# Few manifests need these, so they are compiled at their first use and not at every start.
_COLON = r"(?>\s++|#[^\r\n]*+)*+:"
_NAME = r"(?:!\S*+\s++)?[&*]([^\s,\[\]{}]*+)"
_TOO_BIG = r"\\U(?!000[0-9a-fA-F]|0010)[0-9a-fA-F]{8}"
# A colon that nothing follows which would make it an indicator, nor a quote or bracket precedes.
_INNER_COLON = r"(?<=[^\s,\[\]{}\"':]):(?=[^\s,\[\]{}])"
_DISGUISE = "\uf8ff"  # of the private use area


class _Mark(Protocol):
    index: int


class _ParserEvent(Protocol):
    """What ruamel.yaml's event classes have in common, and the fields that some of them have."""

    start_mark: _Mark
    end_mark: _Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None
    flow_style: bool
    explicit: bool


def readers(size: int) -> tuple[Reader, ...]:
    """Return the parsers to try on a text of that size, the quick one first."""
    try:
        import ruamel.yaml.cyaml  # noqa: F401 -- only whether it is there
    except ImportError:
        return (read_pure,)
    if size > MAX_PURE:
        return (read_quick, read_disguised)
    return (read_quick, read_disguised, read_pure)


def read_quick(text: str) -> Iterator[Event]:
    """Read with libyaml."""
    return _read(text, _parse_quick(text))


def read_disguised(text: str) -> Iterator[Event]:
    """Read with libyaml, which does not get to see the colons inside of plain scalars."""
    if _DISGUISE in text:
        raise Unreadable("the text holds the disguise itself", 0, 0)
    for event in _read(text, _parse_quick(re.sub(_INNER_COLON, _DISGUISE, text))):
        kind, start, end, said, plain, anchor, tagged = event
        yield kind, start, end, said.replace(_DISGUISE, ":"), plain, anchor, tagged


def _parse_quick(text: str) -> Iterator[_ParserEvent]:
    """Return libyaml's events."""
    from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined] # it does not export it

    return iter(CParser(text).get_event, None)


def read_pure(text: str) -> Iterator[Event]:
    """Read with the parser that is written in Python, if that can be done in bearable time."""
    if len(text) > MAX_PURE:
        message = f"without libyaml at most {MAX_PURE:,} characters of YAML are read"
        raise Unreadable(message, 0, 0, hint="install ruamel.yaml.clib", code="TC002")
    from ruamel.yaml import YAML

    return _read(text, YAML(typ="safe", pure=True).parse(text))


def _read(text: str, parsed: Iterator[_ParserEvent]) -> Iterator[Event]:
    """Translate the events of the first document and word what stops the parser."""
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
        from tenantcron.manifests.loading.yaml_words import explain  # for bad files only

        raise explain(text, error) from None
    except (ValueError, OverflowError):
        # Raised bare, by an escape in a string or in a tag that stands for no character.
        raise _no_character(text, translator.reached) from None


class _Translator:
    """Turns ruamel's events into ours, with places that do not depend on the parser."""

    __slots__ = ("_flows", "_text", "reached")

    def __init__(self, text: str) -> None:
        """Start at the beginning of the text."""
        self._text = text
        self._flows: list[bool] = []
        self.reached = 0

    def translations(self) -> dict[type, Callable[[_ParserEvent], Event]]:
        """Return how each class of event is translated; the others say nothing to us."""
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
        """Place a scalar where its text is."""
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
        """Refer to an anchor."""
        start = event.start_mark.index
        self._check_name(start)
        self.reached = event.end_mark.index
        return "alias", start, self.reached, event.anchor or "", False, None, False

    def _check_name(self, start: int) -> None:
        """Refuse the names that the parsers do not agree on."""
        name = re.compile(_NAME).match(self._text, start)
        if name and ":" in name.group(1):
            colon = self._text.index(":", name.start(1))
            message = "the name of an anchor or alias cannot hold a colon"
            raise Unreadable(message, colon, colon + 1, hint="put a blank before the colon")

    def _start(self, event: _ParserEvent) -> int:
        """Begin a node with its tag, also where an anchor follows the tag."""
        start = event.start_mark.index
        if event.anchor is not None:
            self._check_name(start)
        if event.tag and self._text[start : start + 1] == "&":
            tag = self._text.find("!", self.reached, start)
            return start if tag < 0 else tag
        return start

    def _empty(self, start: int) -> int:
        """Place an empty value behind its colon."""
        colon = re.compile(_COLON).match(self._text, self.reached, start)
        return colon.end() if colon else start

    def _mapping(self, event: _ParserEvent) -> Event:
        """Open a mapping."""
        return self._opening("mapping", event)

    def _sequence(self, event: _ParserEvent) -> Event:
        """Open a sequence."""
        return self._opening("sequence", event)

    def _opening(self, kind: Kind, event: _ParserEvent) -> Event:
        """Open either."""
        self._flows.append(event.flow_style)
        start, self.reached = self._start(event), event.end_mark.index
        return kind, start, self.reached, "", False, event.anchor, event.tag is not None

    def _closing(self, event: _ParserEvent) -> Event:
        """Close it behind its bracket or, in block style, behind its last entry."""
        if self._flows.pop():
            self.reached = event.end_mark.index
        return "end", self.reached, self.reached, "", False, None, False

    def rest(self, event: _ParserEvent) -> Iterator[Event]:
        """See to it that only comments follow the document; not by parsing what follows."""
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
                hint="indent the line like the first key, or close what is still open before it",
            )
        yield "another", start, start + 3, "", False, None, False


def _no_character(text: str, reached: int) -> Unreadable:
    """Point at the escape that stands for no character."""
    escape = re.compile(_TOO_BIG).search(text, reached)
    start, end = escape.span() if escape else (reached, reached + 1)
    message = "this escape stands for no character"
    return Unreadable(message, start, end, hint="the last one is \\U0010FFFF", code="TC009")
