"""The manifest language, defined once: the JSON Schemas are generated from these models.

Nothing imports this module when a manifest is checked, for pydantic alone would double the start-up
of a pre-commit hook. `structure` judges documents by the generated schema instead, so the command
line and the editor judge by the same file (docs/decisions/0005).

A key that is absent and a key with null behind it are different things here, and typed dictionaries
say so. `default` is what holds when the key is absent.
"""

from collections.abc import Sized
from typing import Annotated, Any, Literal, Required, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, with_config
from typing_extensions import TypedDict

from tenantcron.core import durations, names, secret_refs, sizes
from tenantcron.core.auth import AUDIENCE_PATTERN, LONGEST_AUDIENCE
from tenantcron.manifests.language.timing import FORMS

T = TypeVar("T", bound=Sized)

_CLOSED = ConfigDict(extra="forbid")
_OPEN = ConfigDict(extra="allow")


def _says(description: str, *, default: JsonValue = None, **constraints: Any) -> Any:
    """Describe a key; `default` is documentation, for typed dictionaries have no defaults."""
    extra = dict(constraints.pop("extra", {}))
    if default is not None:
        extra["default"] = default
    return Field(description=description, json_schema_extra=extra, **constraints)


def _duration(description: str, default: str | None = None) -> Any:
    return _says(
        description,
        default=default,
        pattern=f"^{durations.PATTERN}$",
        min_length=2,
        extra={"x-expects": durations.EXPECTED},
    )


# pydantic says of a mapping what the entries with good names hold, but not that others are wrong.
_NO_OTHER_NAMES = {"additionalProperties": False}

