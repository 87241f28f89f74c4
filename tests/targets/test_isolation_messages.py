"""Messages of a child: encoding and decoding."""

from datetime import timedelta
from uuid import UUID

import pytest
from support.attempts import claimed

from tenantcron.scheduler.steps.attempts import AttemptOutcome, Stop, ended, stopped
from tenantcron.targets.python.isolation.messages import (
    LONGEST_LINE,
    Failure,
    FailureKind,
    HandlerEnded,
    LogLine,
    Message,
    MintRequest,
    RemoteError,
    decode,
    encode,
    failure_of,
)
from tenantcron.targets.signals import Fail, Retry


@pytest.mark.parametrize(
    "message",
    [
        LogLine("info", "written", {"rows": 3, "of": ["a", None]}),
        MintRequest("https://billing.internal"),
        HandlerEnded(None),
        HandlerEnded(None, '{"meters":3}'),
        HandlerEnded(Failure(FailureKind.ERROR, "ValueError: é\n\nTraceback")),
        HandlerEnded(Failure(FailureKind.RETRY, "later", timedelta(seconds=1.5))),
    ],
)
def test_a_message_survives_encoding_and_decoding(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message


def test_a_value_that_json_lacks_is_sent_as_text() -> None:
    line = LogLine("info", "e", {"id": UUID(int=1)})  # type: ignore[dict-item] # handlers log anything
    assert decode(encode(line)) == LogLine("info", "e", {"id": str(UUID(int=1))})


def test_a_long_log_line_is_reduced_to_its_event() -> None:
    line = encode(LogLine("info", "large", {"value": "x" * LONGEST_LINE}))
    assert len(line) < 2000
    message = decode(line)
    assert isinstance(message, LogLine)
    assert message.event == "large"


@pytest.mark.parametrize("line", [b"{}", b"[]", b'{"ended": 3}', b"no JSON"])
def test_an_invalid_message_is_rejected(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- any of them
        decode(line)


@pytest.mark.parametrize(
    ("error", "after", "final"),
    [
        (Retry("later", after=30), timedelta(seconds=30), False),
        (Fail("never"), None, True),
        (ValueError("odd"), None, False),
    ],
)
def test_an_exception_in_a_child_ends_the_attempt_like_one_in_the_scheduler(
    error: Exception, after: timedelta | None, final: bool
) -> None:
    remote = RemoteError(failure_of(error))
    here, there = ended(claimed(), error), ended(claimed(), remote)

    assert (there.outcome, there.retry_after, there.final) == (AttemptOutcome.FAILED, after, final)
    assert there.error == here.error


def test_the_error_of_a_stopped_handler_has_its_traceback() -> None:
    remote = RemoteError(Failure(FailureKind.ERROR, "Cancelled: its time is up\n\nTraceback"))
    attempt = stopped(claimed(), Stop.TIMED_OUT, "timed out after 1s", remote)
    assert attempt.error == "timed out after 1s\n\nCancelled: its time is up\n\nTraceback"
