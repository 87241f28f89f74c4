"""Log lines whose reader may stall."""

import json
import os
from collections.abc import Iterator

import pytest

from tenantcron.core.log_lines import MAX_BUFFERED, NonBlockingLines

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """The two ends of a pipe."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        os.close(end)


def read_available(reader: int) -> bytes:
    """Read everything that the pipe has now."""
    data = b""
    while True:
        try:
            data += os.read(reader, 1_000_000)
        except BlockingIOError:
            return data


def test_a_line_is_written_at_once(pipe: Pipe) -> None:
    reader, writer = pipe
    NonBlockingLines(writer).info("first")
    assert read_available(reader) == b"first\n"


def test_a_stalled_reader_does_not_block_the_writer_and_gets_all_buffered_lines(
    pipe: Pipe,
) -> None:
    reader, writer = pipe
    lines = NonBlockingLines(writer)
    sent = [f"{number:0200}" for number in range(MAX_BUFFERED // 2)]
    for line in sent:
        lines.info(line)
    received = read_available(reader)
    while b"end" not in received:
        lines.close()
        received += read_available(reader)
        if len(received) == sum(len(line) + 1 for line in sent):
            lines.info("end")

    assert received.decode().splitlines()[:-1] == sent


def test_lines_beyond_the_buffer_are_counted(pipe: Pipe) -> None:
    reader, writer = pipe
    lines, number = NonBlockingLines(writer), 3 * MAX_BUFFERED
    for _ in range(number):
        lines.info("x" * 99)
    received = b""
    while chunk := read_available(reader):
        received += chunk
        lines.close()
    lines.info("later")
    received += read_available(reader)

    *kept, report, last = received.decode().splitlines()
    loss = json.loads(report)
    assert (loss["event"], loss["level"], last) == ("log_lines_lost", "warning", "later")
    assert set(kept) == {"x" * 99}
    assert len(kept) + loss["lines"] == number


def test_long_lines_are_written_completely(pipe: Pipe) -> None:
    reader, writer = pipe
    NonBlockingLines(writer).error("ü" * 10_000)
    assert read_available(reader).decode() == "ü" * 10_000 + "\n"


def test_a_closed_pipe_does_not_stop_the_writer() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = NonBlockingLines(writer)
    for _ in range(10):
        lines.info("not read")
    lines.close()
    os.close(writer)
