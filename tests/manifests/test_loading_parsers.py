"""The two YAML parsers return the same result."""

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Pointer, Span
from tenantcron.manifests.document import Document, Loaded, load
from tenantcron.manifests.loading import yaml_events
from tenantcron.manifests.loading.yaml_events import read_pure, read_quick, readers

EXAMPLES = [
    "a: &x 1 # c\nb:\n  - *x\n  - '😀' \n  - |\n   foo\n\nc: {d: e, f: }\n",
    "a: |\n  foo\n # comment\n\nb: >-\n  x\n\n\nc: |+\n  y\n\n",
    "a: \n\n# c\n\nb:\n  # d\n\n",
    "? a\n: b\n? c\n",
    "a: 'x\n\n  y'\nb: x\n  y\n   z # c\n",
    "a: {b: http://x:80/y, c: [02:00, ab:c], 'd':e}\n",
    "a: [b?, ?c]\n",
    "a:\r\n  b: 1\r  c: 2",
    "a: &a {x: 1}\nb: {<<: *a, y: '\\ud83d'}\n",
    'a: "\\ud83d\\ude00"\nb: "\\U00110000"\n',
    "- - a\n  - b\n-\n- c: d\n  e: f\n",
    "a: b: c\n",
    "--- a\n--- b\n",
]
PIECES = (
    "a", "b", "k: ", "a: ", ": ", ":", "- ", "-", "\n", "\n", "\n  ", "\n    ", " ", "{", "}",
    "[", "]", ", ", ",", "? ", "&x ", "*x", "!t ", "! ", '"', "'", "''", "|", ">", "|-\n  ",
    "#", " # c", "02:00", "a:b", "10", "yes", "~", '"\\u0041"', '"\\ud800"', "\\", "😀", "\r\n",
    "\r", "---\n", "...\n", "%", "%YAML 1.2\n", "<<: ", "<<: *x", "\u2028", "\x07", "@", "`", "é",
)  # fmt: skip


def outcome(loaded: Loaded) -> object:
    """Return the data, all positions, and the codes and positions of the problems."""
    found = [(problem.code, problem.span, problem.pointer) for problem in loaded.problems]
    document = loaded.document
    return found, (document.data, list(places(document, document.data))) if document else None


def places(
    document: Document, value: JsonValue, pointer: Pointer = ()
) -> Iterator[tuple[Pointer, Span, Span]]:
    """Walk over all values."""
    yield pointer, document.place(pointer), document.place(pointer, key=True)
    children = value.items() if isinstance(value, dict) else ()
    for part, child in enumerate(value) if isinstance(value, list) else children:
        yield from places(document, child, (*pointer, part))


def is_refused(loaded: Loaded) -> bool:
    """Whether the text was rejected as YAML."""
    return any(problem.code == "TC003" for problem in loaded.problems)


def load_yaml(content: bytes) -> Loaded:
    """Load as if libyaml is installed."""
    return load(content, syntax="yaml")


def is_text(loaded: Loaded) -> bool:
    """Whether the document is a single text. The parsers differ on its end, but no manifest is one.

    If such a text is a block without indentation, the Python parser reads the marker of the next
    document as a line of it.
    """
    return loaded.document is not None and isinstance(loaded.document.data, str)


