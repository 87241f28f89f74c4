"""Invalid documents: every code of the loader, its position and message, and the remaining data."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Pointer, Span
from tenantcron.manifests.document import load

NOTHING = object()


@dataclass(frozen=True)
class Bad:
    """A document with one problem."""

    content: bytes
    code: str
    span: Span
    words: str
    pointer: Pointer = ()
    data: object = NOTHING


CASES = {
    "not UTF-8": Bad(b"a: b\nc: \xff", "TC001", Span(2, 4, 2, 5), "0xff is not UTF-8"),
    "cut inside a character": Bad("ä".encode()[:1], "TC001", Span(1, 1, 1, 2), "is not UTF-8"),
    "UTF-16": Bad("a: 1".encode("utf-16"), "TC001", Span(1, 1, 1, 1), "the file is UTF-16"),
    "UTF-32": Bad("a: 1".encode("utf-32"), "TC001", Span(1, 1, 1, 1), "the file is UTF-32"),
    "too many bytes": Bad(b"#" * 1_048_577, "TC002", Span(1, 1, 1, 1), "has 1,048,577 bytes"),
    "too many values": Bad(
        b"- 1\n" * 20_000, "TC002", Span(20_000, 3, 20_000, 4), "more than 20,000 values", (19_999,)
    ),
    "two colons": Bad(b"a: b: c", "TC003", Span(1, 5, 1, 6), "a `:` is not allowed here"),
    "dedent": Bad(b" a: 1\nb: 2", "TC003", Span(2, 1, 2, 2), "ended before this line"),
    "wrong indent": Bad(b"a:\n  - b\n c: d", "TC003", Span(3, 2, 3, 3), "the value from line 1"),
    "open quote": Bad(b'a: 1\nb: "x', "TC003", Span(2, 4, 2, 5), "this quote is never closed"),
    "open bracket": Bad(b"a: [b", "TC003", Span(1, 6, 1, 6), "the list from line 1 is missing"),
    "open brace": Bad(b"a: {b: 1", "TC003", Span(1, 9, 1, 9), "the mapping from line 1 is"),
    "tab": Bad(b"a:\n\tb: 1", "TC003", Span(2, 1, 2, 2), "a tab is not allowed here"),
    "at sign": Bad(b"a: @b", "TC003", Span(1, 4, 1, 6), "begins with `@` must be quoted"),
    "escape": Bad(b'a: "\\q"', "TC003", Span(1, 6, 1, 7), "an unknown escape"),
    "short escape": Bad(b'a: "\\xZ"', "TC003", Span(1, 7, 1, 8), "too few hexadecimal digits"),
    "no colon": Bad(b"a: 1\nb\nc: 2", "TC003", Span(2, 1, 2, 2), "a `:` is missing after this"),
    "list on a line": Bad(b"a: - b", "TC003", Span(1, 4, 1, 5), "a list entry cannot begin here"),
    "no name": Bad(b"a: *", "TC003", Span(1, 4, 1, 5), "begins with `*` must be quoted"),
    "colon after an alias": Bad(b"*x: 1", "TC003", Span(1, 3, 1, 4), "cannot contain a colon"),
    "no value": Bad(b"a: [,]", "TC003", Span(1, 5, 1, 6), "a value is missing here"),
    "directive alone": Bad(b"%YAML 1.2\na: 1", "TC003", Span(2, 1, 2, 2), "must follow"),
    "duplicate key": Bad(
        b"a: 1\nb: 2\na: 3", "TC004", Span(3, 1, 3, 2), "already on line 1", ("a",),
        {"a": 1, "b": 2},
    ),
    "duplicate in quotes": Bad(
        b'{a: 1, "a": 2}', "TC004", Span(1, 8, 1, 11), "already on line 1", ("a",), {"a": 1}
    ),
    "two merge keys": Bad(
        b"a: &a {b: 1}\nc: {<<: *a, <<: *a}", "TC004", Span(2, 13, 2, 15), "second merge key",
        ("c", "<<"), {"a": {"b": 1}, "c": {"b": 1}},
    ),
    "too deep": Bad(b"[" * 65, "TC005", Span(1, 65, 1, 66), "more than 64 levels", (0,) * 64),
    "too deep by alias": Bad(
        b"- &a " + b"[" * 40 + b"]" * 40 + b"\n- " + b"[" * 40 + b"*a" + b"]" * 40,
        "TC005", Span(2, 43, 2, 45), "`*a` is nested more than 64 levels", (1, *(0,) * 40),
    ),
    "two documents": Bad(
        b"a: 1\n---\nb: 2", "TC006", Span(2, 1, 2, 4), "second document", data={"a": 1}
    ),
    "a second one after dots": Bad(
        b"a: 1\n...\n# x\nb: 2", "TC006", Span(4, 1, 4, 4), "second document", data={"a": 1}
    ),
    "tag": Bad(b"a: !!str 5", "TC007", Span(1, 4, 1, 11), "tags", ("a",), {"a": 5}),
    "local tag": Bad(b"a: !x [b]", "TC007", Span(1, 4, 1, 8), "tags", ("a",), {"a": ["b"]}),
    "bare tag": Bad(b"a: ! b", "TC007", Span(1, 4, 1, 7), "tags", ("a",), {"a": "b"}),
    "bare tag of a list": Bad(b"a: ! [b]", "TC007", Span(1, 4, 1, 7), "tags", ("a",), {"a": ["b"]}),
    "tag before anchor": Bad(b"a: !y &x b", "TC007", Span(1, 4, 1, 11), "tags", ("a",), {"a": "b"}),
    "tag after anchor": Bad(b"a: &x !y b", "TC007", Span(1, 4, 1, 11), "tags", ("a",), {"a": "b"}),
    "unknown tag handle": Bad(b"a: !e!x b", "TC007", Span(1, 4, 1, 5), "tags are not allowed"),
    "YAML 1.1": Bad(b"%YAML 1.1\n---\na: 1", "TC007", Span(1, 1, 1, 10), "`%YAML`", data={"a": 1}),
    "%TAG": Bad(b"%TAG ! x:\n---\na: 1", "TC007", Span(1, 1, 1, 10), "`%TAG`", data={"a": 1}),
    "unknown alias": Bad(b"a: *b", "TC008", Span(1, 4, 1, 6), "no anchor before it", ("a",)),
    "cycle": Bad(b"a: &b [*b]", "TC008", Span(1, 8, 1, 10), "inside its own anchor", ("a", 0)),
    "merge of a number": Bad(b"a: {<<: 1}", "TC008", Span(1, 4, 1, 11), "takes a mapping", ("a",)),
    "NUL by escape": Bad(
        b'a: "x\\0"', "TC009", Span(1, 4, 1, 9), "a NUL (U+0000)", ("a",), {"a": "x\ufffd"}
    ),
    "C1 by escape": Bad(
        b'"\\x9b": 1', "TC009", Span(1, 1, 1, 7), "U+009B", (), {"\ufffd": 1}
    ),
    "half a pair": Bad(
        b'a: "\\ud83d"', "TC009", Span(1, 4, 1, 12), "half of a surrogate pair", ("a",),
        {"a": "\ufffd"},
    ),
    "beyond Unicode": Bad(b'a: "\\U00110000"', "TC009", Span(1, 5, 1, 15), "not a character"),
    "raw control": Bad(
        b"a: x\x07y", "TC009", Span(1, 5, 1, 6), "control character (U+0007)", (),
        {"a": "x\ufffdy"},
    ),
    "raw line separator": Bad(
        "a: 1 #\u2028b: 2".encode(), "TC009", Span(1, 7, 1, 8), "U+2028", (), {"a": 1}
    ),
    "inner byte order mark": Bad(
        "a: x\ufeff".encode(), "TC009", Span(1, 5, 1, 6), "byte order mark", (), {"a": "x\ufffd"}
    ),
    "nothing": Bad(b"", "TC010", Span(1, 1, 1, 1), "the document is empty"),
    "comments": Bad(b"# x\n\n---\n# y\n", "TC010", Span(1, 1, 1, 1), "the document is empty"),
    "null": Bad(b"~", "TC010", Span(1, 1, 1, 1), "the document is empty"),
    "number as key": Bad(b"5: a", "TC011", Span(1, 1, 1, 2), "`5` is a number", ("5",), {"5": "a"}),
    "infinite key": Bad(
        b".inf: a", "TC011", Span(1, 1, 1, 5), "is a number", (".inf",), {".inf": "a"}
    ),
    "boolean as key": Bad(
        b"true: a", "TC011", Span(1, 1, 1, 5), "is a boolean", ("true",), {"true": "a"}
    ),
    "null as key": Bad(b"~: a", "TC011", Span(1, 1, 1, 2), "is null", ("~",), {"~": "a"}),
    "list as key": Bad(
        b"? [a]\n: {b: c}\nd: e", "TC011", Span(1, 3, 1, 4), "not a list", (), {"d": "e"}
    ),
    "alias of a list as key": Bad(
        b"a: &a [b]\n*a : c", "TC011", Span(2, 1, 2, 3), "not a list", (), {"a": ["b"]}
    ),
    "infinity": Bad(b"a: -.inf", "TC012", Span(1, 4, 1, 9), "finite", ("a",), {"a": "-.inf"}),
    "not a number": Bad(b"a: .NaN", "TC012", Span(1, 4, 1, 8), "finite", ("a",), {"a": ".NaN"}),
    "over 64 bits": Bad(
        b"a: 9223372036854775808", "TC012", Span(1, 4, 1, 23), "64 bits", ("a",),
        {"a": "9223372036854775808"},
    ),
    "5,000 digits": Bad(
        b"a: " + b"1" * 5000, "TC012", Span(1, 4, 1, 5004), "64 bits", ("a",), {"a": "1" * 5000}
    ),
    "overflow": Bad(b"a: 1.e+999", "TC012", Span(1, 4, 1, 11), "larger", ("a",), {"a": "1.e+999"}),
}  # fmt: skip


@pytest.mark.parametrize("bad", CASES.values(), ids=CASES.keys())
def test_an_invalid_document_has_one_problem_with_code_position_and_message(bad: Bad) -> None:
    loaded = load(bad.content, syntax="yaml")
    (problem,) = loaded.problems
    assert (problem.code, problem.span, problem.pointer) == (bad.code, bad.span, bad.pointer)
    assert bad.words in problem.message
    assert "\n" not in problem.message
    assert (loaded.document.data if loaded.document else NOTHING) == bad.data


@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        ("yes", "yes", 'the text "yes" here, but some YAML parsers read it as a boolean'),
        ("Off", "Off", 'the text "Off" here, but some YAML parsers read it as a boolean'),
        ("010", 10, "the number 10 here, but some YAML parsers read it as octal or text"),
        ("0o17", 15, "the number 15 here, but some YAML parsers read it as text"),
        ("1e3", 1000.0, "the number 1000.0 here, but some YAML parsers read it as text"),
        ("1_000", "1_000", 'the text "1_000" here, but some YAML parsers read it as a number'),
        ("0b11", "0b11", "read it as a number"),
        ("1:30", "1:30", "read it as a base-60 number"),
        ("12:30:45", "12:30:45", "read it as a base-60 number"),
    ],
)
def test_scalars_that_yaml_1_1_reads_differently_are_reported(
    text: str, value: JsonValue, words: str
) -> None:
    loaded = load(f"a: {text}".encode(), syntax="yaml")
    (problem,) = loaded.problems
    assert loaded.document is not None
    assert loaded.document.data == {"a": value}
    assert (problem.code, problem.pointer) == ("TC013", ("a",))
    assert problem.span == Span(1, 4, 1, 4 + len(text))
    assert words in problem.message
    assert "quote it" in (problem.hint or "")


def test_all_problems_are_reported_at_once() -> None:
    content = b"a: 1\na: yes\n5: .inf\nb: !x *c\nd: &e {f: '\x01'}\n---\n"
    codes = [problem.code for problem in load(content, syntax="yaml").problems]
    assert codes == ["TC009", "TC004", "TC013", "TC011", "TC012", "TC007", "TC003"]
    mended = content.replace(b"!x ", b"")
    codes = [problem.code for problem in load(mended, syntax="yaml").problems]
    assert codes == ["TC009", "TC004", "TC013", "TC011", "TC012", "TC008", "TC006"]


def test_an_alias_bomb_is_rejected_where_it_exceeds_the_limit() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise("abcdefg")]
    loaded = load("\n".join(lines).encode(), syntax="yaml")
    assert loaded.document is None
    assert {problem.code for problem in loaded.problems} == {"TC008"}
    assert loaded.problems[0].span.line == 5
    assert "beyond 20,000 values" in loaded.problems[0].message


def test_values_count_in_addition_to_aliases() -> None:
    content = b"- &a [" + b"1," * 9_000 + b"]\n- *a\n" + b"- 1\n" * 3_000
    loaded = load(content, syntax="yaml")
    assert loaded.document is None
    assert [problem.code for problem in loaded.problems] == ["TC008"]


def test_a_large_string_that_is_aliased_often_is_rejected_at_the_alias() -> None:
    content = b"- &a " + b"x" * 250_000 + b"\n" + b"- *a\n" * 49
    loaded = load(content, syntax="yaml")
    assert loaded.document is None
    assert {problem.code for problem in loaded.problems} == {"TC014"}
    assert loaded.problems[0].span.line == 6
    assert loaded.problems[0].message == "with `*a` the aliases add more than 1,048,576 bytes"


@pytest.mark.parametrize(
    "content",
    [
        "- &a " + "é" * 125_000 + "\n" + "- *a\n" * 5,
        "- &a {" + ", ".join(f"{'k' * 1_000}{n}: 1" for n in range(250)) + "}\n" + "- *a\n" * 5,
        "- &a [" + "x" * 125_000 + "]\n- &b [*a, *a]\n- &c [*b, *b]\n- [*c, *c]\n",
        "- &a {b: " + "x" * 250_000 + "}\n" + "- {<<: *a}\n" * 5,
    ],
    ids=["more than one byte", "keys", "nested", "merged"],
)
def test_the_size_of_aliases_is_counted_in_bytes_everywhere(content: str) -> None:
    loaded = load(content.encode(), syntax="yaml")
    assert loaded.document is None
    assert {problem.code for problem in loaded.problems} == {"TC014"}


def test_aliases_may_add_as_much_as_the_maximum_file_size() -> None:
    content = b"- &a " + b"x" * 262_144 + b"\n" + b"- *a\n" * 4
    assert load(content, syntax="yaml").document is not None
    assert load(b"- " + b"x" * 1_000_000, syntax="yaml").document is not None


def test_problems_of_one_kind_are_limited() -> None:
    problems = load(b"a: 1\n" * 500, syntax="yaml").problems
    assert len(problems) == 51
    assert "not listed" in problems[-1].message


def test_twenty_thousand_values_and_64_levels_are_allowed() -> None:
    assert load(b"- 1\n" * 19_999, syntax="yaml").problems == ()
    assert load(b"[" * 64 + b"]" * 64, syntax="yaml").problems == ()
    assert load(b"#" * 1_048_571 + b"\na: 1", syntax="yaml").problems == ()
