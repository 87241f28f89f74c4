"""Load the bytes of a manifest: plain data, the position of every value, and problems."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Pointer, Problem, Span
from tenantcron.manifests.loading.building import Builder
from tenantcron.manifests.loading.events import Event, Unreadable
from tenantcron.manifests.loading.nodes import Node
from tenantcron.manifests.loading.problems import Problems
from tenantcron.manifests.loading.scalars import Reading, resolve, resolve_json
from tenantcron.manifests.loading.source import Source, decode

Syntax = Literal["yaml", "json"]


class Document:
    """The data of a manifest; aliases share their data, so treat it as read-only."""

    __slots__ = ("_root", "_source", "data")

    def __init__(self, data: JsonValue, root: Node, source: Source) -> None:
        self.data = data
        self._root = root
        self._source = source

    def place(self, pointer: Pointer, *, key: bool = False) -> Span:
        """Return the position of the value (or its key), or of its nearest existing parent.

        Values from an alias or a merge key have the position of the anchor.
        """
        node, node_key = self._root, None
        for part in pointer:
            child = node.child(part)
            if child is None:
                # The parent, not its key, because something is missing inside it.
                return self._source.span(node.start, node.end)
            node, node_key = child, node.key_of(part)
        place = node_key if key and node_key else node
        return self._source.span(place.start, place.end)


class Loaded(NamedTuple):
    """A document, or None if its data cannot be checked, and its problems."""

    document: Document | None
    problems: tuple[Problem, ...]


def load(content: bytes, *, syntax: Syntax) -> Loaded:
    """Read a manifest; any bytes result in a document, problems or both."""
    source = decode(content)
    if isinstance(source, Problem):
        return Loaded(None, (source,))
    return _load_json(source) if syntax == "json" else _load_yaml(source)


def _load_json(source: Source) -> Loaded:
    """Read JSON."""
    from tenantcron.manifests.loading.json_events import read_json  # noqa: PLC0415 - YAML never needs it

    problems = Problems(source)
    try:
        return _assemble(problems, read_json(source.text), resolve_json)
    except Unreadable as error:
        return _unreadable(problems, error)


def _load_yaml(source: Source) -> Loaded:
    """Read YAML; if a parser fails, the next, more lenient one decides whether it is an error."""
    from tenantcron.manifests.loading.yaml_events import readers  # noqa: PLC0415 - JSON never needs it
    from tenantcron.manifests.loading.yaml_text import sanitise  # noqa: PLC0415 - as above

    before = Problems(source)
    try:
        text = sanitise(before)
    except Unreadable as error:
        return _unreadable(before, error)
    loaded = Loaded(None, ())
    for read in readers(len(text)):
        problems = before.copy()
        try:
            return _assemble(problems, read(text), resolve)
        except Unreadable as error:
            loaded = _unreadable(problems, error)
    return loaded


def _assemble(
    problems: Problems, events: Iterator[Event], meaning: Callable[[str], Reading]
) -> Loaded:
    """Build the document from its events."""
    builder = Builder(problems, meaning)
    builder.build(events)
    root = builder.root
    if builder.usable and (root is None or root.value is None):
        hint = "write `sagas: []` if there are no schedules, or delete the file"
        problems.add("TC010", "the document is empty", (0, 0), hint=hint)
    if root is None or root.value is None or not builder.usable:
        return Loaded(None, problems.found())
    return Loaded(Document(root.value, root, problems.source), problems.found())


def _unreadable(problems: Problems, error: Unreadable) -> Loaded:
    """Add the error that stopped the parser to the problems found before."""
    problems.add_unreadable(error)
    return Loaded(None, problems.found())
