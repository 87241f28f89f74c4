"""The output of an attempt: the last lines of its log, and a small result."""

from contextvars import copy_context
from threading import Thread

import pytest

from tenantcron.targets.output import (
    LONGEST_LOG,
    LONGEST_RESULT,
    Output,
    collect_from_here,
    keep_line,
    keep_result,
)


def collected(*values: object) -> Output:
    """Return the output of a handler that returned the last of the values."""

    def handler() -> Output:
        output = collect_from_here()
        for value in values:
            keep_result(value)
        return output

    return copy_context().run(handler)


def test_the_last_64_kib_of_the_log_are_kept() -> None:
    output = Output()
    for number in range(3000):
        output.add_line(f"line {number:04} of a handler that has a lot to say\n")

    log = output.log or ""
    lines = log.splitlines()
    assert len(log.encode()) <= LONGEST_LOG + len("…\n".encode())
    assert lines[0] == "…"
    assert lines[-1] == "line 2999 of a handler that has a lot to say"
    assert len(lines) > 1000


def test_a_line_longer_than_the_log_is_truncated() -> None:
    output = Output()
    output.add_line("é" * LONGEST_LOG + "\n")

    log = output.log or ""
    assert len(log.encode()) <= LONGEST_LOG
    assert log.endswith("…\n")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"rows": 3, "names": ["é", None, True]}, '{"rows":3,"names":["é",null,true]}'),
        (0, "0"),
        ("", '""'),
        (None, None),
        ("a\\u0000", r'"a\\u0000"'),
    ],
)
def test_a_json_result_is_stored(value: object, kept: str | None) -> None:
    assert collected(value).result == kept


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(object(), id="not JSON"),
        pytest.param(float("nan"), id="not a number"),
        pytest.param("x" * LONGEST_RESULT, id="too long"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("\ud800", id="an unpaired surrogate"),
        pytest.param({"a": "\0"}, id="NUL inside"),
    ],
)
def test_a_result_that_cannot_be_stored_is_dropped(value: object) -> None:
    assert collected(value).result is None


def test_a_circular_value_is_dropped() -> None:
    circular: list[object] = []
    circular.append(circular)
    assert collected(circular).result is None


def test_a_line_shows_the_event_its_fields_and_a_traceback() -> None:
    def handler() -> Output:
        output = collect_from_here()
        keep_line(None, "info", {"event": "rows_read", "rows": 3, "tenant": "acme"})
        try:
            dict[str, int]()["meter"]
        except KeyError:
            keep_line(None, "error", {"event": "failed", "exc_info": True})
        return output

    lines = (copy_context().run(handler).log or "").splitlines()
    assert lines[:2] == ["info rows_read rows=3", "error failed"]
    assert lines[2] == "Traceback (most recent call last):"
    assert lines[-1] == "KeyError: 'meter'"


def test_credentials_in_a_line_are_hidden() -> None:
    def handler() -> Output:
        output = collect_from_here()
        keep_line(None, "info", {"event": "calling", "authorization": "Bearer abcdefgh"})
        return output

    assert copy_context().run(handler).log == "info calling authorization=***\n"


def test_attempts_in_other_threads_have_separate_outputs() -> None:
    outputs = dict[str, Output]()

    def handler(name: str) -> None:
        outputs[name] = collect_from_here()
        keep_line(None, "info", {"event": name})

    threads = [Thread(target=copy_context().run, args=(handler, name)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: output.log for name, output in outputs.items()} == {
        "a": "info a\n",
        "b": "info b\n",
    }


def test_the_lines_after_a_position_are_the_new_ones() -> None:
    output = Output()
    assert output.lines_after(0) is None
    output.add_line("one\n")
    output.add_line("zwölf\n")
    first = output.lines_after(0)
    assert first == (0, 10, "one\nzwölf\n", 11)
    assert output.lines_after(10) is None
    output.add_line("three\n")
    assert output.lines_after(10) == (10, 16, "three\n", 6)
    assert output.lines_after(0, 14) == (4, 16, "zwölf\nthree\n", 13)
    # At least one line.
    assert output.lines_after(0, 1) == (10, 16, "three\n", 6)


def test_positions_count_dropped_lines() -> None:
    output = Output()
    line = "x" * 1023 + "\n"
    for _ in range(100):
        output.add_line(line)
    lines = output.lines_after(0)
    assert lines is not None
    assert (lines.position, lines.end_position) == (36 * 1024, 100 * 1024)
    assert len(lines.text) == lines.size == LONGEST_LOG
