"""The settings of a schedule: type, default, limits, description and stored form of each.

Manifests, their JSON Schema, static schedules, the definitions in the database and the pages of the
docs are derived from the fields below. A field is a setting: its annotation has the kind with the
description and the limits, its default holds where a manifest has no such key.

A definition in the database is content-addressed, so an unchanged schedule must keep its stored
form: a setting that is added later is stored only where it differs from its default.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import Owner
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import shortened
from tenantcron.schedules.kinds import (
    Choice,
    Count,
    Duration,
    Flag,
    OwnerId,
    Payload,
    SettingKind,
    Text,
    WrongValueError,
    kinds_of,
)
from tenantcron.schedules.timetable import local_time, with_bounds

_NONE = timedelta(0)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)

# Bytes of JSON.
LONGEST_PAYLOAD: Final = 256 * 1024
MOST_ATTEMPTS: Final = 20
TIMEOUT: Final = Duration("The maximum duration of an attempt.", _SECOND, _DAY)


class Overlap(StrEnum):
    """What happens when the previous execution is still running."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"
    CANCEL_RUNNING = "cancel_running"


class CatchUp(StrEnum):
    """What happens to occurrences that were missed while no scheduler ran."""

    ONCE = "once"
    NONE = "none"
    ALL = "all"


class Priority(StrEnum):
    """The order of a tenant's pending executions."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class RetryPolicy(NamedTuple):
    """What happens after a failed attempt."""

    max_attempts: Annotated[
        int,
        Count("The maximum number of attempts, including the first.", range(1, MOST_ATTEMPTS + 1)),
    ] = 3
    backoff: Annotated[
        timedelta,
        Duration("The delay before the second attempt; it doubles with each attempt.", _NONE, _DAY),
    ] = _SECOND
    max_backoff: Annotated[
        timedelta, Duration("The longest delay between attempts.", _NONE, _DAY)
    ] = 60 * _SECOND

    def longest(self, timeout: timedelta) -> timedelta:
        """Return the longest time from the start of the first attempt to the end of the last."""
        longest, wait = self.max_attempts * timeout, self.backoff
        for _ in range(self.max_attempts - 1):
            longest += min(self.max_backoff, wait)
            wait = min(self.max_backoff, wait * 2)
        return longest


class RetryGroup(SettingKind[RetryPolicy]):
    """The settings of retries, which a manifest writes as a mapping."""

    __slots__ = ()
    expected = "an object with max_attempts, backoff and max_backoff"

    def read(self, value: JsonValue) -> RetryPolicy:
        """Read a mapping with all keys."""
        if not isinstance(value, dict):
            raise WrongValueError(self.expected)
        retry = RetryPolicy._make(_stored_value(kind, key, value) for key, kind in RETRY.items())
        # An edited row must not retry for ever.
        return retry._replace(max_attempts=min(retry.max_attempts, MOST_ATTEMPTS))

    def write(self, value: RetryPolicy) -> JsonObject:
        """Return a mapping with all keys."""
        return {key: kind.write(getattr(value, key)) for key, kind in RETRY.items()}


class Bound(SettingKind[str | None]):
    """A local date or date and time, in the form that is stored with the timetable."""

    __slots__ = ()
    expected = "a date such as 2026-12-01, or a local time such as 2026-12-01T09:00"
    pattern = "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?"
    examples = ("2026-12-01", "2026-12-01T09:00")

    def read(self, value: JsonValue) -> str | None:
        """Read a local time without an offset."""
        if value is None:
            return None
        if not isinstance(value, str) or re.fullmatch(self.pattern, value) is None:
            raise WrongValueError(self.expected)
        try:
            return local_time(value)
        except ValueError:
            raise WrongValueError(self.expected) from None

    def write(self, value: str | None) -> str | None:
        """Return it unchanged."""
        return value


class ScheduleSettings(NamedTuple):
    """How the occurrences of a timetable are treated."""

    description: Annotated[str, Text("The purpose of the schedule.", longest=1024)] = ""
    enabled: Annotated[bool, Flag("With false, the schedule is kept but never fires.")] = True
    starts: Annotated[
        str | None, Bound("The local time of the first possible occurrence; a date means midnight.")
    ] = None
    ends: Annotated[
        str | None, Bound("The local time from which nothing fires; a date means midnight.")
    ] = None
    spread: Annotated[
        timedelta,
        Duration(
            "Delays starts by a fixed offset per schedule of up to this duration.", _NONE, _DAY
        ),
    ] = _NONE
    overlap: Annotated[
        Overlap, Choice("What happens when the previous execution is still running.", Overlap)
    ] = Overlap.SKIP
    catch_up: Annotated[
        CatchUp,
        Choice("What happens to occurrences that were missed while no scheduler ran.", CatchUp),
    ] = CatchUp.ONCE
    catch_up_window: Annotated[
        timedelta,
        Duration("Missed occurrences that are older than this do not start.", _NONE, 31 * _DAY),
    ] = timedelta(hours=1)
    start_within: Annotated[
        timedelta,
        Duration("How long an execution waits for a free slot before it is skipped.", _NONE, _DAY),
    ] = _NONE
    timeout: Annotated[timedelta, TIMEOUT] = timedelta(minutes=5)
    retry: Annotated[RetryPolicy, RetryGroup("What happens after a failed attempt.")] = (
        RetryPolicy()
    )
    auto_pause_after: Annotated[
        int,
        Count(
            "The number of consecutive dead executions that pauses the schedule; 0: never.",
            range(3, 101),
            or_never=True,
        ),
    ] = 10
    priority: Annotated[
        Priority,
        Choice(
            "The share of a tenant's starts while slots are scarce: 4, 3, 2 or 1 in 10.", Priority
        ),
    ] = Priority.MEDIUM
    # None: the schedule runs on behalf of no user.
    owner: Annotated[
        Owner | None,
        OwnerId("The user on whose behalf it runs; the platform may check before each attempt."),
    ] = None
    payload: Annotated[
        JsonObject,
        Payload(
            "The input of the saga; {{fire_time}}, {{execution_id}}, {{tenant}} and {{schedule}} "
            "in strings are replaced.",
            longest=LONGEST_PAYLOAD,
        ),
    ] = {}  # noqa: RUF012 -- never changed


RETRY: Final = kinds_of(RetryPolicy)
SETTINGS: Final = kinds_of(ScheduleSettings)
DEFAULTS: Final = ScheduleSettings()

# Stored in separate columns, beside the definition.
_COLUMNS: Final = frozenset({"enabled", "starts", "ends"})
# Every stored definition has these keys. The list stays as it is: see above.
_ALWAYS_STORED: Final = frozenset(
    {
        "description",
        "spread",
        "overlap",
        "catch_up",
        "catch_up_window",
        "start_within",
        "timeout",
        "retry",
        "auto_pause_after",
        "priority",
        "owner",
        "payload",
    }
)


class Conflict(NamedTuple):
    """Settings that contradict each other: their keys, and the reason."""

    keys: tuple[str, ...]
    message: str


def conflicts(settings: ScheduleSettings) -> Iterator[Conflict]:
    """Yield the settings that contradict each other."""
    if settings.retry.backoff > settings.retry.max_backoff:
        yield Conflict(("retry",), "`backoff` is longer than `max_backoff`")
    # Their canonical form sorts chronologically.
    if settings.starts and settings.ends and settings.ends <= settings.starts:
        yield Conflict(("ends", "starts"), "`ends` is not after `starts`")


class StoredColumns(NamedTuple):
    """The columns that hold the timetable and the settings that are not in the definition."""

    cron_expr: str
    enabled: bool


def write_columns(expression: str, settings: ScheduleSettings) -> StoredColumns:
    """Return the columns for a timetable with these settings."""
    return StoredColumns(with_bounds(expression, settings.starts, settings.ends), settings.enabled)


def fill_in(base: ScheduleSettings, given: Mapping[str, object]) -> ScheduleSettings:
    """Return the settings that are given, and for the others those of the base."""
    return ScheduleSettings._make(given.get(key, getattr(base, key)) for key in SETTINGS)


def fill_in_retry(base: RetryPolicy, given: Mapping[str, object]) -> RetryPolicy:
    """Do the same for retries; a longer first wait extends a longest wait that is not given."""
    retry = RetryPolicy._make(given.get(key, getattr(base, key)) for key in RETRY)
    if "max_backoff" in given:
        return retry
    return retry._replace(max_backoff=max(retry.max_backoff, retry.backoff))


class DefinitionError(TenantcronError):
    """The definition of a schedule cannot be read."""


def write_settings(settings: ScheduleSettings) -> JsonObject:
    """Return the settings as a definition stores them."""
    values = settings._asdict()
    return {
        key: kind.write(values[key])
        for key, kind in SETTINGS.items()
        if key in _ALWAYS_STORED or (key not in _COLUMNS and values[key] != getattr(DEFAULTS, key))
    }


def with_defaults(definition: JsonObject) -> JsonObject:
    """Return a stored definition with the defaults of settings that it does not contain."""
    defaults = {
        key: kind.write(getattr(DEFAULTS, key))
        for key, kind in SETTINGS.items()
        if key not in _COLUMNS
    }
    return defaults | definition


def read_settings(definition: JsonObject) -> ScheduleSettings:
    """Read the settings of a stored definition, which may have been edited manually.

    What is stored in columns has its default: callers read it from there.
    """
    return ScheduleSettings._make(
        _stored_value(kind, key, definition)
        if key in _ALWAYS_STORED or (key not in _COLUMNS and key in definition)
        else getattr(DEFAULTS, key)
        for key, kind in SETTINGS.items()
    )


def _stored_value(kind: SettingKind[object], key: str, stored: JsonObject) -> object:
    if key not in stored:
        raise DefinitionError(
            f"the definition of the schedule has no {key}: apply its manifest again"
        )
    try:
        value = kind.read(stored[key])
    except WrongValueError as error:
        raise unreadable(key, stored[key], error.expected) from error
    if not kind.is_usable(value):
        raise unreadable(key, stored[key], str(kind.refusal(value)))
    return value


def unreadable(key: str, value: JsonValue, expected: str) -> DefinitionError:
    """Return the error for a key of a definition, which only a manual change brings about."""
    return DefinitionError(
        f"the definition of the schedule has {key} {shortened(repr(value))}, not {expected}: "
        "apply its manifest again"
    )
