"""The settings of a command: the environment, the working directory, and the chosen database."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Final

from tenantcron.cli.clusters.targets import ChosenDatabase
from tenantcron.core.settings import PREFIX, Settings, load_settings

_OF_SETTINGS: Final = ChosenDatabase()

_database: ContextVar[ChosenDatabase] = ContextVar("database", default=_OF_SETTINGS)


def current_settings() -> Settings:
    """Return the settings of the environment and the working directory."""
    chosen = _database.get()
    if chosen.url is not None:
        return load_settings({**os.environ, f"{PREFIX}DATABASE_URL": chosen.url}, Path.cwd())
    settings = load_settings(os.environ, Path.cwd())
    return replace(settings, database_url=None) if chosen.is_embedded else settings


def is_embedded_requested() -> bool:
    """Whether the embedded database was chosen by name."""
    return _database.get().is_embedded


@contextmanager
def using_database(chosen: ChosenDatabase) -> Iterator[None]:
    """Let commands in the block use this database."""
    before = _database.set(chosen)
    try:
        yield
    finally:
        _database.reset(before)
