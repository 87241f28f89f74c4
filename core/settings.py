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

from tenantcron.core.durations import EXPECTED, DurationError, format_duration, parse_duration
from tenantcron.core.errors import UsageError
from tenantcron.core.hosts import EXPECTED as HOST_EXPECTED
from tenantcron.core.hosts import is_host_pattern
from tenantcron.core.labels import KEY_EXPECTED, is_label_key
from tenantcron.core.master_keys import MasterKeyError, parse_master_keys
from tenantcron.core.names import NAME_EXPECTED, is_name
from tenantcron.core.schema_names import SchemaPattern, parse_schema_pattern
from tenantcron.core.sizes import EXPECTED as SIZE_EXPECTED
from tenantcron.core.sizes import SizeError, format_size, parse_size
from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonObject, JsonValue

FILE_NAME = "tenantcron.toml"
PREFIX = "TENANTCRON_"
URL_SCHEMES = ("postgresql://", "postgres://")
URL_EXPECTED = "postgresql://user:password@host:port/database"
MOST_CONCURRENT = 100_000
LEAST_MEMORY = 128 * 1024**2
SHORTEST_LEASE = timedelta(seconds=5)
SHORTEST_RETENTION = timedelta(days=1)
# The database enforces these two (migration 0013_record_retention).
SHORTEST_AUDIT_RETENTION = timedelta(days=30)
LEAST_VERSIONS = 10
SHORTEST_REFRESH = timedelta(seconds=1)
SHORTEST_TIMEOUT = timedelta(seconds=1)
SHORTEST_AUDIT = timedelta(minutes=1)
SHORTEST_MAX_AGE = timedelta(minutes=2)
SHORTEST_OUTBOX_RETENTION = timedelta(hours=1)
SHORTEST_TOKEN = timedelta(seconds=30)
LONGEST_TOKEN = timedelta(hours=1)
MOST_PORTS = 65_535
MOST_BUSIEST = 100
MOST_METRICS_LABELS = 5
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
    *("tenant_source_max_age", "token_lifetime", "audit_retention"),
)
_SIZES = ("max_memory",)
# A table of the file that another module checks; it has no environment variable.
_SCHEDULES = "schedules"
# Variables that are not settings: credentials of commands that call a server.
_OF_COMMANDS = (f"{PREFIX}TOKEN",)

_SAFE_SCHEMES = ("https://", "http://127.0.0.1:", "http://localhost:", "http://[::1]:")

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


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
    # How long undelivered events are kept for a webhook.
    outbox_retention: timedelta = timedelta(days=7)
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
    # None: no periodic audit, because it reads the entire history.
    metrics_audit_interval: timedelta | None = None
    # Schedules of the platform itself, as in the file; not validated yet.
    schedules: tuple[JsonObject, ...] = ()
    # Contains `.tenantcron/`.
    folder: Path


