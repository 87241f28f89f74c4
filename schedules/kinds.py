"""The kinds of values that the settings of a schedule take.

Manifests, static schedules and stored definitions write a value the same way, as JSON. A kind reads
it, writes it back in its canonical form, and has the limits for new values. Definitions that are
stored already may be beyond the limits, as long as the scheduler can use them.
"""

import json
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from tenantcron.core.durations import EXPECTED, DurationError, format_duration, parse_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import OWNER_EXPECTED, OWNER_PATTERN, Owner, is_owner
from tenantcron.core.values import JsonObject, JsonValue, has_nul

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class WrongValueError(TenantcronError):
    """The value is not of its setting's kind; `expected` says what is."""

    def __init__(self, expected: str) -> None:
        super().__init__(f"must be {expected}")
        self.expected = expected


class SettingKind(Generic[T]):
    """How the values of a setting are read, written and limited."""

    __slots__ = ("description",)
    expected: str = "text"
    # Of text; the structure of a manifest is checked against it.
    pattern: str | None = None
    examples: tuple[str, ...] = ()

    def __init__(self, description: str) -> None:
        self.description = description

    def read(self, value: JsonValue) -> T:
        """Read a value; raise a WrongValueError if it is of another kind."""
        raise NotImplementedError

    def write(self, value: T) -> JsonValue:
        """Return the canonical form of a value."""
        raise NotImplementedError

    def refusal(self, value: T) -> str | None:  # noqa: ARG002 -- most kinds have no limits
        """Return what a value must be if it is beyond the limits for new ones."""
        return None

    def is_usable(self, value: T) -> bool:  # noqa: ARG002 -- see above
        """Whether the scheduler can use a stored value."""
        return True


class Text(SettingKind[str]):
    """Free text."""

    __slots__ = ("longest",)

    def __init__(self, description: str, longest: int) -> None:
        super().__init__(description)
        self.longest = longest

    def read(self, value: JsonValue) -> str:
        """Read text."""
        if not isinstance(value, str):
            raise WrongValueError(self.expected)
        return value

    def write(self, value: str) -> str:
        """Return it unchanged."""
        return value

    def refusal(self, value: str) -> str | None:
        """Limit its length; Postgres refuses NUL."""
        if len(value) <= self.longest and "\0" not in value:
            return None
        return f"at most {self.longest} characters long, without NUL"


class Flag(SettingKind[bool]):
    """True or false."""

    __slots__ = ()
    expected = "true or false"

    def read(self, value: JsonValue) -> bool:
        """Read a flag."""
        if not isinstance(value, bool):
            raise WrongValueError(self.expected)
        return value

    def write(self, value: bool) -> bool:
        """Return it unchanged."""
        return value


class Duration(SettingKind[timedelta]):
    """A duration within limits."""

    __slots__ = ("high", "low")
    expected = EXPECTED

    def __init__(self, description: str, low: timedelta, high: timedelta) -> None:
        super().__init__(description)
        self.low = low
        self.high = high

    def read(self, value: JsonValue) -> timedelta:
        """Read a duration such as 1h30m."""
        try:
            return parse_duration(value if isinstance(value, str) else "")
        except DurationError:
            raise WrongValueError(self.expected) from None

    def write(self, value: timedelta) -> str:
        """Return the shortest form: 1h30m, never 90m."""
        return format_duration(value)

    def refusal(self, value: timedelta) -> str | None:
        """Apply both limits."""
        if self.low <= value <= self.high:
            return None
        return f"from {format_duration(self.low)} to {format_duration(self.high)}"

    def is_usable(self, value: timedelta) -> bool:
        """Whether it is not too short."""
        return value >= self.low


class Choice(SettingKind[E]):
    """One of a few words."""

    __slots__ = ("expected", "words")

    def __init__(self, description: str, words: type[E]) -> None:
        super().__init__(description)
        self.words = tuple(words)
        self.expected = f"one of {', '.join(words)}"

    def read(self, value: JsonValue) -> E:
        """Read a word."""
        for word in self.words:
            if word.value == value:
                return word
        raise WrongValueError(self.expected)

    def write(self, value: E) -> str:
        """Return the word."""
        return value.value


class Count(SettingKind[int]):
    """A whole number within limits; with `or_never`, 0 is allowed as well."""

    __slots__ = ("allowed", "expected", "or_never")

    def __init__(self, description: str, allowed: range, *, or_never: bool = False) -> None:
        super().__init__(description)
        self.allowed = allowed
        self.or_never = or_never
        limits = f"a number from {allowed[0]} to {allowed[-1]}"
        self.expected = f"0 (never) or {limits}" if or_never else limits

    def read(self, value: JsonValue) -> int:
        """Read a whole number; 3.0 is one, and true is none."""
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise WrongValueError(self.expected)
        return value

    def write(self, value: int) -> int:
        """Return it unchanged."""
        return value

    def refusal(self, value: int) -> str | None:
        """Apply both limits."""
        return None if value in self.allowed or (self.or_never and not value) else self.expected

    def is_usable(self, value: int) -> bool:
        """Whether it is not too small."""
        return value >= (0 if self.or_never else self.allowed[0])


class OwnerId(SettingKind[Owner | None]):
    """A user on whose behalf a schedule runs, or none."""

    __slots__ = ()
    expected = OWNER_EXPECTED
    pattern = OWNER_PATTERN
    examples = ("user:maria",)

    def read(self, value: JsonValue) -> Owner | None:
        """Read an owner. Anything else must not pass as none: the authoriser would be skipped."""
        if value is None:
            return None
        if not isinstance(value, str) or not is_owner(value):
            raise WrongValueError(self.expected)
        return Owner(value)

    def write(self, value: Owner | None) -> str | None:
        """Return it unchanged."""
        return value


class Payload(SettingKind[JsonObject]):
    """A JSON object for the saga."""

    __slots__ = ("longest",)
    expected = "an object"

    def __init__(self, description: str, longest: int) -> None:
        super().__init__(description)
        self.longest = longest

    def read(self, value: JsonValue) -> JsonObject:
        """Read an object."""
        if not isinstance(value, dict):
            raise WrongValueError(self.expected)
        return value

    def write(self, value: JsonObject) -> JsonObject:
        """Return it with every number in the form that `jsonb` returns."""
        return {key: _as_jsonb(item) for key, item in value.items()}

    def refusal(self, value: JsonObject) -> str | None:
        """Limit its size. TOML has values that JSON has not, and Postgres refuses NUL."""
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            return "plain JSON"
        if len(text) <= self.longest and not ("\\u0000" in text and has_nul(value)):
            return None
        return f"at most {self.longest:,} bytes of JSON, without NUL"


def _as_jsonb(value: JsonValue) -> JsonValue:
    """Write numbers in full: `jsonb` has no exponents and no negative zero."""
    if isinstance(value, dict):
        return {key: _as_jsonb(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_jsonb(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value) if "e" in repr(value) else value + 0.0
    return value


def kinds_of(group: type) -> dict[str, SettingKind[object]]:
    """Return the kind of each field of a group of settings, from its annotations."""
    return {key: hint.__metadata__[0] for key, hint in group.__annotations__.items()}
