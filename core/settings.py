"""Operational settings: environment variables, then the `[settings]` table of tenantcron.toml.

The file is in the working folder. An environment variable is the key in upper case with the prefix
`TENANTCRON_`. It takes precedence, so a deployment can override the repository.

Not pydantic-settings: every command reads settings, and importing pydantic takes longer than that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tenantcron.core import setting_readers as readers
from tenantcron.core.egress import Url
from tenantcron.core.errors import UsageError
from tenantcron.core.schema_names import SchemaPattern
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.setting_readers import SettingValue
from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.core.words import unreadable

FILE_NAME = "tenantcron.toml"
PREFIX = "TENANTCRON_"
SHORTEST_LEASE = timedelta(seconds=5)
SHORTEST_RETENTION = timedelta(days=1)
# The database enforces this (migration 0013_record_retention).
SHORTEST_AUDIT_RETENTION = timedelta(days=30)
SHORTEST_REFRESH = timedelta(seconds=1)
SHORTEST_TIMEOUT = timedelta(seconds=1)
SHORTEST_AUDIT = timedelta(minutes=1)
SHORTEST_MAX_AGE = timedelta(minutes=2)
SHORTEST_OUTBOX_RETENTION = timedelta(hours=1)
MOST_PORTS = 65_535
MOST_BUSIEST = 100
MOST_LABEL_VALUES = 100

# Secrets, which must not be in a file under version control, and the settings that name a file.
SECRETS = {
    "master_key": "master_key_file",
    "signing_key": "signing_key_file",
    "plan_key": "plan_key_file",
}
# Numbers and durations in the file; every other setting is text.
_NUMBERS = (
    *("max_concurrent", "max_concurrent_per_tenant", "api_rate_limit", "api_connections"),
    *("metrics_port", "metrics_busiest_tenants", "metrics_label_values", "kills_allowed"),
    "manifest_versions_kept",
)
_DURATIONS = (
    *("refresh_interval", "refresh_jitter", "lease", "drain", "retention"),
    *("api_timeout", "metrics_audit_interval", "outbox_retention", "database_timeout"),
    *("tenant_source_max_age", "token_lifetime", "audit_retention", "embedded_linger"),
)
_SIZES = ("max_memory",)
# A table of the file that another module checks; it has no environment variable.
_SCHEDULES = "schedules"
# Variables that are not settings: credentials of commands that call a server.
_OF_COMMANDS = (f"{PREFIX}TOKEN", f"{PREFIX}CONTEXT", f"{PREFIX}SERVER")


T = TypeVar("T")


class LogFormat(StrEnum):
    """How log events are written."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """The least important events that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class HandlerRole(StrEnum):
    """Which login the database connections of handlers use."""

    TENANT = "tenant"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything operational. No database URL means the embedded server."""

    # Hidden in the repr, which ends up in logs: it may contain a password.
    database_url: str | None = field(default=None, repr=False)
    # How long the embedded server runs without a user.
    embedded_linger: timedelta = timedelta(minutes=5)
    # A standby for reads of history by the API and the dashboard; hidden like `database_url`.
    read_database_url: str | None = field(default=None, repr=False)
    # How long a scheduler waits for each statement.
    database_timeout: timedelta = timedelta(seconds=15)
    # Schema names of new tenants. None: the default pattern, and existing schemas are not adopted.
    schema_pattern: SchemaPattern | None = None
    # Where the platform's tenants are read from; None: operators create them. See `tenants/source`.
    tenant_source: str | None = None
    # No execution starts if the last successful read of the source is older.
    tenant_source_max_age: timedelta = timedelta(minutes=10)
    # Entry points that provide schedules, besides the manifests.
    providers: tuple[str, ...] = ()
    service: str = "scheduler"
    # None: keep the values in the database, which are 20 and 5 after installation.
    max_concurrent: int | None = None
    max_concurrent_per_tenant: int | None = None
    # The tenant's own login, or the scheduler's, which does not isolate tenants.
    handler_role: HandlerRole = HandlerRole.TENANT
    refresh_interval: timedelta = timedelta(seconds=60)
    refresh_jitter: timedelta = timedelta(seconds=10)
    lease: timedelta = timedelta(seconds=60)
    drain: timedelta = timedelta(seconds=30)
    # An execution that caused the loss of this many workers is not retried.
    kills_allowed: int = 3
    # Bytes of resident memory above which a scheduler drains and exits; None: no limit.
    max_memory: int | None = None
    retention: timedelta = timedelta(days=90)
    # Audit records are kept at least as long as executions.
    audit_retention: timedelta = timedelta(days=400)
    # Per tenant; versions that schedules refer to are kept in addition.
    manifest_versions_kept: int = 100
    # How long undelivered events are kept for a webhook or an event bus.
    outbox_retention: timedelta = timedelta(days=7)
    # The URL of the bus that all events are published to; None: none. See `events/bus`.
    event_bus: str | None = None
    event_bus_credentials: SecretRef | None = None
    # Where the URL of the broker for Celery targets is, which has a password.
    celery_broker: SecretRef | None = None
    # The frontend of the Temporal cluster, and where the credentials for it are.
    temporal_address: Url | None = None
    temporal_api_key: SecretRef | None = None
    temporal_certificate: SecretRef | None = None
    temporal_key: SecretRef | None = None
    # None: console on a terminal, json elsewhere.
    log_format: LogFormat | None = None
    log_level: LogLevel = LogLevel.INFO
    # The issuer of execution tokens, as verifiers know it.
    issuer: str = "tenantcron"
    # How long a token is valid, at most until a minute after the deadline of its attempt.
    token_lifetime: timedelta = timedelta(minutes=5)
    # Encrypts the private keys in the database.
    master_key: str | None = field(default=None, repr=False)
    master_key_file: Path | None = None
    # Signs saved plans; an apply then accepts only signed plans.
    plan_key: str | None = field(default=None, repr=False)
    plan_key_file: Path | None = None
    # Private keys for signing, in place of those in the database.
    signing_key: str | None = field(default=None, repr=False)
    signing_key_file: Path | None = None
    # CA certificates for HTTP targets, in addition to the public ones.
    ca_file: Path | None = None
    # Requests per minute and caller, over all processes of the API.
    api_rate_limit: int = 600
    # Concurrent connections per process of the API.
    api_connections: int = 500
    # Host names under which the API is served; empty: any.
    trusted_hosts: tuple[str, ...] = ()
    # How long a request waits for the database before it is answered with 503.
    api_timeout: timedelta = timedelta(seconds=10)
    # The URL of the API for remote workers, which report the end of their attempts to it.
    callback_url: str | None = None
    # The OIDC issuer whose tokens the API accepts; set all three or none.
    oidc_issuer: str | None = None
    oidc_audience: str | None = None
    oidc_jwks_url: str | None = field(default=None, repr=False)
    # The policy service that decides whether the owner of a schedule still has access, and the
    # audience of the token that it receives. The URL may contain a secret.
    owner_check_url: str | None = field(default=None, repr=False)
    owner_check_audience: str | None = None
    # Where Prometheus scrapes the scheduler; without a port there is no endpoint.
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    # How many tenants get their own time series; there may be thousands of tenants.
    metrics_busiest_tenants: int = 0
    # Tenant labels by which executions are counted, and how many values of each.
    metrics_labels: tuple[str, ...] = ()
    metrics_label_values: int = 20
    # None: no periodic audit.
    metrics_audit_interval: timedelta | None = timedelta(days=1)
    # Schedules of the platform itself, as in the file; not validated yet.
    schedules: tuple[JsonObject, ...] = ()
    # Contains `.tenantcron/`.
    folder: Path


KEYS = tuple(key.name for key in fields(Settings) if key.name not in (_SCHEDULES, "folder"))


def load_settings(environment: Mapping[str, str], folder: Path) -> Settings:
    """Read the settings; raise a UsageError with the place of an invalid value or unknown key."""
    _reject_misspelt_variables(environment)
    file = folder / FILE_NAME
    table = _settings_table(file)
    schedules = _schedules(file, table.pop(_SCHEDULES, []))
    values = _Values(_from_file(file, table) | _from_environment(environment))
    values.reject_both_of(SECRETS)
    default = Settings(folder=folder)
    return Settings(
        database_url=values.read("database_url", readers.database_url, default.database_url),
        read_database_url=values.read(
            "read_database_url", readers.database_url, default.read_database_url
        ),
        embedded_linger=values.read("embedded_linger", readers.duration, default.embedded_linger),
        database_timeout=values.read(
            "database_timeout", readers.at_least(SHORTEST_TIMEOUT), default.database_timeout
        ),
        schema_pattern=values.read(
            "schema_pattern", readers.schema_pattern, default.schema_pattern
        ),
        tenant_source=values.read("tenant_source", readers.text, default.tenant_source),
        tenant_source_max_age=values.read(
            "tenant_source_max_age",
            readers.at_least(SHORTEST_MAX_AGE),
            default.tenant_source_max_age,
        ),
        providers=values.read("providers", readers.names, default.providers),
        service=values.read("service", readers.service, default.service),
        max_concurrent=values.read("max_concurrent", readers.count, default.max_concurrent),
        max_concurrent_per_tenant=values.read(
            "max_concurrent_per_tenant", readers.count, default.max_concurrent_per_tenant
        ),
        handler_role=values.read("handler_role", readers.one_of(HandlerRole), default.handler_role),
        refresh_interval=values.read(
            "refresh_interval", readers.at_least(SHORTEST_REFRESH), default.refresh_interval
        ),
        refresh_jitter=values.read("refresh_jitter", readers.duration, default.refresh_jitter),
        lease=values.read("lease", readers.at_least(SHORTEST_LEASE), default.lease),
        drain=values.read("drain", readers.duration, default.drain),
        kills_allowed=values.read("kills_allowed", readers.count, default.kills_allowed),
        max_memory=values.read("max_memory", readers.memory, default.max_memory),
        retention=values.read("retention", readers.at_least(SHORTEST_RETENTION), default.retention),
        audit_retention=values.read(
            "audit_retention", readers.at_least(SHORTEST_AUDIT_RETENTION), default.audit_retention
        ),
        manifest_versions_kept=values.read(
            "manifest_versions_kept", readers.versions, default.manifest_versions_kept
        ),
        outbox_retention=values.read(
            "outbox_retention",
            readers.at_least(SHORTEST_OUTBOX_RETENTION),
            default.outbox_retention,
        ),
        event_bus=values.read("event_bus", readers.bus_url, default.event_bus),
        event_bus_credentials=values.read(
            "event_bus_credentials", readers.secret_ref, default.event_bus_credentials
        ),
        celery_broker=values.read("celery_broker", readers.secret_ref, default.celery_broker),
        temporal_address=values.read(
            "temporal_address", readers.temporal_address, default.temporal_address
        ),
        temporal_api_key=values.read(
            "temporal_api_key", readers.secret_ref, default.temporal_api_key
        ),
        temporal_certificate=values.read(
            "temporal_certificate", readers.secret_ref, default.temporal_certificate
        ),
        temporal_key=values.read("temporal_key", readers.secret_ref, default.temporal_key),
        log_format=values.read("log_format", readers.one_of(LogFormat), default.log_format),
        log_level=values.read("log_level", readers.one_of(LogLevel), default.log_level),
        issuer=values.read("issuer", readers.issuer, default.issuer),
        token_lifetime=values.read(
            "token_lifetime", readers.token_lifetime, default.token_lifetime
        ),
        master_key=values.read("master_key", readers.master_key, default.master_key),
        master_key_file=values.read("master_key_file", readers.path, default.master_key_file),
        plan_key=values.read("plan_key", readers.master_key, default.plan_key),
        plan_key_file=values.read("plan_key_file", readers.path, default.plan_key_file),
        signing_key=values.read("signing_key", readers.text, default.signing_key),
        signing_key_file=values.read("signing_key_file", readers.path, default.signing_key_file),
        ca_file=values.read("ca_file", readers.file_in(folder), default.ca_file),
        api_rate_limit=values.read("api_rate_limit", readers.count, default.api_rate_limit),
        api_connections=values.read("api_connections", readers.count, default.api_connections),
        trusted_hosts=values.read("trusted_hosts", readers.hosts, default.trusted_hosts),
        api_timeout=values.read(
            "api_timeout", readers.at_least(SHORTEST_TIMEOUT), default.api_timeout
        ),
        callback_url=values.read("callback_url", readers.safe_url, default.callback_url),
        oidc_issuer=values.read("oidc_issuer", readers.safe_url, default.oidc_issuer),
        oidc_audience=values.read("oidc_audience", readers.audience, default.oidc_audience),
        oidc_jwks_url=values.read("oidc_jwks_url", readers.safe_url, default.oidc_jwks_url),
        owner_check_url=values.read("owner_check_url", readers.text, default.owner_check_url),
        owner_check_audience=values.read(
            "owner_check_audience", readers.own_audience, default.owner_check_audience
        ),
        metrics_host=values.read("metrics_host", readers.text, default.metrics_host),
        metrics_port=values.read("metrics_port", readers.up_to(MOST_PORTS), default.metrics_port),
        metrics_busiest_tenants=values.read(
            "metrics_busiest_tenants", readers.up_to(MOST_BUSIEST), default.metrics_busiest_tenants
        ),
        metrics_labels=values.read("metrics_labels", readers.label_keys, default.metrics_labels),
        metrics_label_values=values.read(
            "metrics_label_values", readers.up_to(MOST_LABEL_VALUES), default.metrics_label_values
        ),
        metrics_audit_interval=values.read(
            "metrics_audit_interval",
            readers.unless_never(readers.at_least(SHORTEST_AUDIT)),
            default.metrics_audit_interval,
        ),
        schedules=schedules,
        folder=folder,
    )


def has_keys(settings: Settings) -> bool:
    """Whether the settings name a key for signing tokens."""
    sources = (
        *(settings.master_key, settings.master_key_file),
        *(settings.signing_key, settings.signing_key_file),
    )
    return any(source is not None for source in sources)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that the environment and the file set."""

    by_key: Mapping[str, SettingValue]

    def read(self, key: str, reader: Callable[[SettingValue], T], default: T) -> T:
        value = self.by_key.get(key)
        return default if value is None else reader(value)

    def reject_both_of(self, pairs: Mapping[str, str]) -> None:
        """Reject a secret that is set both directly and as a file: neither takes precedence."""
        for secret, file in pairs.items():
            if secret in self.by_key and file in self.by_key:
                places = f"{self.by_key[secret].place} and {self.by_key[file].place}"
                raise UsageError(f"{places} are both set: keep one of them")


