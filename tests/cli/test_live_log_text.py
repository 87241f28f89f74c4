"""The lines of a log that is followed: each is printed once."""

from tenantcron.cli.live_log import FollowedLog
from tenantcron.service.responses.shapes import RunningLogResponse


def running(position: int, log: str) -> RunningLogResponse:
    return {"attempt": 1, "position": position, "log": log}


def test_each_line_is_printed_once() -> None:
    log = FollowedLog()
    assert list(log.more(running(0, "one\n"))) == ["one"]
    assert list(log.more(running(0, "one\n"))) == []
    assert list(log.more(running(0, "one\ntwo\nthree\n"))) == ["two", "three"]
    # The first lines were dropped.
    assert list(log.more(running(4, "two\nthree\nfour\n"))) == ["four"]
    assert list(log.more(running(8, "three\nfour\n"))) == []
    # Lines are missing.
    assert list(log.more(running(100, "nine\n"))) == ["…", "nine"]


def test_the_same_line_again_is_printed_again() -> None:
    log = FollowedLog()
    assert list(log.more(running(0, "tick\ntick\n"))) == ["tick", "tick"]
    assert list(log.more(running(5, "tick\ntick\n"))) == ["tick"]


def test_the_rest_of_a_complete_log_follows() -> None:
    log = FollowedLog()
    assert log.rest("one\ntwo\n") == ["one", "two"]
    list(log.more(running(0, "one\n")))
    assert log.rest("one\ntwo\n") == ["two"]
    assert log.rest("one\n") == []


def test_the_rest_of_a_log_whose_start_is_missing_follows_the_last_printed_line() -> None:
    log = FollowedLog()
    list(log.more(running(0, "one\ntwo\nthree\n")))
    assert log.rest("…\ntwo\nthree\nfour\n") == ["four"]
    assert log.rest("…\nthree\n") == []
    assert log.rest("…\nfive\nsix\n") == ["…", "five", "six"]
