"""The model of the `[policy]` table, from which its JSON Schema is generated."""

from typing import Annotated

from pydantic import Field, with_config
from typing_extensions import TypedDict

from tenantcron.core import secret_refs, sizes
from tenantcron.core.auth import AUDIENCE_PATTERN, LONGEST_AUDIENCE
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


@with_config(CLOSED)
class TenantAllowanceSpec(TypedDict, total=False):
    """What the platform allows one tenant besides what it allows all."""

    allowed_hosts: Annotated[
        list[AllowedHost], described("Hosts that HTTP targets of this tenant may call, too.")
    ]


@with_config(CLOSED)
class PolicySpec(TypedDict, total=False):
    """The `[policy]` table of tenantcron.toml: what the platform allows its tenants."""

    minimum_interval: Annotated[
        str, duration("The shortest gap between two occurrences of one schedule.", "15m")
    ]
    max_schedules_per_tenant: Annotated[
        int, described("How many schedules a tenant may have.", default=20, ge=0, le=100_000)
    ]
    max_size_per_tenant: Annotated[
        str,
        described(
            "How large payloads, descriptions and targets of a tenant's schedules may be in all, "
            "from 1KiB to 16MiB.",
            default="4MiB",
            pattern=f"^{sizes.PATTERN}$",
            extra={"x-expects": "a size such as 512KiB or 4MiB"},
        ),
    ]
    max_timeout: Annotated[
        str, duration("The longest `timeout` of a schedule, from 1s to 1d.", "1h")
    ]
    presets: Annotated[
        dict[Name, Cron | OneTiming],
        described("Timetables that every tenant may use by name.", extra=NO_OTHER_NAMES),
    ]
    allowed_hosts: Annotated[
        list[AllowedHost], described("Hosts that HTTP targets may call; none by default.")
    ]
    allowed_networks: Annotated[
        list[AllowedNetwork],
        described("Networks that hosts may be in; public addresses need no entry."),
    ]
    allowed_ports: Annotated[
        list[Annotated[int, Field(ge=1, le=65_535)]],
        described("Ports that may be called. Default: 443, and 80 for http:// entries."),
    ]
    allowed_secrets: Annotated[
        list[AllowedSecret],
        described("Secrets that manifests may sign with, by reference; none by default."),
    ]
    allowed_audiences: Annotated[
        list[AllowedAudience],
        described("Audiences of tokens for HTTP targets, besides the origin of their URL."),
    ]
    idempotency_retention: Annotated[
        str, duration("How long targets remember an idempotency key.", "24h")
    ]
    default_target: Annotated[
        TargetSpec, described("What runs a saga that has neither a target nor a handler.")
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
        described("What single tenants may do besides, by their id.", extra=NO_OTHER_NAMES),
    ]