Name = Annotated[
    str,
    Field(
        pattern=f"^{names.NAME_PATTERN}$",
        json_schema_extra={"x-code": "TC107", "x-expects": names.NAME_EXPECTED},
    ),
]
TenantName = Annotated[
    str,
    Field(
        pattern=f"^{names.TENANT_PATTERN}$",
        json_schema_extra={"x-code": "TC107", "x-expects": names.TENANT_EXPECTED},
    ),
]
TimeOfDay = Annotated[
    str,
    _says(
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
    _says(
        "Five fields: minute, hour, day of month, month, weekday. Names, ranges, steps, lists, "
        "L, W, # and @hourly … @yearly are understood.",
        examples=["0 2 * * *", "*/15 8-18 * * mon-fri", "0 0 L * *", "@daily"],
    ),
]
Zone = Annotated[
    str, _says("IANA time zone.", default="UTC", examples=["Europe/London", "America/New_York"])
]


@with_config(_CLOSED)
class Daily(TypedDict):
    """Once a day."""

    at: TimeOfDay


def _are_different(days: list[Weekday]) -> list[Weekday]:
    if len(set(days)) != len(days):
        raise ValueError("each day once")
    return days


@with_config(_CLOSED)
class Weekly(TypedDict):
    """On some weekdays, at one time."""

    on: Annotated[
        list[Weekday],
        AfterValidator(_are_different),
        Field(description="Which days.", min_length=1, json_schema_extra={"uniqueItems": True}),
    ]
    at: TimeOfDay


@with_config(_CLOSED)
class Monthly(TypedDict):
    """Once a month; months without that day are passed over, `last` is every month's last day."""

    day: Annotated[
        DayOfMonth,
        _says("A day from 1 to 31, or last.", extra={"x-expects": "a day from 1 to 31, or last"}),
    ]
    at: TimeOfDay


@with_config(_CLOSED)
class Retry(TypedDict, total=False):
    """What happens after a failed attempt."""

    max_attempts: Annotated[
        int, _says("Attempts in all, the first one included.", default=3, ge=1, le=20)
    ]
    backoff: Annotated[str, _duration("The first wait; it doubles with every attempt.", "1s")]
    max_backoff: Annotated[str, _duration("The longest wait.", "60s")]


@with_config(_CLOSED)
class Timing(TypedDict, total=False):
    """A timetable, and how its occurrences are treated."""

    cron: Cron
    every: Annotated[
        str,
        _duration("A fixed interval: stored as cron where cron says it exactly, else as @every."),
    ]
    daily: Daily
    weekly: Weekly
    monthly: Monthly
    once: Annotated[
        str,
        _says(
            "A single point in time, ISO 8601; without an offset it is in the time zone.",
            examples=["2026-12-01T09:00:00", "2026-12-01T09:00:00Z"],
        ),
    ]
    preset: Annotated[
        Name, _says("A timetable by name: of `schedules:`, else of the platform's presets.")
    ]
    timezone: Zone
    description: Annotated[str, _says("What this schedule is for.", max_length=1024)]
    enabled: Annotated[bool, _says("false keeps the schedule but never fires it.", default=True)]
    spread: Annotated[
        str,
        _duration("Starts are spread over this long, by a fixed offset per schedule.", "0s"),
    ]
    overlap: Annotated[
        Literal["skip", "queue", "allow", "cancel_running"],
        _says("What happens when the one before is still running.", default="skip"),
    ]
    catch_up: Annotated[
        Literal["once", "none", "all"],
        _says("What happens to occurrences missed while nothing ran.", default="once"),
    ]
    catch_up_window: Annotated[
        str, _duration("Missed occurrences older than this are never started.", "1h")
    ]
    start_within: Annotated[
        str, _duration("How long an execution may wait for a free slot before it is skipped.", "0s")
    ]
    timeout: Annotated[str, _duration("How long one attempt may take.", "5m")]
    retry: Retry
    auto_pause_after: Annotated[
        Annotated[int, Field(ge=0, le=0)] | Annotated[int, Field(ge=3, le=100)],
        _says(
            "Pause after so many failed executions in a row; 0 is never.",
            default=10,
            extra={"x-expects": "0 (never) or a number from 3 to 100"},
        ),
    ]
    priority: Annotated[
        Literal["critical", "high", "medium", "low"],
        _says("Who goes first among a tenant's waiting executions.", default="medium"),
    ]
    owner: Annotated[
        str,
        _says(
            "On whose behalf it runs; the platform may ask each time whether they still may.",
            pattern=f"^{names.OWNER_PATTERN}$",
            examples=["user:maria"],
            extra={
                "x-code": "TC116",
                "x-expects": names.OWNER_EXPECTED,
                "x-hint": "write it as user:maria",
            },
        ),
    ]
    payload: Annotated[
        dict[str, JsonValue],
        _says(
            "Given to the saga; {{fire_time}}, {{execution_id}}, {{tenant}} and {{schedule}} in "
            "strings are replaced.",
        ),
    ]


@with_config(_CLOSED)
class Scheduled(Timing, total=False):
    """A schedule in full."""

    name: Annotated[Name, _says("The schedule's identity. Default: the saga's name.")]


def _has_one_timetable(timing: Timing) -> Timing:
    if sum(key in timing for key in FORMS) != 1:
        raise ValueError(f"exactly one of {', '.join(FORMS)}")
    return timing


_ONE_TIMETABLE = {"oneOf": [{"required": [key]} for key in FORMS]}
OneTiming = Annotated[
    Timing, AfterValidator(_has_one_timetable), Field(json_schema_extra=_ONE_TIMETABLE)
]
OneScheduled = Annotated[
    Scheduled, AfterValidator(_has_one_timetable), Field(json_schema_extra=_ONE_TIMETABLE)
]


@with_config(ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1}))
class Trigger(TypedDict, total=False):
    """What starts a saga. Only `scheduled` is tenantcron's; the others are left alone."""

    scheduled: OneScheduled
    api: Annotated[JsonValue, _says("Another tool's; left alone.")]
    webhook: Annotated[JsonValue, _says("Another tool's; left alone.")]
    event: Annotated[JsonValue, _says("Another tool's; left alone.")]


def _is_not_empty(trigger: Trigger) -> Trigger:
    if not trigger:
        raise ValueError("at least one kind of trigger")
    return trigger