_KEYS = tuple(key.name for key in fields(Settings) if key.name not in (_SCHEDULES, "folder"))


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
        database_url=values.read("database_url", _database_url, default.database_url),
        database_timeout=values.read(
            "database_timeout", _at_least(SHORTEST_TIMEOUT), default.database_timeout
        ),
        schema_pattern=values.read("schema_pattern", _schema_pattern, default.schema_pattern),
        tenant_source=values.read("tenant_source", _text, default.tenant_source),
        tenant_source_max_age=values.read(
            "tenant_source_max_age", _at_least(SHORTEST_MAX_AGE), default.tenant_source_max_age
        ),
        providers=values.read("providers", _names, default.providers),
        service=values.read("service", _service, default.service),
        max_concurrent=values.read("max_concurrent", _count, default.max_concurrent),
        max_concurrent_per_tenant=values.read(
            "max_concurrent_per_tenant", _count, default.max_concurrent_per_tenant
        ),
        handler_role=values.read("handler_role", _one_of(HandlerRole), default.handler_role),
        refresh_interval=values.read(
            "refresh_interval", _at_least(SHORTEST_REFRESH), default.refresh_interval
        ),
        refresh_jitter=values.read("refresh_jitter", _duration, default.refresh_jitter),
        lease=values.read("lease", _at_least(SHORTEST_LEASE), default.lease),
        drain=values.read("drain", _duration, default.drain),
        kills_allowed=values.read("kills_allowed", _count, default.kills_allowed),
        max_memory=values.read("max_memory", _memory, default.max_memory),
        retention=values.read("retention", _at_least(SHORTEST_RETENTION), default.retention),
        audit_retention=values.read(
            "audit_retention", _at_least(SHORTEST_AUDIT_RETENTION), default.audit_retention
        ),
        manifest_versions_kept=values.read(
            "manifest_versions_kept", _versions, default.manifest_versions_kept
        ),
        outbox_retention=values.read(
            "outbox_retention", _at_least(SHORTEST_OUTBOX_RETENTION), default.outbox_retention
        ),
        log_format=values.read("log_format", _one_of(LogFormat), default.log_format),
        log_level=values.read("log_level", _one_of(LogLevel), default.log_level),
        issuer=values.read("issuer", _issuer, default.issuer),
        token_lifetime=values.read("token_lifetime", _token_lifetime, default.token_lifetime),
        master_key=values.read("master_key", _master_key, default.master_key),
        master_key_file=values.read("master_key_file", _path, default.master_key_file),
        plan_key=values.read("plan_key", _master_key, default.plan_key),
        plan_key_file=values.read("plan_key_file", _path, default.plan_key_file),
        signing_key=values.read("signing_key", _text, default.signing_key),
        signing_key_file=values.read("signing_key_file", _path, default.signing_key_file),
        ca_file=values.read("ca_file", _file_in(folder), default.ca_file),
        api_rate_limit=values.read("api_rate_limit", _count, default.api_rate_limit),
        api_connections=values.read("api_connections", _count, default.api_connections),
        trusted_hosts=values.read("trusted_hosts", _hosts, default.trusted_hosts),
        api_timeout=values.read("api_timeout", _at_least(SHORTEST_TIMEOUT), default.api_timeout),
        oidc_issuer=values.read("oidc_issuer", _safe_url, default.oidc_issuer),
        oidc_audience=values.read("oidc_audience", _audience, default.oidc_audience),
        oidc_jwks_url=values.read("oidc_jwks_url", _safe_url, default.oidc_jwks_url),
        owner_check_url=values.read("owner_check_url", _text, default.owner_check_url),
        owner_check_audience=values.read(
            "owner_check_audience", _own_audience, default.owner_check_audience
        ),
        metrics_host=values.read("metrics_host", _text, default.metrics_host),
        metrics_port=values.read("metrics_port", _up_to(MOST_PORTS), default.metrics_port),
        metrics_busiest_tenants=values.read(
            "metrics_busiest_tenants", _up_to(MOST_BUSIEST), default.metrics_busiest_tenants
        ),
        metrics_labels=values.read("metrics_labels", _label_keys, default.metrics_labels),
        metrics_label_values=values.read(
            "metrics_label_values", _up_to(MOST_LABEL_VALUES), default.metrics_label_values
        ),
        metrics_audit_interval=values.read(
            "metrics_audit_interval", _at_least(SHORTEST_AUDIT), default.metrics_audit_interval
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
class _Value:
    """A value and its place, for error messages."""

    text: str
    place: str


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that the environment and the file set."""

    by_key: Mapping[str, _Value]

    def read(self, key: str, reader: Callable[[_Value], T], default: T) -> T:
        value = self.by_key.get(key)
        return default if value is None else reader(value)

    def reject_both_of(self, pairs: Mapping[str, str]) -> None:
        """Reject a secret that is set both directly and as a file: neither takes precedence."""
        for secret, file in pairs.items():
            if secret in self.by_key and file in self.by_key:
                places = f"{self.by_key[secret].place} and {self.by_key[file].place}"
                raise UsageError(f"{places} are both set: keep one of them")


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Value]:
    """Return the variables that are set; an empty one is not, because pipelines pass those."""
    names = {key: PREFIX + key.upper() for key in _KEYS}
    return {
        key: _Value(environment[name], name) for key, name in names.items() if environment.get(name)
    }


def _from_file(file: Path, table: Mapping[str, object]) -> dict[str, _Value]:
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"{file}: unknown setting {key!r}{_suggestion(key, _KEYS)}")
        if key in SECRETS:
            raise UsageError(
                f"{file}: settings.{key} is a secret, and this file is visible to every reader of "
                f"the repository: set {PREFIX}{key.upper()}, or name a file with "
                f"settings.{SECRETS[key]}. The value is compromised: replace it with a new one"
            )
    return {key: _toml_value(f"{file}: settings.{key}", key, value) for key, value in table.items()}


def _toml_value(place: str, key: str, value: object) -> _Value:
    """Convert a TOML value. A number is only valid for a count: `lease = 60` has no unit."""
    if isinstance(value, str):
        return _Value(value, place)
    if key in _NUMBERS:
        if isinstance(value, int) and not isinstance(value, bool):
            return _Value(str(value), place)
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
        raise UsageError(f"{file}: the settings cannot be read: {error}") from error
    table: object = document.get("settings", {})
    if not isinstance(table, dict):
        raise UsageError(f"{file}: `settings` must be a table: [settings]")
    return table


def _reject_misspelt_variables(environment: Mapping[str, str]) -> None:
    """A typo in TENANTCRON_DATABASE_URL would silently start an embedded server instead."""
    known = [PREFIX + key.upper() for key in _KEYS]
    for name in environment:
        if name in _OF_COMMANDS or name in known or not name.startswith(PREFIX):
            continue
        if close_match(name, known):
            raise UsageError(f"unknown variable {name}{_suggestion(name, known)}")


def _suggestion(word: str, known: list[str] | tuple[str, ...]) -> str:
    match = close_match(word, known)
    return f": did you mean {match}?" if match else f"; there are {', '.join(known)}"


def _database_url(value: _Value) -> str:
    """Check only the scheme; the driver checks the rest. The text is never shown."""
    if not value.text.startswith(URL_SCHEMES):
        raise UsageError(f"{value.place} is not a PostgreSQL URL: expected {URL_EXPECTED}")
    return value.text


def _audience(value: _Value) -> str:
    if not value.text.isprintable():
        raise UsageError(f"{value.place} has unprintable characters")
    return value.text


def _safe_url(value: _Value) -> str:
    """Require TLS, because the keys are trusted; loopback addresses need none."""
    if not value.text.isprintable() or not value.text.startswith(_SAFE_SCHEMES):
        raise UsageError(f"{value.place} must begin with https://, or with http:// and localhost")
    if "@" in value.text:
        raise UsageError(f"{value.place} must have no user and no password")
    return value.text


def _schema_pattern(value: _Value) -> SchemaPattern:
    try:
        return parse_schema_pattern(value.text)
    except UsageError as error:
        raise UsageError(f"{value.place}: {error}") from None


def _service(value: _Value) -> str:
    if not is_name(value.text):
        raise UsageError(f"{value.place}: {value.text!r} is not {NAME_EXPECTED}")
    return value.text


def _is_plain(text: str) -> bool:
    """Whether a token claim can have this value."""
    return text.isprintable() and text == text.strip() and len(text) <= 255


def _own_audience(value: _Value) -> str:
    """Check the audience of our own tokens as strictly as their issuer."""
    if not _is_plain(value.text):
        raise UsageError(f"{value.place}: {value.text!a} is not an audience: a name or a URL")
    return value.text


def _issuer(value: _Value) -> str:
    if not _is_plain(value.text):
        raise UsageError(f"{value.place}: {value.text!a} is not an issuer: a name or an https URL")
    return value.text


def _master_key(value: _Value) -> str:
    """Validate a master key now rather than at first use; the text is never shown."""
    try:
        parse_master_keys(value.text)
    except MasterKeyError as error:
        raise UsageError(f"{value.place}: {error}") from None
    return value.text


def _text(value: _Value) -> str:
    return value.text


def _path(value: _Value) -> Path:
    return Path(value.text)


def _label_keys(value: _Value) -> tuple[str, ...]:
    keys = _names(value)
    for key in keys:
        if not is_label_key(key):
            raise UsageError(f"{value.place}: {key!a} is not {KEY_EXPECTED}")
    if len(keys) > MOST_METRICS_LABELS:
        raise UsageError(f"{value.place} has {len(keys)} keys: at most {MOST_METRICS_LABELS}")
    return keys


def _hosts(value: _Value) -> tuple[str, ...]:
    hosts = _names(value)
    for host in hosts:
        if not is_host_pattern(host):
            raise UsageError(f"{value.place}: {host!a} is not {HOST_EXPECTED}")
    return hosts


def _names(value: _Value) -> tuple[str, ...]:
    """Parse comma-separated names; duplicates count once."""
    names = (name.strip() for name in value.text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def _count(value: _Value) -> int:
    return whole_number(value.text, value.place, MOST_CONCURRENT, least=1)


def _versions(value: _Value) -> int:
    return whole_number(value.text, value.place, MOST_CONCURRENT, least=LEAST_VERSIONS)


def whole_number(text: str, place: str, most: int, *, least: int = 0) -> int:
    """Parse a number; raise a UsageError with its place if it is invalid."""
    digits = text.isascii() and text.isdigit() and len(text) <= 9
    if not digits or not least <= int(text) <= most:
        raise UsageError(f"{place}: {text!r} is not a whole number from {least} to {most}")
    return int(text)


def _up_to(most: int) -> Callable[[_Value], int]:
    return lambda value: whole_number(value.text, value.place, most)


def _duration(value: _Value) -> timedelta:
    try:
        return parse_duration(value.text)
    except DurationError:
        raise UsageError(f"{value.place}: {value.text!r} is not {EXPECTED}") from None


def _at_least(shortest: timedelta) -> Callable[[_Value], timedelta]:
    def read(value: _Value) -> timedelta:
        duration = _duration(value)
        if duration < shortest:
            least = format_duration(shortest)
            raise UsageError(f"{value.place}: {value.text!r} is too short: at least {least}")
        return duration

    return read


def _token_lifetime(value: _Value) -> timedelta:
    lifetime = _at_least(SHORTEST_TOKEN)(value)
    if lifetime > LONGEST_TOKEN:
        most = format_duration(LONGEST_TOKEN)
        raise UsageError(f"{value.place}: {value.text!r} is too long: at most {most}")
    return lifetime


def _memory(value: _Value) -> int:
    try:
        size = parse_size(value.text)
    except SizeError:
        raise UsageError(f"{value.place}: {value.text!r} is not {SIZE_EXPECTED}") from None
    if size < LEAST_MEMORY:
        least = format_size(LEAST_MEMORY)
        raise UsageError(f"{value.place}: {value.text!r} is too small: at least {least}")
    return size


def _file_in(folder: Path) -> Callable[[_Value], Path]:
    """Return the path of a file; its reader reports problems with it."""
    return lambda value: folder / value.text


def _one_of(kind: type[E]) -> Callable[[_Value], E]:
    def read(value: _Value) -> E:
        for member in kind:
            if member.value == value.text:
                return member
        raise UsageError(f"{value.place}: {value.text!r} is not one of {', '.join(kind)}")

    return read
