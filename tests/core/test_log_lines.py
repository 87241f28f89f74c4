"""Lines of a log whose reader may stand still."""

import json
import os
from collections.abc import Iterator

import pytest

from tenantcron.core.log_lines import KEPT, Lines

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """The two ends of a pipe."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        os.close(end)


def waiting(reader: int) -> bytes:
    """Read what has been written by now."""
    read = b""
    while True:
        try:
            piece = os.read(reader, 1_000_000)
        except BlockingIOError:
            return read
        read += piece


def test_a_line_is_written_at_once(pipe: Pipe) -> None:
    reader, writer = pipe
    Lines(writer).info("one")
    assert waiting(reader) == b"one\n"


def test_a_reader_who_stands_still_stops_nobody_and_misses_nothing_of_what_is_kept(
    pipe: Pipe,
) -> None:
    reader, writer = pipe
    lines = Lines(writer)
    sent = [f"{number:0200}" for number in range(KEPT // 2)]
    for line in sent:
        lines.info(line)
    read = waiting(reader)
    while b"end" not in read:
        lines.leave()
        read += waiting(reader)
        if len(read) == sum(len(line) + 1 for line in sent):
            lines.info("end")

    assert read.decode().splitlines()[:-1] == sent


def test_what_is_too_much_to_keep_is_counted(pipe: Pipe) -> None:
    reader, writer = pipe
    lines, number = Lines(writer), 3 * KEPT
    for _ in range(number):
        lines.info("x" * 99)
    read = b""
    while piece := waiting(reader):
        read += piece
        lines.leave()
    lines.info("later")
    read += waiting(reader)

    kept, (told, last) = read.decode().splitlines()[:-2], read.decode().splitlines()[-2:]
    loss = json.loads(told)
    assert (loss["event"], loss["level"], last) == ("log_lines_lost", "warning", "later")
    assert set(kept) == {"x" * 99}
    assert len(kept) + loss["lines"] == number


def test_long_lines_are_written_whole(pipe: Pipe) -> None:
    reader, writer = pipe
    Lines(writer).error("ü" * 10_000)
    assert waiting(reader).decode() == "ü" * 10_000 + "\n"


def test_a_reader_who_has_gone_stops_nobody() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = Lines(writer)
    for _ in range(10):
        lines.info("nobody hears this")
    lines.leave()
    os.close(writer)
