"""Readers of setting values: each parses the text of a setting, or raises a UsageError.

An error names the place of the value: the environment variable, or the file and the key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from tenantcron.core.durations import EXPECTED, DurationError, format_duration, parse_duration
from tenantcron.core.egress import Url, read_url
from tenantcron.core.errors import UsageError
from tenantcron.core.hosts import EXPECTED as HOST_EXPECTED
from tenantcron.core.hosts import is_host_pattern
from tenantcron.core.labels import KEY_EXPECTED, is_label_key
from tenantcron.core.master_keys import MasterKeyError, parse_master_keys
from tenantcron.core.names import NAME_EXPECTED, is_name
from tenantcron.core.schema_names import SchemaPattern, parse_schema_pattern
from tenantcron.core.secret_refs import SecretRef, parse_ref
from tenantcron.core.sizes import EXPECTED as SIZE_EXPECTED
from tenantcron.core.sizes import SizeError, format_size, parse_size

URL_SCHEMES = ("postgresql://", "postgres://")
BUS_EXPECTED = "nats://host:4222 or kafka://host:9092/topic"
TEMPORAL_EXPECTED = "host:port such as temporal.internal:7233; http://host:port is without TLS"
URL_EXPECTED = "postgresql://user:password@host:port/database"
NEVER = "never"
MOST_CONCURRENT = 100_000
LEAST_MEMORY = 128 * 1024**2
# The database enforces this (migration 0013_record_retention).
LEAST_VERSIONS = 10
SHORTEST_TOKEN = timedelta(seconds=30)
LONGEST_TOKEN = timedelta(hours=1)
MOST_METRICS_LABELS = 5

_SAFE_SCHEMES = ("https://", "http://127.0.0.1:", "http://localhost:", "http://[::1]:")

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value and its place, for error messages."""

    text: str
    place: str


def database_url(value: SettingValue) -> str:
    """Check only the scheme; the driver checks the rest. The text is never shown."""
    if not value.text.startswith(URL_SCHEMES):
        raise UsageError(f"{value.place} is not a PostgreSQL URL: expected {URL_EXPECTED}")
    return value.text


def bus_url(value: SettingValue) -> str:
    """Reject credentials, which settings would show; the adapter checks the rest."""
    if not value.text.isprintable() or "://" not in value.text:
        raise UsageError(f"{value.place} is not the URL of an event bus: expected {BUS_EXPECTED}")
    if "@" in value.text:
        raise UsageError(
            f"{value.place} must have no user and no password: name a secret with "
            "event_bus_credentials"
        )
    return value.text


def secret_ref(value: SettingValue) -> SecretRef:
    """Read the reference of a secret. A text that is not one may be the secret: it is not shown."""
    ref = parse_ref(value.text)
    if ref is None:
        raise UsageError(f"{value.place} is not env:NAME or file:/path")
    return ref


def temporal_address(value: SettingValue) -> Url:
    """Read `host:port`; with `http://` before it, the connection has no TLS."""
    is_plaintext, port = value.text.startswith("http://"), value.text.rpartition(":")[2]
    url = read_url(value.text if is_plaintext else f"https://{value.text}")
    if url is None or url.target != "/" or not port.isdigit():
        raise UsageError(f"{value.place}: {value.text!a} is not {TEMPORAL_EXPECTED}")
    return url


def audience(value: SettingValue) -> str:
    """Read the audience of tokens of an OIDC issuer."""
    if not value.text.isprintable():
        raise UsageError(f"{value.place} has unprintable characters")
    return value.text


def safe_url(value: SettingValue) -> str:
    """Require TLS, because the keys are trusted; loopback addresses need none."""
    if not value.text.isprintable() or not value.text.startswith(_SAFE_SCHEMES):
        raise UsageError(f"{value.place} must begin with https://, or with http:// and localhost")
    if "@" in value.text:
        raise UsageError(f"{value.place} must have no user and no password")
    return value.text


def schema_pattern(value: SettingValue) -> SchemaPattern:
    """Read the naming pattern of tenant schemas."""
    try:
        return parse_schema_pattern(value.text)
    except UsageError as error:
        raise UsageError(f"{value.place}: {error}") from None


def service(value: SettingValue) -> str:
    """Read the name of a service."""
    if not is_name(value.text):
        raise UsageError(f"{value.place}: {value.text!r} is not {NAME_EXPECTED}")
    return value.text


def _is_plain(text: str) -> bool:
    """Whether a token claim can have this value."""
    return text.isprintable() and text == text.strip() and len(text) <= 255


def own_audience(value: SettingValue) -> str:
    """Check the audience of our own tokens as strictly as their issuer."""
    if not _is_plain(value.text):
        raise UsageError(f"{value.place}: {value.text!a} is not an audience: a name or a URL")
    return value.text


