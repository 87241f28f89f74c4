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
    allowed_secrets: Annotated[
        list[AllowedSecret],
        described("References of secrets that manifests may sign with; none by default."),
    ]
    allowed_audiences: Annotated[
        list[AllowedAudience],
        described("Audiences of tokens for HTTP targets, in addition to the origin of their URL."),
    ]
    idempotency_retention: Annotated[
        str, duration("How long targets remember an idempotency key.", "24h")
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
