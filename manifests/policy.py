"""The platform's policy: the `[policy]` table of a tenantcron.toml."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tenantcron.core.allowed_names import of_tenant
from tenantcron.core.durations import parse_duration
from tenantcron.core.egress import Egress, bare, is_listed, is_network
from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.quotas import DeclaredQuotas
from tenantcron.core.rates import Rate, parse_rate
from tenantcron.core.sizes import format_size, parse_size
from tenantcron.core.suggest import close_match
from tenantcron.core.targets import Target
from tenantcron.core.values import JsonValue
from tenantcron.core.words import shortened, unreadable
from tenantcron.manifests.diagnostics import Fault
from tenantcron.manifests.language.rules import RULES, Severity
from tenantcron.manifests.language.schemas import defaults
from tenantcron.manifests.language.structure import check_structure, unusable
from tenantcron.manifests.language.target_views import read_any_target
from tenantcron.manifests.language.timetable_rules import TimetableRules
from tenantcron.manifests.language.timing import TimingReader
from tenantcron.manifests.policy_quotas import read_quotas
from tenantcron.manifests.view import View
from tenantcron.schedules.schedule import Timing
from tenantcron.schedules.settings import TIMEOUT

FILE_NAME = "tenantcron.toml"
_TABLES = ("policy", "settings")

TomlValue = bool | int | float | str | date | time | list["TomlValue"] | dict[str, "TomlValue"]

_TABLE = ("policy",)
_SIZES = (1024, 16 * 1024**2)
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


class Policy(NamedTuple):
    """What the platform allows its tenants."""

    minimum_interval: timedelta
    max_schedules_per_tenant: int
    # Bytes.
    max_size_per_tenant: int
    max_timeout: timedelta
    presets: Mapping[str, Timing]
    egress: Egress
    # Secrets that requests may be authenticated with, as entries such as `env:BILLING_*`.
    allowed_secrets: tuple[str, ...]
    idempotency_retention: timedelta
    # Caps of single tenants; those of the database replace those of the policy.
    caps: Mapping[TenantId, int]
    # Runs sagas that have neither a target nor a handler; None: they stay pending.
    default_target: Target | None = None
    # The roles in the tokens of executions, by the service that runs them.
    roles: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    # Audiences of tokens for targets, in addition to the origin of their URL.
    allowed_audiences: tuple[str, ...] = ()
    # Hosts that only one tenant may call, by its id.
    hosts_of_tenants: Mapping[TenantId, tuple[str, ...]] = MappingProxyType({})
    # Kinds of targets that manifests may use besides `http`.
    target_kinds: tuple[str, ...] = ()
    # Celery tasks that manifests may send, as entries such as `billing/billing.*`.
    allowed_celery_tasks: tuple[str, ...] = ()
    # Tasks that only one tenant may send, by its id.
    celery_tasks_of_tenants: Mapping[TenantId, tuple[str, ...]] = MappingProxyType({})
    # How often a host may be called, by its name in lower case.
    rate_limits: Mapping[str, Rate] = MappingProxyType({})
    # Temporal workflows that manifests may start, as entries such as `default/billing/*`.
    allowed_temporal_workflows: tuple[str, ...] = ()
    # Workflows that only one tenant may start, by its id.
    temporal_workflows_of_tenants: Mapping[TenantId, tuple[str, ...]] = MappingProxyType({})
    # The weights of single tenants, by id. An operator's weight, in the database, replaces them.
    weights: Mapping[TenantId, int] = MappingProxyType({})
    # An operator's quotas, in the database, replace those of the policy.
    quotas: DeclaredQuotas = DeclaredQuotas()

    @property
    def calls_hosts(self) -> bool:
        """Whether any tenant may call any host."""
        return bool(self.egress.hosts) or any(self.hosts_of_tenants.values())

    def cap_of(self, tenant: TenantId) -> int:
        """Return how many schedules a tenant may have."""
        return self.caps.get(tenant, self.max_schedules_per_tenant)

    def for_tenant(self, tenant: TenantId | None) -> "Policy":
        """Return the policy of one tenant."""
        own = (
            *(self.caps, self.hosts_of_tenants, self.celery_tasks_of_tenants),
            self.temporal_workflows_of_tenants,
        )
        with_placeholders = (
            self.allowed_secrets or self.allowed_celery_tasks or self.allowed_temporal_workflows
        )
        if tenant is None or not (with_placeholders or any(tenant in part for part in own)):
            return self
        hosts = (*self.egress.hosts, *self.hosts_of_tenants.get(tenant, ()))
        tasks = (*self.allowed_celery_tasks, *self.celery_tasks_of_tenants.get(tenant, ()))
        workflows = (
            *self.allowed_temporal_workflows,
            *self.temporal_workflows_of_tenants.get(tenant, ()),
        )
        return self._replace(
            egress=self.egress._replace(hosts=hosts),
            max_schedules_per_tenant=self.cap_of(tenant),
            allowed_secrets=of_tenant(self.allowed_secrets, tenant),
            allowed_celery_tasks=of_tenant(tasks, tenant),
            allowed_temporal_workflows=of_tenant(workflows, tenant),
        )


@cache
def default_policy() -> Policy:
    """Return the policy that applies without a policy file."""
    return _read({}, "the default policy")


def load_policy(file: Path) -> Policy:
    """Read a policy file; the error lists all its problems."""
    import tomllib  # noqa: PLC0415 -- not needed without a policy file

    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file}: the policy cannot be read: {unreadable(error)}") from error
    _refuse_unknown_tables(document, file)
    return _read(_as_json(document.get("policy", {})), str(file))


def _refuse_unknown_tables(document: Mapping[str, object], file: Path) -> None:
    """Reject unknown tables: with a misspelt table, the defaults would silently apply."""
    for name in document:
        if name not in _TABLES:
            meant = close_match(name, _TABLES)
            hint = (
                f"did you mean [{meant}]?" if meant else f"the tables are {' and '.join(_TABLES)}"
            )
            raise UsageError(f"{file}: unknown table or key `{name}`; {hint}")


def find_policy(folder: Path) -> Path | None:
    """Return the nearest tenantcron.toml, from the folder upwards, within the repository."""
    for place in (folder, *folder.parents):
        if (place / FILE_NAME).is_file():
            return place / FILE_NAME
        if (place / ".git").exists():
            return None
    return None


def policy_in(folder: Path, given: Path | None) -> Policy:
    """Return the policy of a folder: the given one, else of the nearest file, else the default."""
    file = given or find_policy(folder)
    return default_policy() if file is None else load_policy(file)


def _read(data: JsonValue, source: str) -> Policy:
    faults = check_structure("policy", data, _TABLE)
    view = View(data, _TABLE, unusable(faults))
    floor = _duration(view, "minimum_interval")
    longest = _max_timeout(view, faults)
    cap = view.number("max_schedules_per_tenant")
    default_cap = int(defaults("policy")["max_schedules_per_tenant"])
    policy = Policy(
        minimum_interval=floor,
        max_schedules_per_tenant=default_cap if cap is None else cap,
        max_size_per_tenant=_max_size(view, faults),
        max_timeout=longest,
        presets=_presets(view.get("presets"), floor, longest, faults),
        egress=_egress(view, faults),
        allowed_secrets=_texts(view.get("allowed_secrets")),
        idempotency_retention=_duration(view, "idempotency_retention"),
        caps=_caps(view.get("tenants")),
        default_target=read_any_target(view.get("default_target")),
        roles=_roles(view.get("roles"), faults),
        hosts_of_tenants=_texts_of_tenants(view.get("tenants"), "allowed_hosts"),
        allowed_audiences=_texts(view.get("allowed_audiences")),
        target_kinds=_texts(view.get("target_kinds")),
        allowed_celery_tasks=_texts(view.get("allowed_celery_tasks")),
        celery_tasks_of_tenants=_texts_of_tenants(view.get("tenants"), "allowed_celery_tasks"),
        rate_limits=_rate_limits(view, faults),
        allowed_temporal_workflows=_texts(view.get("allowed_temporal_workflows")),
        temporal_workflows_of_tenants=_texts_of_tenants(
            view.get("tenants"), "allowed_temporal_workflows"
        ),
        weights=_weights(view.get("tenants")),
        quotas=read_quotas(view, faults),
    )
    _refuse_errors(faults, source)
    return policy


def _max_size(view: View, faults: list[Fault]) -> int:
    text = view.text("max_size_per_tenant")
    size = parse_size(text or str(defaults("policy")["max_size_per_tenant"]))
    low, high = _SIZES
    if not low <= size <= high:
        message = f"`max_size_per_tenant` must be from {format_size(low)} to {format_size(high)}"
        faults.append(Fault("TC305", message, (*view.pointer, "max_size_per_tenant")))
    return size


def _max_timeout(view: View, faults: list[Fault]) -> timedelta:
    longest = _duration(view, "max_timeout")
    if (limits := TIMEOUT.refusal(longest)) is not None:
        message = f"`max_timeout` must be {limits}"
        faults.append(Fault("TC305", message, (*view.pointer, "max_timeout")))
    return longest


def _presets(
    view: View | None, floor: timedelta, longest: timedelta, faults: list[Fault]
) -> dict[str, Timing]:
    """Read the presets; authors of manifests could not act on warnings, so there are none."""
    reader = TimingReader(TimetableRules(floor, now=_BEFORE_ALL), longest, faults)
    entries = view.entries() if view else ()
    read = {name: reader.read(preset, {}) for name, preset in entries}
    return {name: timing for name, timing in read.items() if timing is not None}


def _egress(view: View, faults: list[Fault]) -> Egress:
    networks, ports = view.get("allowed_networks"), view.get("allowed_ports")
    for entry in networks.items() if networks else ():
        if not is_network(str(entry.value)):
            message = f"{shortened(str(entry.value))} is not a network"
            faults.append(Fault("TC106", message, entry.pointer, "write it as 10.0.0.0/8"))
    return Egress(
        hosts=_texts(view.get("allowed_hosts")),
        networks=_texts(networks),
        ports=None if ports is None else tuple(int(str(port.value)) for port in ports.items()),
    )


def _rate_limits(view: View, faults: list[Fault]) -> dict[str, Rate]:
    """Read the rates; a host that no target may call is a mistake, and would have no limit."""
    listed = view.get("rate_limits")
    of_tenants = _texts_of_tenants(view.get("tenants"), "allowed_hosts").values()
    allowed = (*_texts(view.get("allowed_hosts")), *chain.from_iterable(of_tenants))
    limits: dict[str, Rate] = {}
    for name, rate in listed.entries() if listed else ():
        host = name.lower()
        if not any(is_listed(scheme, host, allowed) for scheme in ("http", "https")):
            message = f"{shortened(name)} has a rate limit, but allowed_hosts does not list it"
            hint = "correct the name, or add the host to allowed_hosts"
            faults.append(Fault("TC106", message, rate.pointer, hint))
        elif bare(host) in limits:
            message = f"{shortened(name)} has two rate limits"
            faults.append(Fault("TC106", message, rate.pointer, "write each host once"))
        limits[bare(host)] = parse_rate(str(rate.value))
    return limits


def _weights(view: View | None) -> dict[TenantId, int]:
    """Return the weights of tenants that have one."""
    entries = view.entries() if view else ()
    given = ((TenantId(tenant), own.get("weight")) for tenant, own in entries)
    return {tenant: int(str(weight.value)) for tenant, weight in given if weight}


def _texts_of_tenants(view: View | None, key: str) -> dict[TenantId, tuple[str, ...]]:
    entries = view.entries() if view else ()
    return {TenantId(tenant): _texts(own.get(key)) for tenant, own in entries}


def _caps(view: View | None) -> dict[TenantId, int]:
    entries = view.entries() if view else ()
    caps = ((TenantId(tenant), own.number("max_schedules")) for tenant, own in entries)
    return {tenant: cap for tenant, cap in caps if cap is not None}


def _roles(view: View | None, faults: list[Fault]) -> dict[str, tuple[str, ...]]:
    """Read the roles of services; only the service itself may have `service:<name>`."""
    roles: dict[str, tuple[str, ...]] = {}
    for service, listed in view.entries() if view else ():
        roles[service] = _texts(listed)
        for role in listed.items():
            of, _, named = str(role.value).partition(":")
            if of == "service" and named != service:
                message = f"{shortened(str(role.value))} is not a role of the service {service}"
                hint = f"write service:{service}, or another kind of role"
                faults.append(Fault("TC106", message, role.pointer, hint))
    return roles


def _duration(view: View, key: str) -> timedelta:
    duration = view.duration(key)
    return parse_duration(str(defaults("policy")[key])) if duration is None else duration


def _texts(view: View | None) -> tuple[str, ...]:
    return tuple(str(item.value) for item in view.items()) if view else ()


def _refuse_errors(faults: list[Fault], source: str) -> None:
    errors = (fault for fault in faults if RULES[fault.code].severity is Severity.ERROR)
    lines = sorted(map(_line, errors))
    if lines:
        raise UsageError("\n".join([f"{source}: the policy is not valid", *lines]))


def _line(fault: Fault) -> str:
    """Return an error as a line that begins with its pointer, so sorting groups tables."""
    hint = f" ({fault.hint})" if fault.hint else ""
    return f"  {'.'.join(map(str, fault.pointer))}: {fault.code} {fault.message}{hint}"


def _as_json(value: TomlValue) -> JsonValue:
    """Convert TOML dates and times to text, which the manifest language uses."""
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return value.isoformat() if isinstance(value, date | time) else value
