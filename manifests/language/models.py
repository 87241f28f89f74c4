"""The manifest language, defined once: the JSON Schemas are generated from these models.

Checking a manifest does not import this module, because pydantic alone would double the start-up
time of a pre-commit hook. `structure` checks documents against the generated schema instead, so the
command line and editors find the same mistakes (docs/decisions/0005).

A missing key and a key with null are different, so the models are typed dictionaries. `default` is
the value of a missing key. The names in the schema have no `Spec` at the end.
"""

from collections.abc import Sized
from typing import Annotated, Any, Literal, Required, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict

from tenantcron.core import secret_refs
from tenantcron.core.auth import LONGEST_AUDIENCE
from tenantcron.manifests.language.model_fields import (
    CLOSED,
    NO_OTHER_NAMES,
    Name,
    TenantName,
    described,
    duration,
)
from tenantcron.manifests.language.setting_models import SettingsSpec
from tenantcron.manifests.language.timing import FORMS

T = TypeVar("T", bound=Sized)

_OPEN = ConfigDict(extra="allow")

TimeOfDay = Annotated[
    str,
    described(
        "A local time of day.",
        pattern="^([01]?[0-9]|2[0-3]):[0-5][0-9]$",
        examples=["02:00", "14:30"],
        extra={"x-expects": "a time of day such as 02:00"},
    ),
]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DayOfMonth = Annotated[int, Field(ge=1, le=31)] | Literal["last"]
Cron = Annotated[
    str,
    described(
        "Five fields: minute, hour, day of month, month, weekday. Names, ranges, steps, lists, "
        "L, W, # and @hourly … @yearly are supported.",
        examples=["0 2 * * *", "*/15 8-18 * * mon-fri", "0 0 L * *", "@daily"],
    ),
]
Zone = Annotated[
    str, described("IANA time zone.", default="UTC", examples=["Europe/London", "America/New_York"])
]


@with_config(CLOSED)
class DailySpec(TypedDict):
    """Once a day."""

    at: TimeOfDay


def _are_different(days: list[Weekday]) -> list[Weekday]:
    if len(set(days)) != len(days):
        raise ValueError("each day once")
    return days


@with_config(CLOSED)
class WeeklySpec(TypedDict):
    """At one time on some weekdays."""

    on: Annotated[
        list[Weekday],
        AfterValidator(_are_different),
        Field(description="The weekdays.", min_length=1, json_schema_extra={"uniqueItems": True}),
    ]
    at: TimeOfDay


@with_config(CLOSED)
class MonthlySpec(TypedDict):
    """Once a month. Months without the day are skipped; `last` is the last day of each month."""

    day: Annotated[
        DayOfMonth,
        described(
            "A day from 1 to 31, or last.", extra={"x-expects": "a day from 1 to 31, or last"}
        ),
    ]
    at: TimeOfDay


class TimetableSpec(TypedDict, total=False):
    """When a schedule fires."""

    cron: Cron
    every: Annotated[
        str,
        duration(
            "A fixed interval, stored as cron if it is exactly equivalent, otherwise as @every."
        ),
    ]
    daily: DailySpec
    weekly: WeeklySpec
    monthly: MonthlySpec
    once: Annotated[
        str,
        described(
            "A single point in time in ISO 8601; without an offset, in the schedule's time zone.",
            examples=["2026-12-01T09:00:00", "2026-12-01T09:00:00Z"],
        ),
    ]
    preset: Annotated[
        Name, described("The name of an entry of `schedules:` or of a preset of the platform.")
    ]
    timezone: Zone


@with_config(CLOSED)
class TimingSpec(TimetableSpec, SettingsSpec, total=False):
    """A timetable, and how its occurrences are treated."""


@with_config(CLOSED)
class ScheduledSpec(TimingSpec, total=False):
    """The full form of a schedule."""

    name: Annotated[Name, described("Identifies the schedule. Default: the saga's name.")]


def _has_one_timetable(timing: TimingSpec) -> TimingSpec:
    if sum(key in timing for key in FORMS) != 1:
        raise ValueError(f"exactly one of {', '.join(FORMS)}")
    return timing


# Editors have no readable message for `oneOf`, but show an `errorMessage` for a missing key and for
# a key that is not allowed.
_NO_TIMETABLE = {
    "if": {"properties": dict.fromkeys(FORMS, False)},
    "then": {
        "required": [FORMS[0]],
        "errorMessage": f"add a timetable: one of {', '.join(FORMS)}",
    },
}
_TWO_TIMETABLES = [
    {
        "if": {"required": [key]},
        "then": {
            "properties": dict.fromkeys(FORMS[position:], False),
            "errorMessage": f"`{key}` is a timetable, too: keep one of the two",
        },
    }
    for position, key in enumerate(FORMS[:-1], start=1)
]
_ONE_TIMETABLE: Any = {
    "x-one-of": list(FORMS),
    "allOf": [_NO_TIMETABLE, *_TWO_TIMETABLES],
}
OneTiming = Annotated[
    TimingSpec, AfterValidator(_has_one_timetable), Field(json_schema_extra=_ONE_TIMETABLE)
]
OneScheduled = Annotated[
    ScheduledSpec, AfterValidator(_has_one_timetable), Field(json_schema_extra=_ONE_TIMETABLE)
]


