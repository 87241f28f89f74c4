"""The manifest language, defined once: the JSON Schemas are generated from these models.

Checking a manifest does not import this module, because pydantic alone would double the start-up
time of a pre-commit hook. `structure` checks documents against the generated schema instead, so the
command line and editors find the same mistakes (docs/decisions/0005).

A missing key and a key with null are different, so the models are typed dictionaries. `default` is
the value of a missing key. The names in the schema have no `Spec` at the end.
"""

from typing import Annotated, Any, Literal, Required

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict

from tenantcron.core import celery_targets, temporal_targets
from tenantcron.core.grpc_targets import SERVICE, SERVICE_PATTERN
from tenantcron.manifests.language.auth_models import AUTH_HINT, OneAuth, TokenAuthSpec
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
        Annotated[Literal["none", "execution_token"], Field(json_schema_extra=AUTH_HINT)] | OneAuth,
        described("How requests are authenticated.", default="none"),
    ]
    completion: Annotated[
        Literal["response", "callback"],
        described(
            "What ends an attempt: the response, or a callback of the worker after a 202.",
            default="response",
        ),
    ]
    heartbeat: Annotated[
        str,
        duration("The longest time between two heartbeats of a worker, from 5s to 1h.", "1m"),
    ]


@with_config(CLOSED)
class TokenOnlyAuthSpec(TypedDict):
    """The authentication of kinds that have execution tokens only."""

    execution_token: TokenAuthSpec


@with_config(CLOSED)
class GrpcTargetSpec(TypedDict, total=False):
    """A gRPC service that runs the saga."""

    address: Required[
        Annotated[
            str,
            described(
                "The host of the service, with a port if it is not 443; the host must be in the "
                "platform's allowed_hosts.",
                max_length=300,
                examples=["billing.internal", "billing.internal:8443"],
            ),
        ]
    ]
    service: Annotated[
        str,
        described(
            "The full name of the service, whose method Run has the messages of the default one.",
            default=SERVICE,
            max_length=255,
            pattern=f"^{SERVICE_PATTERN}$",
            extra={"x-expects": "the full name of a gRPC service such as acme.v1.Billing"},
        ),
    ]
    plaintext: Annotated[
        bool,
        described(
            "Call it without TLS, at port 80 by default; needs an http:// entry in allowed_hosts.",
            default=False,
        ),
    ]
    auth: Annotated[
        Literal["none", "execution_token"] | TokenOnlyAuthSpec,
        described("How calls are authenticated.", default="none"),
    ]


@with_config(CLOSED)
class CeleryTargetSpec(TypedDict, total=False):
    """A task of a Celery app; its worker reports the end of each attempt."""

    task: Required[
        Annotated[
            str,
            described(
                "The name of the task; the platform's allowed_celery_tasks must list it.",
                max_length=celery_targets.LONGEST_TASK,
                pattern=f"^{celery_targets.TASK_PATTERN}$",
                examples=["billing.invoice"],
                extra={"x-expects": celery_targets.TASK_EXPECTED},
            ),
        ]
    ]
    queue: Required[
        Annotated[
            str,
            described(
                "The queue to send it to, which must exist.",
                max_length=celery_targets.LONGEST_QUEUE,
                pattern=f"^{celery_targets.QUEUE_PATTERN}$",
                examples=["billing"],
                extra={"x-expects": celery_targets.QUEUE_EXPECTED},
            ),
        ]
    ]
    heartbeat: Annotated[
        str,
        duration(
            "The longest time between two heartbeats of a worker, from 5s to 1h.",
            celery_targets.DEFAULT_HEARTBEAT,
        ),
    ]
    queue_wait: Annotated[
        str,
        duration(
            "The longest time that an attempt may wait for a worker, from 5s to 1d.",
            celery_targets.DEFAULT_QUEUE_WAIT,
        ),
    ]


@with_config(CLOSED)
class TemporalTargetSpec(TypedDict, total=False):
    """A workflow of Temporal; an attempt waits for its end."""

    workflow: Required[
        Annotated[
            str,
            described(
                "The type of the workflow; the platform's allowed_temporal_workflows must list it.",
                max_length=temporal_targets.LONGEST_NAME,
                pattern=f"^{temporal_targets.WORKFLOW_PATTERN}$",
                examples=["GenerateInvoice"],
                extra={"x-expects": temporal_targets.WORKFLOW_EXPECTED},
            ),
        ]
    ]
    task_queue: Required[
        Annotated[
            str,
            described(
                "The task queue that its workers poll.",
                max_length=temporal_targets.LONGEST_NAME,
                pattern=f"^{temporal_targets.QUEUE_PATTERN}$",
                examples=["billing"],
                extra={"x-expects": temporal_targets.QUEUE_EXPECTED},
            ),
        ]
    ]
    namespace: Annotated[
        str,
        described(
            "The namespace of the workflow.",
            default=temporal_targets.DEFAULT_NAMESPACE,
            max_length=temporal_targets.LONGEST_NAME,
            pattern=f"^{temporal_targets.NAMESPACE_PATTERN}$",
            extra={"x-expects": temporal_targets.NAMESPACE_EXPECTED},
        ),
    ]
    auth: Annotated[
        Literal["none", "execution_token"] | TokenOnlyAuthSpec,
        described("Whether the input has an execution token.", default="none"),
    ]


@with_config(
    ConfigDict(
        extra="allow",
        json_schema_extra={
            "minProperties": 1,
            "maxProperties": 1,
            # Other kinds, which the policy's target_kinds lists; their plug-ins have the schemas.
            "additionalProperties": {"type": "object"},
        },
    )
)
class TargetSpec(TypedDict, total=False):
    """How a saga runs; without a target, the Python handler of its name runs it."""

    http: HttpTargetSpec
    grpc: GrpcTargetSpec
    celery: CeleryTargetSpec
    temporal: TemporalTargetSpec


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