def _from_environment(environment: Mapping[str, str]) -> dict[str, SettingValue]:
    """Return the variables that are set; an empty one is not, because pipelines pass those."""
    names = {key: PREFIX + key.upper() for key in KEYS}
    return {
        key: SettingValue(environment[name], name)
        for key, name in names.items()
        if environment.get(name)
    }


def _from_file(file: Path, table: Mapping[str, object]) -> dict[str, SettingValue]:
    for key in table:
        if key not in KEYS:
            raise UsageError(f"{file}: unknown setting {key!r}{_suggestion(key, KEYS)}")
        if key in SECRETS:
            raise UsageError(
                f"{file}: settings.{key} is a secret, and this file is visible to every reader of "
                f"the repository: set {PREFIX}{key.upper()}, or name a file with "
                f"settings.{SECRETS[key]}. The value is compromised: replace it with a new one"
            )
    return {key: _toml_value(f"{file}: settings.{key}", key, value) for key, value in table.items()}


def _toml_value(place: str, key: str, value: object) -> SettingValue:
    """Convert a TOML value. A number is only valid for a count: `lease = 60` has no unit."""
    if isinstance(value, str):
        return SettingValue(value, place)
    if key in _NUMBERS:
        if isinstance(value, int) and not isinstance(value, bool):
            return SettingValue(str(value), place)
        raise UsageError(f"{place} must be a whole number")
    example = ', such as "90s"' if key in _DURATIONS else ""
    example = ', such as "2GiB"' if key in _SIZES else example
    raise UsageError(f"{place} must be text{example}")


