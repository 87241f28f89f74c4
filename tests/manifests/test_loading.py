"""Valid documents: the data, and the position of each value."""

import subprocess
import sys

import pytest

from tenantcron.core.values import JsonValue
from tenantcron.manifests.diagnostics import Pointer, Span
from tenantcron.manifests.document import Document, load

MANIFEST = """\
version: "1.0"
sagas:
  - name: bill   # a comment
    trigger:
      scheduled: {cron: 0 2 * * *, at: 02:00}
    script: |
      def run():
        pass

  - name: 😀 emoji
empty:
"""


def read(text: str) -> Document:
    """Load YAML that has no problems."""
    loaded = load(text.encode(), syntax="yaml")
    assert loaded.problems == ()
    assert loaded.document is not None
    return loaded.document


def test_yaml_becomes_plain_data() -> None:
    assert read(MANIFEST).data == {
        "version": "1.0",
        "sagas": [
            {
                "name": "bill",
                "trigger": {"scheduled": {"cron": "0 2 * * *", "at": "02:00"}},
                "script": "def run():\n  pass\n",
            },
            {"name": "😀 emoji"},
        ],
        "empty": None,
    }


@pytest.mark.parametrize(
    ("pointer", "span"),
    [
        pytest.param((), Span(1, 1, 11, 7), id="the document"),
        pytest.param(("version",), Span(1, 10, 1, 15), id="a quoted scalar, quotes included"),
        pytest.param(("sagas",), Span(3, 3, 10, 18), id="a block list ends with its last entry"),
        pytest.param(("sagas", 0), Span(3, 5, 8, 13), id="a block mapping, without blank lines"),
        pytest.param(("sagas", 0, "name"), Span(3, 11, 3, 15), id="a plain scalar"),
        pytest.param(("sagas", 0, "trigger", "scheduled"), Span(5, 18, 5, 46), id="a flow mapping"),
        pytest.param(("sagas", 0, "trigger", "scheduled", "at"), Span(5, 40, 5, 45), id="in flow"),
        pytest.param(("sagas", 0, "script"), Span(6, 13, 8, 13), id="a block scalar"),
        pytest.param(("sagas", 1, "name"), Span(10, 11, 10, 18), id="columns count characters"),
        pytest.param(("empty",), Span(11, 7, 11, 7), id="an empty value, after its colon"),
        pytest.param(("sagas", 7, "x"), Span(3, 3, 10, 18), id="missing: the nearest parent"),
        pytest.param(("sagas", "x"), Span(3, 3, 10, 18), id="a key of a list: the list"),
        pytest.param(("sagas", -1), Span(3, 3, 10, 18), id="no negative indexes"),
    ],
)
def test_a_value_has_a_position(pointer: Pointer, span: Span) -> None:
    assert read(MANIFEST).place(pointer) == span


def test_a_key_has_a_position() -> None:
    document = read(MANIFEST)
    assert document.place(("sagas", 0, "name"), key=True) == Span(3, 5, 3, 9)
    assert document.place(("sagas", 0), key=True) == document.place(("sagas", 0))
    assert document.place(("sagas", 0, "nome"), key=True) == document.place(("sagas", 0))


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_lines_are_counted_with_any_line_ending(line_break: str) -> None:
    document = read(f"a: 1{line_break}{line_break}b: 2{line_break}")
    assert document.place(("b",)) == Span(3, 4, 3, 5)


def test_a_byte_order_mark_takes_no_column() -> None:
    assert read("\ufeffa: 1").place(("a",), key=True) == Span(1, 1, 1, 2)


def test_an_alias_has_the_position_of_its_anchor() -> None:
    document = read("a: &x {b: 1}\nc: *x\n")
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.place(("c", "b")) == Span(1, 11, 1, 12)
    assert document.place(("c",), key=True) == Span(2, 1, 2, 2)


def test_merge_keys_add_missing_entries_with_their_positions() -> None:
    document = read("a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc:\n  <<: [*a, *b]\n  x: 0\n")
    assert document.data == {
        "a": {"x": 1, "y": 2},
        "b": {"y": 3, "z": 4},
        "c": {"x": 0, "y": 2, "z": 4},
    }
    assert document.place(("c", "x")) == Span(5, 6, 5, 7)
    assert document.place(("c", "z")) == Span(2, 17, 2, 18)
    assert document.place(("c", "z"), key=True) == Span(2, 14, 2, 15)


def test_a_merged_mapping_can_be_merged_again() -> None:
    document = read("a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}\n")
    assert isinstance(document.data, dict)
    assert document.data["c"] == {"y": 2, "x": 1}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert read('{"<<": 1}').data == {"<<": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None), ("~", None), ("", None), ("NULL", None),
        ("true", True), ("False", False), ("TRUE", True),
        ("12", 12), ("-7", -7), ("+3", 3), ("0x1F", 31), ("0", 0), ("-0", 0),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5), ("-.5", -0.5), ("2.", 2.0), ("1.5e+3", 1500.0),
        ("text", "text"), ("02:00", "02:00"), ("12:30", "12:30"), ("y", "y"), ("n", "n"),
        ("2026-12-01", "2026-12-01"), ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z"),
        ('"12"', "12"), ("'true'", "true"), ("tRue", "tRue"), ("-", ["-"]), ("1.2.3", "1.2.3"),
        ("0 2 * * *", "0 2 * * *"), ("+", "+"), (".", "."), ("0x", "0x"), ("1e", "1e"),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: JsonValue) -> None:
    if text == "-":
        text = '["-"]'
    data = read(f"a: {text}").data
    assert data == {"a": value}
    assert type(data["a"]) is type(value)


def test_a_directive_for_yaml_1_2_is_allowed() -> None:
    document = read("# a comment\n%YAML 1.2\n---\na: 1\n...\n# the end\n")
    assert document.place(("a",)) == Span(4, 4, 4, 5)


def test_keys_of_the_manifest_language_are_not_booleans() -> None:
    assert read("weekly: {on: [mon, fri], at: 02:00}").data == {
        "weekly": {"on": ["mon", "fri"], "at": "02:00"}
    }


def test_the_parser_is_imported_only_when_yaml_is_read() -> None:
    script = (
        "import sys; from tenantcron.manifests.document import load; load(b'{}', syntax='json');"
        "early = [m for m in ('ruamel.yaml', 'pydantic', 'jsonschema') if m in sys.modules];"
        "load(b'a: 1', syntax='yaml'); print(early, 'ruamel.yaml' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[] True"