def _is_one(mapping: T) -> T:
    if len(mapping) != 1:
        raise ValueError("exactly one of its keys")
    return mapping


_ONE_KEY = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1, "maxProperties": 1})


@with_config(_ONE_KEY)
class Secret(TypedDict, total=False):
    """Where a secret is kept; the policy's allowed_secrets says which may be named."""

    env: Annotated[
        str,
        _says(
            "A variable of the scheduler's environment.",
            pattern=f"^{secret_refs.ENV_PATTERN}$",
            extra={"x-expects": secret_refs.ENV_EXPECTED},
        ),
    ]
    file: Annotated[
        str,
        _says(
            "A file on the scheduler's machine.",
            pattern=f"^{secret_refs.FILE_PATTERN}$",
            extra={"x-expects": secret_refs.FILE_EXPECTED},
        ),
    ]


@with_config(_CLOSED)
class TokenAuth(TypedDict, total=False):
    """A token that proves the execution, as a bearer token."""

    audience: Annotated[
        str,
        _says(
            "The service that the token is for. Default: the origin of the URL; the policy's "
            "allowed_audiences lists others.",
            max_length=LONGEST_AUDIENCE,
        ),
    ]


@with_config(_CLOSED)
class HmacAuth(TypedDict):
    """A signature over method, URL, time, idempotency key and body."""

    secret: Annotated[Secret, AfterValidator(_is_one)]


@with_config(_ONE_KEY)
class Auth(TypedDict, total=False):
    """How a request proves whom it is from."""

    execution_token: TokenAuth
    hmac: HmacAuth


@with_config(_CLOSED)
class HttpTarget(TypedDict, total=False):
    """An HTTP endpoint that does the work."""

    url: Required[
        Annotated[
            str,
            _says(
                "Where to; its host must be among the platform's allowed_hosts.",
                max_length=2048,
                examples=["https://billing.internal/run"],
            ),
        ]
    ]
    method: Annotated[Literal["POST", "PUT", "PATCH"], _says("How.", default="POST")]
    headers: Annotated[dict[str, str], _says("Headers to send along.")]
    auth: Annotated[
        Literal["none", "execution_token"] | Annotated[Auth, AfterValidator(_is_one)],
        _says("How the request proves whom it is from.", default="none"),
    ]


@with_config(_CLOSED)
class Target(TypedDict):
    """How a saga is run; without a target its name is looked up among the Python handlers."""

    http: HttpTarget


TriggerText = Annotated[
    str,
    _says(
        "In one line: `scheduled:<name>`, `scheduled:<name>:<cron>`, or a trigger of another kind.",
        examples=["scheduled:nightly", "scheduled:hourly_rollup:0 * * * *", "webhook:stripe"],
    ),
]


@with_config(_OPEN)
class Saga(TypedDict, total=False):
    """A named piece of work. Other keys, such as a script, are left alone."""

    name: Required[Annotated[Name, _says("Names the saga; its Python handler is found by it.")]]
    trigger: Required[
        Annotated[
            TriggerText | Annotated[Trigger, AfterValidator(_is_not_empty)],
            _says("What starts the saga, in one line or in full."),
        ]
    ]
    target: Target


@with_config(_OPEN)
class Manifest(TypedDict, total=False):
    """The recurring work of one tenant. Other tools' sections are left alone."""

    version: Annotated[
        Literal["1.0"] | Annotated[float, Field(ge=1, le=1)],
        _says("Version of the manifest language.", default="1.0", extra={"x-expects": '"1.0"'}),
    ]
    tenant: Annotated[
        TenantName, _says("Whose manifest this is. Default: --tenant, else the file's name.")
    ]
    metadata: Annotated[dict[str, JsonValue], _says("Anything worth noting; left alone.")]
    schedules: Annotated[
        dict[Name, Cron | OneTiming],
        _says(
            "Named timetables of this tenant, for `scheduled:<name>` and `preset:`.",
            extra=_NO_OTHER_NAMES,
        ),
    ]
    sagas: Required[Annotated[list[Saga], _says("The tenant's sagas; [] if there are none.")]]