def _schedules(file: Path, value: object) -> tuple[JsonObject, ...]:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return tuple({key: _plain(part) for key, part in item.items()} for item in value)
    raise UsageError(
        f"{file}: settings.{_SCHEDULES} must be an array of tables: [[settings.{_SCHEDULES}]]"
    )


def _plain(value: object) -> JsonValue:
    """Convert a TOML value to JSON; dates and times become ISO 8601 text."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"TOML has no {type(value).__name__}")


def _settings_table(file: Path) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 -- only needed if there is a file

    if not file.is_file():
        return {}
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file}: the settings cannot be read: {unreadable(error)}") from error
    table: object = document.get("settings", {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: `settings` must be a table: [settings]")
    return table


def _reject_misspelt_variables(environment: Mapping[str, str]) -> None:
    """A typo in TENANTCRON_DATABASE_URL would silently start an embedded server instead."""
    known = [PREFIX + key.upper() for key in KEYS]
    for name in environment:
        if name in _OF_COMMANDS or name in known or not name.startswith(PREFIX):
            continue
        if close_match(name, known):
            raise UsageError(f"unknown variable {name}{_suggestion(name, known)}")


def _suggestion(word: str, known: list[str] | tuple[str, ...]) -> str:
    match = close_match(word, known)
    return f": did you mean {match}?" if match else f"; there are {', '.join(known)}"