def issuer(value: SettingValue) -> str:
    """Read the issuer of our own tokens."""
    if not _is_plain(value.text):
        raise UsageError(f"{value.place}: {value.text!a} is not an issuer: a name or an https URL")
    return value.text


def master_key(value: SettingValue) -> str:
    """Validate a master key now rather than at first use; the text is never shown."""
    try:
        parse_master_keys(value.text)
    except MasterKeyError as error:
        raise UsageError(f"{value.place}: {error}") from None
    return value.text


def text(value: SettingValue) -> str:
    """Return the text unchanged."""
    return value.text


def path(value: SettingValue) -> Path:
    """Read a path."""
    return Path(value.text)


def label_keys(value: SettingValue) -> tuple[str, ...]:
    """Read the keys of labels."""
    keys = names(value)
    for key in keys:
        if not is_label_key(key):
            raise UsageError(f"{value.place}: {key!a} is not {KEY_EXPECTED}")
    if len(keys) > MOST_METRICS_LABELS:
        raise UsageError(f"{value.place} has {len(keys)} keys: at most {MOST_METRICS_LABELS}")
    return keys


def hosts(value: SettingValue) -> tuple[str, ...]:
    """Read patterns of host names."""
    hosts = names(value)
    for host in hosts:
        if not is_host_pattern(host):
            raise UsageError(f"{value.place}: {host!a} is not {HOST_EXPECTED}")
    return hosts


def names(value: SettingValue) -> tuple[str, ...]:
    """Parse comma-separated names; duplicates count once."""
    names = (name.strip() for name in value.text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def count(value: SettingValue) -> int:
    """Read a number from 1."""
    return whole_number(value.text, value.place, MOST_CONCURRENT, least=1)


def versions(value: SettingValue) -> int:
    """Read the number of manifest versions to keep."""
    return whole_number(value.text, value.place, MOST_CONCURRENT, least=LEAST_VERSIONS)


def whole_number(text: str, place: str, most: int, *, least: int = 0) -> int:
    """Parse a number; raise a UsageError with its place if it is invalid."""
    digits = text.isascii() and text.isdigit() and len(text) <= 9
    if not digits or not least <= int(text) <= most:
        raise UsageError(f"{place}: {text!r} is not a whole number from {least} to {most}")
    return int(text)


def up_to(most: int) -> Callable[[SettingValue], int]:
    """Return a reader of a number from 0 up to a maximum."""
    return lambda value: whole_number(value.text, value.place, most)


def duration(value: SettingValue) -> timedelta:
    """Read a duration."""
    try:
        return parse_duration(value.text)
    except DurationError:
        raise UsageError(f"{value.place}: {value.text!r} is not {EXPECTED}") from None


def at_least(shortest: timedelta) -> Callable[[SettingValue], timedelta]:
    """Return a reader of a duration with a minimum."""

    def read(value: SettingValue) -> timedelta:
        length = duration(value)
        if length < shortest:
            least = format_duration(shortest)
            raise UsageError(f"{value.place}: {value.text!r} is too short: at least {least}")
        return length

    return read


def unless_never(
    read: Callable[[SettingValue], timedelta],
) -> Callable[[SettingValue], timedelta | None]:
    """Return a reader of a duration that may be `never`, which is None."""

    def read_or_never(value: SettingValue) -> timedelta | None:
        return None if value.text == NEVER else read(value)

    return read_or_never


def token_lifetime(value: SettingValue) -> timedelta:
    """Read the lifetime of tokens."""
    lifetime = at_least(SHORTEST_TOKEN)(value)
    if lifetime > LONGEST_TOKEN:
        most = format_duration(LONGEST_TOKEN)
        raise UsageError(f"{value.place}: {value.text!r} is too long: at most {most}")
    return lifetime


def memory(value: SettingValue) -> int:
    """Read the memory limit of a scheduler."""
    try:
        size = parse_size(value.text)
    except SizeError:
        raise UsageError(f"{value.place}: {value.text!r} is not {SIZE_EXPECTED}") from None
    if size < LEAST_MEMORY:
        least = format_size(LEAST_MEMORY)
        raise UsageError(f"{value.place}: {value.text!r} is too small: at least {least}")
    return size


def file_in(folder: Path) -> Callable[[SettingValue], Path]:
    """Return a reader of a path below a folder; the code that opens the file reports problems."""
    return lambda value: folder / value.text


def one_of(kind: type[E]) -> Callable[[SettingValue], E]:
    """Return a reader of a member of an enum."""

    def read(value: SettingValue) -> E:
        for member in kind:
            if member.value == value.text:
                return member
        raise UsageError(f"{value.place}: {value.text!r} is not one of {', '.join(kind)}")

    return read
