"""Shared by commands that use the database: settings, the connection, the actor."""

import asyncio
import getpass
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.origin import RESERVED_PREFIXES, deploying_actor, looks_authenticated
from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.memory import FLEET, collect_rarely
from tenantcron.core.settings import Settings, load_settings
from tenantcron.core.words import visible
from tenantcron.migrations.runner import migrate_control
from tenantcron.store.connection.engine import PATIENCE, Database, open_database
from tenantcron.store.schema.versions import require_migrated

T = TypeVar("T")


def with_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Run work on the configured database."""

    collect_rarely(FLEET)

    async def run() -> T:
        async with migrated_database() as database:
            return await work(database)

    return asyncio.run(run())


def current_settings() -> Settings:
    """Return the settings of the environment and the working directory."""
    return load_settings(os.environ, Path.cwd())


@asynccontextmanager
async def migrated_database(patience: timedelta = PATIENCE) -> AsyncIterator[Database]:
    """Open the database. Migrate the embedded one; require that any other is migrated."""
    settings = current_settings()
    async with open_database(settings, patience) as database:
        if settings.database_url is None:
            await migrate_control(database)
        else:
            async with database.transaction() as connection:
                await require_migrated(connection)
        yield database


def refused(error: TenantcronError) -> int:
    """Print why a change was refused and return its exit code."""
    print(f"error: {error}", file=sys.stderr)
    return 1


def acting(given: str | None) -> Attribution:
    """Return the actor: --actor, else the pipeline, else the login name.

    All records of a command share a correlation id.
    """
    if given is not None and looks_authenticated(given):
        raise UsageError(
            f"--actor {visible(given)}: the prefixes {', '.join(RESERVED_PREFIXES)} are reserved "
            "for authenticated callers; use another name"
        )
    try:
        login = getpass.getuser()
    except (OSError, KeyError):  # a container user without a name
        login = None
    return Attribution(deploying_actor(os.environ, login, given), uuid4())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop of uvloop if the extra `fast` is installed, else None."""
    try:
        import uvloop  # noqa: PLC0415 -- an extra
    except ImportError:
        return None
    return uvloop.new_event_loop
