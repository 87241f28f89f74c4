"""The model of the `[policy]` table, from which its JSON Schema is generated."""

from typing import Annotated, Any

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tenantcron.core import celery_targets, rates, secret_refs, sizes, temporal_targets
from tenantcron.core.auth import AUDIENCE_PATTERN, LONGEST_AUDIENCE
from tenantcron.core.quotas import QUOTAS
from tenantcron.core.tenant_limits import DEFAULT_WEIGHT, HIGHEST_WEIGHT
from tenantcron.manifests.language.model_fields import (
    CLOSED,
    NO_OTHER_NAMES,
    Name,
    TenantName,
    described,
    duration,
)
from tenantcron.manifests.language.models import Cron, OneTiming, TargetSpec

AllowedHost = Annotated[
    str,
    Field(
        pattern=r"^(http://)?((\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\])$",
        json_schema_extra={
            "x-expects": "a host such as billing.internal, *.internal or http://localhost"
        },
    ),
]


RateLimitedHost = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\])$",
        max_length=120,
        json_schema_extra={
            "x-code": "TC106",
            "x-expects": "a host such as billing.internal, without scheme, port or *",
        },
    ),
]
CallRate = Annotated[
    str, Field(pattern=f"^{rates.PATTERN}$", json_schema_extra={"x-expects": rates.EXPECTED})
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


AllowedCeleryTask = Annotated[
    str,
    Field(
        pattern=f"^{celery_targets.ENTRY_PATTERN}$",
        json_schema_extra={"x-expects": celery_targets.ENTRY_EXPECTED},
    ),
]


AllowedTemporalWorkflow = Annotated[
    str,
    Field(
        pattern=f"^{temporal_targets.ENTRY_PATTERN}$",
        json_schema_extra={"x-expects": temporal_targets.ENTRY_EXPECTED},
    ),
]


ServiceRole = Annotated[
    str,
    Field(
        pattern="^[A-Za-z][A-Za-z0-9_.:-]{0,63}$",
        json_schema_extra={"x-expects": "a role such as service:billing"},
    ),
]


def _quota(name: str, words: str) -> Any:
    """Describe a quota; a size is a text."""
    rule = QUOTAS[name]
    if not rule.is_size:
        return described(words, default=rule.default, ge=rule.lowest, le=rule.highest)
    return described(
        f"{words[:-1]}, from {rule.range}.",
        default=rule.words(rule.default),
        pattern=f"^{sizes.PATTERN}$",
        extra={"x-expects": "a size such as 512KiB or 4MiB"},
    )


@with_config(CLOSED)
class QuotasSpec(TypedDict, total=False):
    """How much of the shared system one tenant may use."""

    pending_tasks: Annotated[
        int, _quota("pending_tasks", "How many submitted tasks may wait to start.")
    ]
    starts_per_minute: Annotated[
        int, _quota("starts_per_minute", "How many executions may start within a minute.")
    ]
    payload_bytes: Annotated[str, _quota("payload_bytes", "The size of the payload of a task.")]
    stored_bytes: Annotated[
        str, _quota("stored_bytes", "The total size of the payloads of tasks that wait to start.")
    ]
    schedules_per_owner: Annotated[
        int, _quota("schedules_per_owner", "How many schedules may have the same `owner`.")
    ]


@with_config(CLOSED)
class TenantAllowanceSpec(TypedDict, total=False):
    """Additional permissions of one tenant."""

    max_schedules: Annotated[
        int,
        described(
            "The maximum number of schedules of this tenant. Default: max_schedules_per_tenant.",
            ge=0,
            le=100_000,
        ),
    ]
    allowed_hosts: Annotated[
        list[AllowedHost], described("Additional hosts that HTTP targets of this tenant may call.")
    ]
    weight: Annotated[
        int,
        described(
            "The share of scarce slots: a tenant of weight 3 gets three times as many as others.",
            default=DEFAULT_WEIGHT,
            ge=1,
            le=HIGHEST_WEIGHT,
        ),
    ]
    quotas: Annotated[
        QuotasSpec, described("Quotas of this tenant. Default: those of [policy.quotas].")
    ]
    allowed_celery_tasks: Annotated[
        list[AllowedCeleryTask], described("Additional Celery tasks that this tenant may send.")
    ]
    allowed_temporal_workflows: Annotated[
        list[AllowedTemporalWorkflow],
        described("Additional Temporal workflows that this tenant may start."),
    ]


@with_config(CLOSED)
class PolicySpec(TypedDict, total=False):
    """The `[policy]` table of tenantcron.toml: what the platform allows its tenants."""

    minimum_interval: Annotated[
        str, duration("The shortest gap between two occurrences of a schedule.", "15m")
    ]
    max_schedules_per_tenant: Annotated[
        int, described("The maximum number of schedules of a tenant.", default=20, ge=0, le=100_000)
    ]
    max_size_per_tenant: Annotated[
        str,
        described(
            "The maximum total size of payloads, descriptions and targets of a tenant's schedules, "
            "from 1KiB to 16MiB.",
            default="4MiB",
            pattern=f"^{sizes.PATTERN}$",
            extra={"x-expects": "a size such as 512KiB or 4MiB"},
        ),
    ]
    quotas: Annotated[QuotasSpec, described("Quotas of each tenant.")]
    max_timeout: Annotated[
        str, duration("The longest `timeout` of a schedule, from 1s to 1d.", "1h")
    ]
    presets: Annotated[
        dict[Name, Cron | OneTiming],
        described("Timetables that all tenants may use by name.", extra=NO_OTHER_NAMES),
    ]
    allowed_hosts: Annotated[
        list[AllowedHost], described("Hosts that HTTP targets may call; none by default.")
    ]
    allowed_networks: Annotated[
        list[AllowedNetwork],
        described("Networks of hosts that may be called; public addresses need no entry."),
    ]
    allowed_ports: Annotated[
        list[Annotated[int, Field(ge=1, le=65_535)]],
        described("Ports that may be called. Default: 443, and 80 for http:// entries."),
    ]
    rate_limits: Annotated[
        dict[RateLimitedHost, CallRate],
        described(
            "How often the scheduler may call a host, over all replicas and tenants.",
            extra=NO_OTHER_NAMES,
        ),
    ]
    allowed_secrets: Annotated[
        list[AllowedSecret],
        described("References of secrets that manifests may use; none by default."),
    ]
    allowed_audiences: Annotated[
        list[AllowedAudience],
        described("Audiences of tokens for HTTP targets, in addition to the origin of their URL."),
    ]
    allowed_celery_tasks: Annotated[
        list[AllowedCeleryTask],
        described("Celery tasks that manifests may send, with their queue; none by default."),
    ]
    allowed_temporal_workflows: Annotated[
        list[AllowedTemporalWorkflow],
        described(
            "Temporal workflows that manifests may start, with their namespace and task queue; "
            "none by default."
        ),
    ]
    idempotency_retention: Annotated[
        str, duration("How long targets remember an idempotency key.", "24h")
    ]
    target_kinds: Annotated[
        list[Name],
        described("Kinds of targets that manifests may use besides http; none by default."),
    ]
    default_target: Annotated[
        TargetSpec, described("The target of sagas that have neither a target nor a handler.")
    ]
    roles: Annotated[
        dict[Name, list[ServiceRole]],
        described(
            "Roles in the tokens of executions, by the service that runs them.",
            extra=NO_OTHER_NAMES,
        ),
    ]
    tenants: Annotated[
        dict[TenantName, TenantAllowanceSpec],
        described("Additional permissions of single tenants, by id.", extra=NO_OTHER_NAMES),
    ]
