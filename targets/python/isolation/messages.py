"""Messages of a child to the scheduler: one JSON document per line."""

import json
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.targets.faults import Described, described
from tenantcron.targets.signals import Fail, Retry

# Bytes per line. A longer log line is reduced to its event; other messages are shorter.
LONGEST_LINE: Final = 256 * 1024


class LogLine(NamedTuple):
    """A log line of the handler; the scheduler adds the fields of the execution."""

    level: str
    event: str
    fields: JsonObject


class MintRequest(NamedTuple):
    """The handler requests a token and waits for the reply."""

    audience: str


class LoginRequest(NamedTuple):
    """The handler requests its database login and waits for the reply."""

    # The database rejected the current login.
    repair: bool


class FailureKind(StrEnum):
    """The kind of exception that a handler raised."""

    RETRY = "retry"
    FAIL = "fail"
    ERROR = "error"


class Failure(NamedTuple):
    """The exception of a handler as text."""

    kind: FailureKind
    text: str
    after: timedelta | None = None


class HandlerEnded(NamedTuple):
    """The handler has ended; without a failure it returned. The result is JSON."""

    failure: Failure | None
    result: str | None = None


Message: TypeAlias = LogLine | MintRequest | LoginRequest | HandlerEnded


class RemoteError(Described):
    """A handler failed in its process, or the process exited."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def failure_of(error: BaseException, headline: str | None = None) -> Failure:
    """Describe the exception of a handler."""
    text = described(error, headline)
    match error:
        case Retry():
            return Failure(FailureKind.RETRY, text, error.after)
        case Fail():
            return Failure(FailureKind.FAIL, text)
        case _:
            return Failure(FailureKind.ERROR, text)


def encode(message: Message) -> bytes:
    """Encode a message as a line."""
    line = _line(message)
    if len(line) > LONGEST_LINE and isinstance(message, LogLine):
        return _line(LogLine(message.level, message.event[:1024], {"cut": len(line)}))
    return line


def decode(line: bytes) -> Message:
    """Decode a line; raise a ValueError if it is not a message."""
    document = json.loads(line)
    match document:
        case {"log": str(event), "level": str(level), "fields": dict(fields)}:
            return LogLine(level, event, fields)
        case {"token": str(audience)}:
            return MintRequest(audience)
        case {"login": bool(repair)}:
            return LoginRequest(repair)
        case {"ended": None, "result": str() | None as result}:
            return HandlerEnded(None, result)
        case {"ended": str(text), "kind": str(kind), "after": int() | float() | None as after}:
            wait = None if after is None else timedelta(seconds=after)
            return HandlerEnded(Failure(FailureKind(kind), text, wait))
        case _:
            raise ValueError(f"not a message: {line[:80]!r}")


def _line(message: Message) -> bytes:
    # Types that JSON lacks (ids, times) become text.
    return json.dumps(_document(message), default=str).encode() + b"\n"


def _document(message: Message) -> dict[str, JsonValue]:
    match message:
        case LogLine():
            return {"log": message.event, "level": message.level, "fields": message.fields}
        case MintRequest():
            return {"token": message.audience}
        case LoginRequest():
            return {"login": message.repair}
        case HandlerEnded():
            return _ending(message)


def _ending(message: HandlerEnded) -> dict[str, JsonValue]:
    failure = message.failure
    if failure is None:
        return {"ended": None, "result": message.result}
    after = None if failure.after is None else failure.after.total_seconds()
    return {"ended": failure.text, "kind": failure.kind.value, "after": after}