def load_pure(content: bytes) -> Loaded:
    """Load as if libyaml is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_events, "readers", lambda _size: (read_pure,))
        return load(content, syntax="yaml")


def assert_agreement(text: str) -> None:
    """Check that the result does not depend on the parser."""
    content = text.encode()
    assert outcome(load(content, syntax="yaml")) == outcome(load_pure(content))


@pytest.mark.parametrize("text", EXAMPLES)
def test_both_parsers_agree_on_examples(text: str) -> None:
    assert_agreement(text)


def test_both_parsers_agree_on_the_manifests_of_the_examples_folder() -> None:
    folder = Path(__file__).parents[2] / "examples"
    for path in [*folder.rglob("*.yaml"), *folder.rglob("*.yml")]:
        content = path.read_bytes()
        assert outcome(load(content, syntax="yaml")) == outcome(load_pure(content)), path


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=25))
@settings(max_examples=1000)
@example(pieces=["[", "a:b", ": ", "a", "]"])
@example(pieces=["|", "\n", "---\n"])
def test_the_python_parser_may_reject_more_but_never_reads_differently(pieces: list[str]) -> None:
    content = "".join(pieces).encode()
    full, pure = load(content, syntax="yaml"), load_pure(content)
    if is_text(full) and is_text(pure):
        return
    if is_refused(full) == is_refused(pure):
        assert outcome(full) == outcome(pure)
    else:
        assert is_refused(pure)


# No "?" and ":", because ruamel writes `[?a]` and `[:a]`, which neither parser reads as text.
WORDS = st.text(st.sampled_from("abz09 -#'\"{}[],&*|>@%é😀\n"), max_size=8)
KEYS = st.text(st.sampled_from("abcxyz"), min_size=1, max_size=4)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(tree=st.dictionaries(KEYS, TREES, min_size=1, max_size=4), flow=st.booleans())
@settings(max_examples=100)
def test_output_of_ruamel_round_trips_with_both_parsers(
    tree: dict[str, JsonValue], flow: bool
) -> None:
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = flow
    stream = io.StringIO()
    writer.dump(tree, stream)
    document = load(stream.getvalue().encode(), syntax="yaml").document
    assert document is not None
    assert document.data == tree
    assert_agreement(stream.getvalue())


def test_libyaml_is_used_first_if_installed() -> None:
    assert readers(100)[0] is read_quick
    assert readers(100)[-1] is read_pure
    assert read_pure not in readers(1_000_000)


def test_without_libyaml_the_python_parser_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml.cyaml", None)
    assert readers(100) == (read_pure,)
    document = load(b"a: {at: 02:00}", syntax="yaml").document
    assert document is not None
    assert document.data == {"a": {"at": "02:00"}}


def test_without_libyaml_large_files_are_rejected_with_a_message() -> None:
    (problem,) = load_pure(b"a: 1\n" + b"#" * 60_000).problems
    assert problem.code == "TC002"
    assert "without libyaml" in problem.message


def test_a_quoted_key_without_a_space_before_its_value_needs_libyaml_in_a_list() -> None:
    assert load(b"['d':e]", syntax="yaml").problems == ()
    assert is_refused(load_pure(b"['d':e]"))


@pytest.mark.parametrize("text", ["a:\tb", "a: b\tc", "a: b\t# c", "a:\t\n  b: c", "a: |\t\n  x\n"])
def test_tabs_between_tokens_need_libyaml(text: str) -> None:
    assert load(text.encode(), syntax="yaml").problems == ()
    (problem,) = load_pure(text.encode()).problems
    assert (problem.code, problem.message) == ("TC003", "a tab is not allowed here")


@dataclass(frozen=True)
class Slip:
    """A text without quotes, its message, and its quoted form."""

    text: str
    place: Span
    hint: str
    kind: str = "value"


SLIPS = {
    "every minute": Slip("cron: * * * * *", Span(1, 7, 1, 16), 'write cron: "* * * * *"'),
    "step": Slip("cron: */15 * * * *", Span(1, 7, 1, 19), 'write cron: "*/15 * * * *"'),
    "comment after it": Slip(
        "a: 1\ncron: */5 2 * * *  # often\nb: 2", Span(2, 7, 2, 18), 'write cron: "*/5 2 * * *"'
    ),
    "step alone": Slip("minute: */15", Span(1, 9, 1, 13), 'write minute: "*/15"'),
    "star alone": Slip("a: *", Span(1, 4, 1, 5), 'write a: "*"'),
    "word and more": Slip("say: *this* is it", Span(1, 6, 1, 18), 'write say: "*this* is it"'),
    "name and more": Slip("say: *this is it", Span(1, 6, 1, 17), 'write say: "*this is it"'),
    "two stars": Slip("a: **/5 * * * *", Span(1, 4, 1, 16), 'write a: "**/5 * * * *"'),
    "in braces": Slip(
        "a: {cron: */5 1,2 * * *, b: c}", Span(1, 11, 1, 24), 'write cron: "*/5 1,2 * * *"'
    ),
    "last in braces": Slip("a: {cron: * * * * *}", Span(1, 11, 1, 20), 'write cron: "* * * * *"'),
    "in braces of several lines": Slip(
        "a: {\n  cron: */5 * * * *,\n  b: c\n}", Span(2, 9, 2, 20), 'write cron: "*/5 * * * *"'
    ),
    "in a list": Slip("- */5 * * * *", Span(1, 3, 1, 14), 'write "*/5 * * * *"'),
    "on the next line": Slip("cron:\n  */5 * * * *", Span(2, 3, 2, 14), 'write "*/5 * * * *"'),
    "two steps in a list": Slip("- */5 */2 * * *", Span(1, 3, 1, 16), 'write "*/5 */2 * * *"'),
    "under a quoted key": Slip('"cron": * * * * *', Span(1, 9, 1, 18), 'write cron: "* * * * *"'),
    "with quotes inside": Slip("a: * \"it's\"", Span(1, 4, 1, 12), "write a: '* \"it''s\"'"),
    "macro": Slip("cron: @daily", Span(1, 7, 1, 13), 'write cron: "@daily"'),
    "interval": Slip("cron: @every 45m", Span(1, 7, 1, 17), 'write cron: "@every 45m"'),
    "macro in braces": Slip("a: {cron: @daily}", Span(1, 11, 1, 17), 'write cron: "@daily"'),
    "percent": Slip("a: %d items", Span(1, 4, 1, 12), 'write a: "%d items"'),
    "backtick": Slip("a: `date`", Span(1, 4, 1, 10), 'write a: "`date`"'),
    "ampersand": Slip("a: & so on", Span(1, 4, 1, 11), 'write a: "& so on"'),
    "key": Slip("@type: x", Span(1, 1, 1, 6), 'write "@type":', kind="key"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS.keys())
@pytest.mark.parametrize(
    ("read", "large"),
    # The pure parser rejects large files because of their size.
    [(load_yaml, False), (load_yaml, True), (load_pure, False)],
    ids=["libyaml", "libyaml, large file", "pure"],
)
def test_text_that_needs_quotes_is_one_problem_with_the_quoted_form(
    slip: Slip, large: bool, read: Callable[[bytes], Loaded]
) -> None:
    padding = f"\n#{'x' * yaml_events.MAX_PURE}" if large else ""
    (problem,) = read(f"{slip.text}{padding}".encode()).problems
    first = slip.text.splitlines()[slip.place.line - 1][slip.place.column - 1]
    assert (problem.code, problem.span, problem.hint) == ("TC003", slip.place, slip.hint)
    assert problem.message == f"a {slip.kind} that begins with `{first}` must be quoted"


@pytest.mark.parametrize("read", [load_yaml, load_pure], ids=["libyaml", "pure"])
@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("a: *b", "TC008", 'if it is text, put it in quotes: a: "*b"'),
        ("a: [*b]", "TC008", 'if it is text, put it in quotes: "*b"'),
        (
            "a: !important now",
            "TC007",
            'remove the tag, or put the text in quotes: a: "!important now"',
        ),
        ("a: !x [b]", "TC007", "remove the tag"),
    ],
)
def test_possible_text_gets_a_hint_to_quote_it(
    text: str, code: str, hint: str, read: Callable[[bytes], Loaded]
) -> None:
    (problem,) = read(text.encode()).problems
    assert (problem.code, problem.hint) == (code, hint)


def test_each_unknown_alias_is_a_problem() -> None:
    problems = load(b"a: [*b,*c, *d]\n*e : f", syntax="yaml").problems
    assert [problem.code for problem in problems] == ["TC008"] * 4 + ["TC011"]