@with_config(ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1}))
class TriggerSpec(TypedDict, total=False):
    """What starts a saga. tenantcron handles only `scheduled` and ignores the others."""

    scheduled: OneScheduled
    api: Annotated[JsonValue, described("For another tool; ignored.")]
    webhook: Annotated[JsonValue, described("For another tool; ignored.")]
    event: Annotated[JsonValue, described("For another tool; ignored.")]


def _is_not_empty(trigger: TriggerSpec) -> TriggerSpec:
    if not trigger:
        raise ValueError("at least one kind of trigger")
    return trigger


def _is_one(mapping: T) -> T:
    if len(mapping) != 1:
        raise ValueError("exactly one of its keys")
    return mapping


_ONE_KEY = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1, "maxProperties": 1})


@with_config(_ONE_KEY)
class SecretSpec(TypedDict, total=False):
    """A reference to a secret, which the policy's allowed_secrets must list."""

    env: Annotated[
        str,
        described(
            "An environment variable of the scheduler.",
            pattern=f"^{secret_refs.ENV_PATTERN}$",
            extra={"x-expects": secret_refs.ENV_EXPECTED},
        ),
    ]
    file: Annotated[
        str,
        described(
            "A file on the scheduler's machine.",
            pattern=f"^{secret_refs.FILE_PATTERN}$",
            extra={"x-expects": secret_refs.FILE_EXPECTED},
        ),
    ]


@with_config(CLOSED)
class TokenAuthSpec(TypedDict, total=False):
    """A token that proves the execution, as a bearer token."""

    audience: Annotated[
        str,
        described(
            "The service that the token is for. Default: the origin of the URL; the policy's "
            "allowed_audiences lists others.",
            max_length=LONGEST_AUDIENCE,
        ),
    ]


@with_config(CLOSED)
class HmacAuthSpec(TypedDict):
    """A signature over method, URL, time, idempotency key and body."""

    secret: Annotated[SecretSpec, AfterValidator(_is_one)]


@with_config(_ONE_KEY)
class AuthSpec(TypedDict, total=False):
    """How a request is authenticated."""

    execution_token: TokenAuthSpec
    hmac: HmacAuthSpec


_AUTH_HINT = {
    "x-hint": "write `auth: execution_token` for a bearer token, or `auth: {hmac: {secret: {env: "
    "NAME}}}` for a signature"
}


@with_config(CLOSED)
class HttpTargetSpec(TypedDict, total=False):
    """An HTTP endpoint that runs the saga."""

    url: Required[
        Annotated[
            str,
            described(
                "The URL to call; its host must be in the platform's allowed_hosts.",
                max_length=2048,
                examples=["https://billing.internal/run"],
            ),
        ]
    ]
    method: Annotated[
        Literal["POST", "PUT", "PATCH"], described("The HTTP method.", default="POST")
    ]
    headers: Annotated[dict[str, str], described("Additional request headers.")]
    auth: Annotated[
        Annotated[Literal["none", "execution_token"], Field(json_schema_extra=_AUTH_HINT)]
        | Annotated[AuthSpec, AfterValidator(_is_one)],
        described("How requests are authenticated.", default="none"),
    ]


@with_config(CLOSED)
class TargetSpec(TypedDict):
    """How a saga runs; without a target, the Python handler of its name runs it."""

    http: HttpTargetSpec


TriggerText = Annotated[
    str,
    described(
        "Short form: `scheduled:<name>`, `scheduled:<name>:<cron>`, or a trigger of another kind.",
        examples=["scheduled:nightly", "scheduled:hourly_rollup:0 * * * *", "webhook:stripe"],
    ),
]


@with_config(_OPEN)
class SagaSpec(TypedDict, total=False):
    """A named piece of work. Other keys, such as a script, are ignored."""

    name: Required[Annotated[Name, described("The name of the saga and of its Python handler.")]]
    trigger: Required[
        Annotated[
            TriggerText | Annotated[TriggerSpec, AfterValidator(_is_not_empty)],
            described("What starts the saga, in short or full form."),
        ]
    ]
    target: TargetSpec


@with_config(_OPEN)
class ManifestSpec(TypedDict, total=False):
    """The recurring work of one tenant. Sections of other tools are ignored."""

    version: Annotated[
        Literal["1.0"] | Annotated[float, Field(ge=1, le=1)],
        described("Version of the manifest language.", default="1.0", extra={"x-expects": '"1.0"'}),
    ]
    tenant: Annotated[
        TenantName,
        described("The tenant of the manifest. Default: --tenant, else the file's name."),
    ]
    metadata: Annotated[dict[str, JsonValue], described("Free-form notes; ignored.")]
    schedules: Annotated[
        dict[Name, Cron | OneTiming],
        described(
            "Named timetables of this tenant, for `scheduled:<name>` and `preset:`.",
            extra=NO_OTHER_NAMES,
        ),
    ]
    sagas: Required[
        Annotated[list[SagaSpec], described("The tenant's sagas; [] if there are none.")]
    ]
