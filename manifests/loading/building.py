"""Build nodes from events: one pass, no recursion, within limits, collecting all problems.

An alias shares the node of its anchor, so nothing is copied; its size is counted before it is
added. Merge keys copy only the entries of one level, which are already counted.
"""

from collections.abc import Callable, Iterable

from tenantcron.core.values import JsonScalar
from tenantcron.manifests.loading.characters import (
    describe,
    first_forbidden,
    one_line,
    without_forbidden,
)
from tenantcron.manifests.loading.events import Event, Kind
from tenantcron.manifests.loading.nodes import Key, Node
from tenantcron.manifests.loading.opened import OpenMapping, OpenSequence
from tenantcron.manifests.loading.problems import Problems
from tenantcron.manifests.loading.scalars import Reading
from tenantcron.manifests.loading.source import MAX_BYTES

MAX_DEPTH = 64
MAX_VALUES = 20_000

_TYPES = {dict: "a mapping", list: "a list", bool: "a boolean", type(None): "null", str: "a string"}


class Builder:
    """Builds the tree of a document; `usable` is whether its data can be checked further."""

    __slots__ = ("_aliased_bytes", "_anchors", "_problems", "_resolve", "_room", "_stack",
                 "_stopped", "_written", "root", "usable")  # fmt: skip

    def __init__(self, problems: Problems, resolve: Callable[[str], Reading]) -> None:
        """Start empty; `resolve` returns the value of an unquoted scalar."""
        self.root: Node | None = None
        self.usable = True
        self._problems = problems
        self._resolve = resolve
        self._stack: list[OpenMapping | OpenSequence] = []
        self._anchors: dict[str, Node | None] = {}
        self._written = 0
        self._room = MAX_VALUES  # aliases reduce it
        self._aliased_bytes = 0
        self._stopped = False

    def build(self, events: Iterable[Event]) -> None:
        """Process all events, or as many as the limits allow."""
        handlers: dict[Kind, Callable[[Event], None]] = {
            "scalar": self._take_scalar,
            "alias": self._take_alias,
            "mapping": self._open,
            "sequence": self._open,
            "end": self._close,
            "another": self._refuse_another,
        }
        for event in events:
            handlers[event[0]](event)
            if self._stopped:
                return

    def _take_scalar(self, event: Event) -> None:
        """Add a scalar as a key or as a value, whichever is next."""
        _, start, end, text, plain, anchor, tagged = event
        if tagged:
            self._refuse_tag(event)
        opened = self._stack[-1] if self._stack else None
        if isinstance(opened, OpenMapping) and opened.awaits_key:
            self._take_key(opened, event)
            return
        value: JsonScalar
        if plain:
            value, finding = self._resolve(text)
            if finding:
                self._report(finding.code, finding.message, (start, end), finding.hint)
        else:
            value = text if text.isprintable() else self._clean(event)
        node = Node(value, start, end)
        if anchor is not None:
            self._anchors[anchor] = node
        self._written += 1
        if self._written > self._room:
            self._refuse_more(event)
        if opened:
            opened.add(node)
        else:
            self.root = node

    def _take_key(self, mapping: OpenMapping, event: Event) -> None:
        """Add a scalar as the key of the next value."""
        _, start, end, text, plain, anchor, _ = event
        value, finding = self._resolve(text) if plain else (text, None)
        if not plain:
            text = self._clean(event)
        merge = plain and text == "<<"
        mapping.begin(Key(text, start, end, merge))
        if anchor is not None:
            self._anchors[anchor] = Node(text, start, end)
        if finding and finding.code == "TC012":
            value = 0  # kept as text, but still a number
        if not isinstance(value, str):
            self._report_key(event, f"the key `{one_line(text)}` is {_type_name(value)}")
        if merge:
            self._check_merge(mapping, event)
        elif mapping.earlier(text):
            self._check_duplicate(mapping, text, event)

    def _check_merge(self, mapping: OpenMapping, event: Event) -> None:
        """Report a second merge key of a mapping."""
        if mapping.merges:
            hint = "use one `<<` with a list of everything to merge"
            self._report("TC004", "the mapping has a second merge key", _place(event), hint)

    def _check_duplicate(self, mapping: OpenMapping, text: str, event: Event) -> None:
        """Report a key that the mapping already has."""
        earlier = mapping.earlier(text)
        if earlier:
            line = self._problems.source.line(earlier.start)
            message = f"the key `{one_line(text)}` is already on line {line}"
            self._report("TC004", message, _place(event), "delete or rename one of the two")

    def _take_alias(self, event: Event) -> None:
        """Add the node of the anchor in place of the alias."""
        _, start, end, name, *_ = event
        node = self._anchors.get(name)
        if node is None or self._is_too_much(node, event):
            if node is None:
                self._refuse_alias(event)
            self.usable = False
            # An empty mapping, so a merge key does not report it again.
            node = Node(None, start, end)
            node.entries = {}
        else:
            self._room -= node.size
            self._aliased_bytes += node.bytes
        opened = self._stack[-1] if self._stack else None
        if isinstance(opened, OpenMapping) and opened.awaits_key:
            self._take_alias_as_key(opened, node, event)
        else:
            self._attach(node)

    def _refuse_alias(self, event: Event) -> None:
        """Report an alias without an anchor or inside its anchor; stop if it is unquoted text."""
        from tenantcron.manifests.loading import unquoted  # noqa: PLC0415 - only for invalid files

        _, start, end, name, *_ = event
        source = self._problems.source.text
        if name in self._anchors:
            words, hint = "is inside its own anchor", None
        elif unquoted.is_meant_as_text(source, name, end):
            raise unquoted.needs_quotes(source, start)
        else:
            words = "has no anchor before it"
            hint = f"if it is text, put it in quotes: {unquoted.find(source, start).quoted}"
        self._report("TC008", f"the alias `*{one_line(name)}` {words}", (start, end), hint)

    def _is_too_much(self, node: Node, event: Event) -> bool:
        """Report an alias that makes the document too deep or too large."""
        name = one_line(event[3])
        hint = "write the values out, or use a named entry under `schedules:`"
        if len(self._stack) + node.height > MAX_DEPTH:
            message = f"`*{name}` is nested more than {MAX_DEPTH} levels deep"
            self._report("TC005", message, _place(event), hint)
        elif self._written + node.size > self._room:
            message = f"with `*{name}` the document grows beyond {MAX_VALUES:,} values"
            self._report("TC008", message, _place(event), hint)
        elif self._aliased_bytes + node.bytes > MAX_BYTES:
            message = f"with `*{name}` the aliases add more than {MAX_BYTES:,} bytes"
            self._report("TC014", message, _place(event), "pass a reference to the data instead")
        else:
            return False
        return True

    def _take_alias_as_key(self, mapping: OpenMapping, node: Node, event: Event) -> None:
        """Use the string of the alias as the key."""
        text = node.value if isinstance(node.value, str) else None
        mapping.begin(Key(text, *_place(event)))
        if text is None:
            self._report_key(event, f"a key must be a string, not {_type_name(node.value)}")
        else:
            self._check_duplicate(mapping, text, event)

    def _open(self, event: Event) -> None:
        """Begin a mapping or a sequence."""
        kind, start, _, _, _, anchor, tagged = event
        if tagged:
            self._refuse_tag(event)
        if self._stack and self._stack[-1].awaits_key:
            found = "a mapping" if kind == "mapping" else "a list"
            self._report_key(event, f"a key must be a string, not {found}")
        if len(self._stack) == MAX_DEPTH:
            message = f"the document is nested more than {MAX_DEPTH} levels deep"
            hint = "flatten the data, or keep it as a string"
            self._report("TC005", message, _place(event), hint)
            self._stop()
            return
        if anchor is not None:
            self._anchors[anchor] = None
        self._written += 1
        if self._written > self._room:
            self._refuse_more(event)
        opening = OpenMapping if kind == "mapping" else OpenSequence
        self._stack.append(opening(start, anchor))

    def _close(self, event: Event) -> None:
        """Finish the innermost mapping or sequence and add it to its parent."""
        opened = self._stack[-1]
        opened.node.end = event[2]
        if isinstance(opened, OpenMapping) and opened.merges and not opened.merge():
            self.usable = False
            message = "a merge key takes a mapping or a list of mappings"
            self._report("TC008", message, (opened.node.start, opened.node.end), None)
        self._stack.pop()
        if opened.anchor is not None:
            self._anchors[opened.anchor] = opened.node
        self._attach(opened.node)

    def _attach(self, node: Node) -> None:
        """Add a finished value to its parent."""
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        if isinstance(parent, OpenMapping) and parent.awaits_key:
            # Already reported; the value is read for its problems and then dropped.
            parent.begin(Key(None, node.start, node.end))
        else:
            parent.add(node)

    def _refuse_tag(self, event: Event) -> None:
        """Report a tag, which may be text that begins with `!`."""
        from tenantcron.manifests.loading import unquoted  # noqa: PLC0415 - only for invalid files

        kind, start, _, _, plain, *_ = event
        source, hint = self._problems.source.text, "remove the tag"
        if kind == "scalar" and plain and source[start : start + 1] == "!":
            hint += f", or put the text in quotes: {unquoted.find(source, start).quoted}"
        self._report("TC007", "tags are not allowed", _place(event), hint)

    def _refuse_another(self, event: Event) -> None:
        """Report a second document."""
        hint = "one file is one manifest: split it here"
        self._report("TC006", "a second document begins here", _place(event), hint)

    def _clean(self, event: Event) -> str:
        """Report and replace characters of a string that the database rejects."""
        text = event[3]
        character = first_forbidden(text)
        if character is None:
            return text
        message = f"the string contains {describe(character)}"
        self._report("TC009", message, _place(event), "remove the character")
        return without_forbidden(text)

    def _refuse_more(self, event: Event) -> None:
        """Stop at the limit of values."""
        code = "TC002" if self._written > MAX_VALUES else "TC008"
        aliases = " with its aliases" if self._room < MAX_VALUES else ""
        message = f"the document{aliases} has more than {MAX_VALUES:,} values"
        hint = "move generated data out of the manifest"
        self._report(code, message, _place(event), hint)
        self._stop()

    def _stop(self) -> None:
        """Stop reading; the rest cannot be checked."""
        self._stopped = True
        self.usable = False

    def _report_key(self, event: Event, message: str) -> None:
        """Report a key that is not a string."""
        self._report("TC011", message, _place(event), "put the key in quotes")

    def _report(self, code: str, message: str, place: tuple[int, int], hint: str | None) -> None:
        """Report a problem at a position, with the current pointer."""
        parts = (opened.part for opened in self._stack)
        pointer = tuple(part for part in parts if part is not None)
        self._problems.add(code, message, place, pointer=pointer, hint=hint)


def _place(event: Event) -> tuple[int, int]:
    """Return the position of an event."""
    return event[1], event[2]


def _type_name(value: object) -> str:
    """Return the name of a value's type."""
    return _TYPES.get(type(value), "a number")