AllowedHost = Annotated[
    str,
    Field(
        pattern=r"^(http://)?((\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\])$",
        json_schema_extra={
            "x-expects": "a host such as billing.internal, *.internal or http://localhost"
        },
    ),
]


AllowedNetwork = Annotated[
    str,
    Field(
        pattern="^[0-9A-Fa-f:.]+/[0-9]{1,3}$",
        json_schema_extra={"x-expects": "a network such as 10.0.0.0/8"},
    ),
]
AllowedSecret = Annotated[
    str,
    Field(
        pattern=f"^{secret_refs.ENTRY_PATTERN}$",
        json_schema_extra={"x-expects": secret_refs.ENTRY_EXPECTED},
    ),
]
AllowedAudience = Annotated[
    str,
    Field(
        pattern=f"^{AUDIENCE_PATTERN}$",
        max_length=LONGEST_AUDIENCE,
        json_schema_extra={"x-expects": "an audience such as https://billing.internal"},
    ),
]


ServiceRole = Annotated[
    str,
    Field(
        pattern="^[A-Za-z][A-Za-z0-9_.:-]{0,63}$",
        json_schema_extra={"x-expects": "a role such as service:billing"},
    ),
]


@with_config(_CLOSED)
class TenantAllowance(TypedDict, total=False):
    """What the platform allows one tenant besides what it allows all."""

    allowed_hosts: Annotated[
        list[AllowedHost], _says("Hosts that HTTP targets of this tenant may call, too.")
    ]


@with_config(_CLOSED)
class Policy(TypedDict, total=False):
    """The `[policy]` table of tenantcron.toml: what the platform allows its tenants."""

    minimum_interval: Annotated[
        str, _duration("The shortest gap between two occurrences of one schedule.", "15m")
    ]
    max_schedules_per_tenant: Annotated[
        int, _says("How many schedules a tenant may have.", default=20, ge=0, le=100_000)
    ]
    max_size_per_tenant: Annotated[
        str,
        _says(
            "How large payloads, descriptions and targets of a tenant's schedules may be in all, "
            "from 1KiB to 16MiB.",
            default="4MiB",
            pattern=f"^{sizes.PATTERN}$",
            extra={"x-expects": "a size such as 512KiB or 4MiB"},
        ),
    ]
    max_timeout: Annotated[
        str, _duration("The longest `timeout` of a schedule, from 1s to 1d.", "1h")
    ]
    presets: Annotated[
        dict[Name, Cron | OneTiming],
        _says("Timetables that every tenant may use by name.", extra=_NO_OTHER_NAMES),
    ]
    allowed_hosts: Annotated[
        list[AllowedHost], _says("Hosts that HTTP targets may call; none by default.")
    ]
    allowed_networks: Annotated[
        list[AllowedNetwork],
        _says("Networks that hosts may be in; public addresses need no entry."),
    ]
    allowed_ports: Annotated[
        list[Annotated[int, Field(ge=1, le=65_535)]],
        _says("Ports that may be called. Default: 443, and 80 for http:// entries."),
    ]
    allowed_secrets: Annotated[
        list[AllowedSecret],
        _says("Secrets that manifests may sign with, by reference; none by default."),
    ]
    allowed_audiences: Annotated[
        list[AllowedAudience],
        _says("Audiences of tokens for HTTP targets, besides the origin of their URL."),
    ]
    idempotency_retention: Annotated[
        str, _duration("How long targets remember an idempotency key.", "24h")
    ]
    default_target: Annotated[
        Target, _says("What runs a saga that has neither a target nor a handler.")
    ]
    roles: Annotated[
        dict[Name, list[ServiceRole]],
        _says(
            "Roles in the tokens of executions, by the service that runs them.",
            extra=_NO_OTHER_NAMES,
        ),
    ]
    tenants: Annotated[
        dict[TenantName, TenantAllowance],
        _says("What single tenants may do besides, by their id.", extra=_NO_OTHER_NAMES),
    ]
