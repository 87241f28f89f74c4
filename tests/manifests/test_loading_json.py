"""JSON as in RFC 8259: the data, the positions, and the messages for invalid JSON."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Span
from tenantcron.manifests.document import load


def test_json_has_the_same_positions_as_yaml() -> None:
    document = load(b'{"a": [1, {"b": "x\\u00e4"}],\n "c": null}', syntax="json").document
    assert document is not None
    assert document.data == {"a": [1, {"b": "xä"}], "c": None}
    assert document.place(()) == Span(1, 1, 2, 12)
    assert document.place(("a",)) == Span(1, 7, 1, 28)
    assert document.place(("a", 1, "b")) == Span(1, 17, 1, 26)
    assert document.place(("c",), key=True) == Span(2, 2, 2, 5)


def test_surrogate_pairs_are_one_character() -> None:
    document = load(b'"\\ud83d\\ude00"', syntax="json").document
    assert document is not None
    assert document.data == "😀"


@dataclass(frozen=True)
class Bad:
    """A text that is not JSON, or not allowed in a manifest."""

    text: str
    code: str
    span: Span
    words: str


CASES = {
    "trailing comma": Bad('{"a": 1,}', "TC003", Span(1, 8, 1, 9), "comma after the last entry"),
    "trailing comma in a list": Bad("[1, ]", "TC003", Span(1, 3, 1, 4), "after the last entry"),
    "missing comma": Bad('{"a": 1\n "b": 2}', "TC003", Span(2, 2, 2, 3), "a comma is missing"),
    "leading comma": Bad("[,1]", "TC003", Span(1, 2, 1, 3), "a value is missing before this comma"),
    "comment": Bad("{ // x\n}", "TC003", Span(1, 3, 1, 4), "JSON has no comments"),
    "comment at the end": Bad("{}\n# x", "TC003", Span(2, 1, 2, 2), "JSON has no comments"),
    "comment after a value": Bad("[1 /* x */]", "TC003", Span(1, 4, 1, 5), "JSON has no comments"),
    "single quotes": Bad("['a']", "TC003", Span(1, 2, 1, 3), "double quotes"),
    "single-quoted key": Bad("{'a': 1}", "TC003", Span(1, 2, 1, 3), "double quotes"),
    "bare key": Bad("{a: 1}", "TC003", Span(1, 2, 1, 3), "a key in double quotes is missing"),
    "bare word": Bad("[abc]", "TC003", Span(1, 2, 1, 5), "`abc` is not a JSON value"),
    "NaN": Bad("[NaN]", "TC003", Span(1, 2, 1, 5), "`NaN` is not JSON"),
    "infinity": Bad("[-Infinity]", "TC003", Span(1, 2, 1, 11), "`-Infinity` is not JSON"),
    "Python's True": Bad("[True]", "TC003", Span(1, 2, 1, 6), "`True` is not a JSON value"),
    "leading zero": Bad("[01]", "TC003", Span(1, 2, 1, 4), "`01` is not a JSON number"),
    "leading plus": Bad("[+1]", "TC003", Span(1, 2, 1, 4), "`+1` is not a JSON number"),
    "no fraction": Bad("[1.]", "TC003", Span(1, 2, 1, 4), "`1.` is not a JSON number"),
    "other digits": Bad("[\u0661]", "TC003", Span(1, 2, 1, 3), "is not a JSON value"),
    "no colon": Bad('{"a" 1}', "TC003", Span(1, 6, 1, 7), "a `:` is missing after the key"),
    "no value": Bad('{"a":}', "TC003", Span(1, 6, 1, 7), "a value is missing here"),
    "wrong bracket": Bad('{"a": 1]', "TC003", Span(1, 8, 1, 9), "a comma is missing before this"),
    "never closed": Bad('{"a": [1', "TC003", Span(1, 7, 1, 8), "this `[` is never closed"),
    "open string": Bad('["a', "TC003", Span(1, 2, 1, 3), "this string is never closed"),
    "line in a string": Bad('["a\n"]', "TC003", Span(1, 4, 1, 4), "a line ends inside a string"),
    "tab in a string": Bad('["a\t"]', "TC003", Span(1, 4, 1, 5), "the string contains a tab"),
    "unknown escape": Bad('["\\x41"]', "TC003", Span(1, 3, 1, 5), "an unknown escape"),
    "short escape": Bad('["\\u41"]', "TC003", Span(1, 3, 1, 5), "an unknown escape"),
    "second value": Bad("{} {}", "TC003", Span(1, 4, 1, 5), "text after the end"),
    "NBSP": Bad("[1,\u00a02]", "TC003", Span(1, 4, 1, 5), "a value is missing here"),
    "duplicate key": Bad('{"a": 1, "\\u0061": 2}', "TC004", Span(1, 10, 1, 18), "on line 1"),
    "too deep": Bad("[" * 65, "TC005", Span(1, 65, 1, 66), "more than 64 levels"),
    "raw NUL": Bad('["\0"]', "TC009", Span(1, 3, 1, 4), "a NUL (U+0000)"),
    "NUL by escape": Bad('["\\u0000"]', "TC009", Span(1, 2, 1, 10), "a NUL (U+0000)"),
    "half a pair": Bad('["\\ud83d"]', "TC009", Span(1, 2, 1, 10), "half of a surrogate pair"),
    "raw C1": Bad('["\x9b"]', "TC009", Span(1, 2, 1, 5), "U+009B"),
    "empty": Bad(" \n", "TC010", Span(1, 1, 1, 1), "the document is empty"),
    "null": Bad("null", "TC010", Span(1, 1, 1, 1), "the document is empty"),
    "overflow": Bad("[1e999]", "TC012", Span(1, 2, 1, 7), "larger than any parser supports"),
    "5,000 digits": Bad(f"[{'1' * 5000}]", "TC012", Span(1, 2, 1, 5002), "64 bits"),
}


@pytest.mark.parametrize("bad", CASES.values(), ids=CASES.keys())
def test_invalid_json_is_reported_with_code_position_and_message(bad: Bad) -> None:
    (problem,) = load(bad.text.encode(), syntax="json").problems
    assert (problem.code, problem.span) == (bad.code, bad.span)
    assert bad.words in problem.message


def test_json_numbers_are_never_ambiguous() -> None:
    assert load(b"[1e3, 1.5E3, -0, 10]", syntax="json").problems == ()


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
STRINGS = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(STRINGS, inner, max_size=5),
    max_leaves=30,
)


@given(value=VALUES, indent=st.sampled_from([None, 0, 2]), ascii_only=st.booleans())
@settings(max_examples=300)
def test_json_round_trips(value: JsonValue, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps([value], indent=indent, ensure_ascii=ascii_only)
    loaded = load(text.encode(), syntax="json")
    assert loaded.problems == ()
    assert loaded.document is not None
    assert loaded.document.data == [value]


@given(text=st.text(alphabet='{}[]",:\\ue10.-+ \ntrfalsn', max_size=30))
@settings(max_examples=1000)
def test_only_json_is_accepted(text: str) -> None:
    try:
        json.loads(text, parse_constant=lambda name: 1 / len(name[len(name) :]))
        valid = True
    except (ValueError, ZeroDivisionError):
        valid = False
    refused = any(
        problem.code == "TC003" for problem in load(text.encode(), syntax="json").problems
    )
    assert refused != (valid or not text.strip(" \t\r\n"))
