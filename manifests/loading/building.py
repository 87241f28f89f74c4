"""From events to nodes: one pass, no recursion, within limits, all problems on the way.

An alias shares the node of its anchor, so nothing is copied; what it would add to the document is
counted before it is taken. Merge keys copy only the entries of one level, each counted already.
"""

from collections.abc import Callable, Iterable

from tenantcron.manifests.loading.characters import describe, first_forbidden, without_forbidden
from tenantcron.manifests.loading.events import Event
from tenantcron.manifests.loading.nodes import Key, Node
from tenantcron.manifests.loading.opened import OpenMapping, OpenSequence
from tenantcron.manifests.loading.problems import Problems
from tenantcron.manifests.loading.scalars import Reading, shorten

MAX_DEPTH = 64
MAX_VALUES = 20_000

_TYPES = {dict: "a mapping", list: "a list", bool: "a boolean", type(None): "null", str: "a string"}


class Builder:
    """Builds the tree of one document; `usable` says whether its data can be checked further."""

    __slots__ = ("_anchors", "_expanded", "_problems", "_resolve", "_stack", "_stopped", "_written",
                 "root", "usable")  # fmt: skip

    def __init__(self, problems: Problems, resolve: Callable[[str], Reading]) -> None:
        """Start with nothing; `resolve` gives unquoted scalars their meaning."""
        self.root: Node | None = None
        self.usable = True
        self._problems = problems
        self._resolve = resolve
        self._stack: list[OpenMapping | OpenSequence] = []
        self._anchors: dict[str, Node | None] = {}
        self._written = 0
        self._expanded = 0
        self._stopped = False

    def build(self, events: Iterable[Event]) -> None:
        """Take all events, or as many as the limits allow."""
        for event in events:
            self._take(event)
            if self._stopped:
                return

    def _take(self, event: Event) -> None:
        """Take one event."""
        if event.tagged:
            self._report("TC007", "tags are not allowed", event, "remove the tag")
        if event.kind == "scalar":
            self._take_scalar(event)
        elif event.kind == "end":
            self._close(event)
        elif event.kind == "alias":
            self._take_alias(event)
        elif event.kind == "another":
            hint = "one file is one manifest: split it here"
            self._report("TC006", "a second document begins here", event, hint)
        else:
            self._open(event)

    def _take_scalar(self, event: Event) -> None:
        """Take a scalar as a key or as a value, whichever comes now."""
        opened = self._stack[-1] if self._stack else None
        if isinstance(opened, OpenMapping) and opened.key is None:
            self._take_key(opened, event)
            return
        node = Node(event.text, event.start, event.end)
        if event.plain:
            node.value, finding = self._resolve(event.text)
            if finding:
                self._report(finding.code, finding.message, event, finding.hint)
        else:
            node.value = self._clean(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._count(event)
        if opened:
            opened.add(node)
        else:
            self.root = node

    def _take_key(self, mapping: OpenMapping, event: Event) -> None:
        """Take a scalar as the key of the next value."""
        value, finding = self._resolve(event.text) if event.plain else (event.text, None)
        merge = event.plain and event.text == "<<"
        text = event.text if event.plain else self._clean(event)
        mapping.key = Key(text, event.start, event.end, merge)
        if event.anchor is not None:
            self._anchors[event.anchor] = Node(text, event.start, event.end)
        if finding and finding.code == "TC012":
            value = 0  # it was kept as text, but it is still a number
        if not isinstance(value, str):
            self._report_key(event, f"the key `{shorten(text)}` is {_type_name(value)}")
        if merge or mapping.earlier(text):
            self._check_duplicate(mapping, text, event)

    def _check_duplicate(self, mapping: OpenMapping, text: str, event: Event) -> None:
        """Report a key that the mapping already has."""
        earlier = mapping.earlier(text)
        if mapping.key and mapping.key.merge:
            if mapping.merges:
                hint = "give one `<<` a list of all that is to be merged"
                self._report("TC004", "a second merge key in one mapping", event, hint)
        elif earlier:
            line = self._problems.source.line(earlier.start)
            message = f"the key `{shorten(text)}` is already in line {line}"
            self._report("TC004", message, event, "delete or rename one of the two")

    def _take_alias(self, event: Event) -> None:
        """Put the anchor's own node where the alias is."""
        node = self._anchors.get(event.text)
        refusal = self._refuse_alias(event, node)
        if refusal or node is None:
            self.usable = False
            # With no entries, so that a merge key does not complain about it again.
            node = Node(None, event.start, event.end, entries={})
        else:
            self._expanded += node.size
        opened = self._stack[-1] if self._stack else None
        if isinstance(opened, OpenMapping) and opened.key is None:
            self._take_alias_as_key(opened, node, event)
        else:
            self._attach(node)

    def _refuse_alias(self, event: Event, node: Node | None) -> bool:
        """Report an alias that leads nowhere, into itself or too far."""
        name = shorten(event.text)
        hint = "write the values out, or use a named entry under `schedules:`"
        if node is None:
            known = event.text in self._anchors
            words = "stands inside its own anchor" if known else "has no anchor before it"
            self._report("TC008", f"the alias `*{name}` {words}", event, None)
        elif len(self._stack) + node.height > MAX_DEPTH:
            self._report("TC005", f"`*{name}` nests over {MAX_DEPTH} levels deep", event, hint)
        elif self._written + self._expanded + node.size > MAX_VALUES:
            message = f"with `*{name}` the document grows beyond {MAX_VALUES:,} values"
            self._report("TC008", message, event, hint)
        else:
            return False
        return True

    def _take_alias_as_key(self, mapping: OpenMapping, node: Node, event: Event) -> None:
        """Take the string that the alias stands for as the key."""
        text = node.value if isinstance(node.value, str) else None
        mapping.key = Key(text, event.start, event.end)
        if text is None:
            self._report_key(event, f"a key must be a string, not {_type_name(node.value)}")
        else:
            self._check_duplicate(mapping, text, event)

    def _open(self, event: Event) -> None:
        """Begin a mapping or a sequence."""
        parent = self._stack[-1] if self._stack else None
        if isinstance(parent, OpenMapping) and parent.key is None:
            kind = "a mapping" if event.kind == "mapping" else "a list"
            self._report_key(event, f"a key must be a string, not {kind}")
        if len(self._stack) == MAX_DEPTH:
            message = f"the document is nested over {MAX_DEPTH} levels deep"
            self._report("TC005", message, event, "flatten the data, or keep it as a string")
            self._stop()
            return
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._count(event)
        opening = OpenMapping if event.kind == "mapping" else OpenSequence
        self._stack.append(opening(event.start, event.anchor))

    def _close(self, event: Event) -> None:
        """Finish the innermost mapping or sequence and hand it to its parent."""
        opened = self._stack[-1]
        opened.node.end = event.end
        if isinstance(opened, OpenMapping) and opened.merges and not opened.merge():
            self.usable = False
            message = "a merge key takes a mapping or a list of mappings"
            self._report("TC008", message, event._replace(start=opened.node.start), None)
        self._stack.pop()
        if opened.anchor is not None:
            self._anchors[opened.anchor] = opened.node
        self._attach(opened.node)

    def _attach(self, node: Node) -> None:
        """Put a finished value where it belongs."""
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        if isinstance(parent, OpenMapping) and parent.key is None:
            # Already reported; its value is read for its own problems and then dropped.
            parent.key = Key(None, node.start, node.end)
        else:
            parent.add(node)

    def _clean(self, event: Event) -> str:
        """Report what the database would refuse in a string and put stand-ins in its place."""
        character = first_forbidden(event.text)
        if character is None:
            return event.text
        message = f"the string holds {describe(character)}"
        self._report("TC009", message, event, "remove the character")
        return without_forbidden(event.text)

    def _count(self, event: Event) -> None:
        """Count a value that is written, and stop at the limit."""
        self._written += 1
        if self._written + self._expanded > MAX_VALUES:
            code = "TC002" if self._written > MAX_VALUES else "TC008"
            aliases = " with its aliases" if self._expanded else ""
            message = f"the document{aliases} holds more than {MAX_VALUES:,} values"
            self._report(code, message, event, "move generated data out of the manifest")
            self._stop()

    def _stop(self) -> None:
        """Read no further: what is left cannot be judged."""
        self._stopped = True
        self.usable = False

    def _report_key(self, event: Event, message: str) -> None:
        """Report a key that is no string."""
        self._report("TC011", message, event, "put the key in quotes")

    def _report(self, code: str, message: str, event: Event, hint: str | None) -> None:
        """Report a problem at the event, under the pointer that is being read."""
        parts = (opened.part for opened in self._stack)
        pointer = tuple(part for part in parts if part is not None)
        place = (event.start, event.end)
        self._problems.add(code, message, place, pointer=pointer, hint=hint)


def _type_name(value: object) -> str:
    """Name the type of a value as people call it."""
    return _TYPES.get(type(value), "a number")
