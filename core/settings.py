"""Operational settings: from the environment, else from the `[settings]` table of tenantcron.toml.

The file is the one of the working folder. Environment variables are the keys in capitals, with
`TENANTCRON_` before them; they win, so that a deployment can override what a repository says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tenantcron.core.errors import UsageError
from tenantcron.core.names import NAME_EXPECTED, is_name
from tenantcron.core.suggest import close_match

FILE_NAME = "tenantcron.toml"
PREFIX = "TENANTCRON_"
URL_SCHEMES = ("postgresql://", "postgres://")
URL_EXPECTED = "postgresql://user:password@host:port/database"

_KEYS = ("database_url", "service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything operational. No database URL means the embedded server."""

    # It may hold a password, and a repr ends up in logs.
    database_url: str | None = field(default=None, repr=False)
    service: str = "scheduler"
    # Where `.tenantcron/` lives.
    folder: Path


def load_settings(environment: Mapping[str, str], folder: Path) -> Settings:
    """Read the settings; a wrong value or an unknown key is a UsageError that names its place."""
    _refuse_misspelt_variables(environment)
    values = _from_file(folder / FILE_NAME) | _from_environment(environment)
    return Settings(
        database_url=_database_url(values.get("database_url")),
        service=_service(values.get("service")),
        folder=folder,
    )


@dataclass(frozen=True, slots=True)
class _Value:
    """A value and the place that it came from, for the error that may become of it."""

    text: str
    place: str


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Value]:
    """An empty variable counts as not set: pipelines pass them on like that."""
    names = {key: PREFIX + key.upper() for key in _KEYS}
    return {
        key: _Value(environment[name], name) for key, name in names.items() if environment.get(name)
    }


def _from_file(file: Path) -> dict[str, _Value]:
    table = _settings_table(file)
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(f"{file}: unknown setting {key!r}{_suggestion(key, _KEYS)}")
        if not isinstance(value, str):
            raise UsageError(f"{file}: settings.{key} must be text")
    return {key: _Value(str(value), f"{file}: settings.{key}") for key, value in table.items()}


def _settings_table(file: Path) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 -- a run without a file does not pay for it

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


def _refuse_misspelt_variables(environment: Mapping[str, str]) -> None:
    """A slip in TENANTCRON_DATABASE_URL would quietly start an embedded server instead."""
    known = [PREFIX + key.upper() for key in _KEYS]
    for name in environment:
        if name.startswith(PREFIX) and name not in known and close_match(name, known):
            raise UsageError(f"unknown variable {name}{_suggestion(name, known)}")


def _suggestion(word: str, known: list[str] | tuple[str, ...]) -> str:
    match = close_match(word, known)
    return f": did you mean {match}?" if match else f"; there are {', '.join(known)}"


def _database_url(value: _Value | None) -> str | None:
    """Check the scheme only; the driver knows the rest. The text is never shown."""
    if value is None:
        return None
    if not value.text.startswith(URL_SCHEMES):
        raise UsageError(f"{value.place} is not a PostgreSQL URL: expected {URL_EXPECTED}")
    return value.text


def _service(value: _Value | None) -> str:
    if value is None:
        return "scheduler"
    if not is_name(value.text):
        raise UsageError(f"{value.place}: {value.text!r} is not {NAME_EXPECTED}")
    return value.text
