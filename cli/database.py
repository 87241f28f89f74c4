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
from tenantcron.cli.environment import current_settings, is_embedded_requested
from tenantcron.core.errors import UsageError
from tenantcron.core.memory import FLEET, collect_rarely
from tenantcron.core.words import visible
from tenantcron.store.connection.engine import PATIENCE, Database, open_database
from tenantcron.store.connection.errors import MigrationMissingError
from tenantcron.store.embedded.home import FOLDER, is_set_up
from tenantcron.store.schema.versions import require_migrated

T = TypeVar("T")


def with_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Run work on the configured database."""

    collect_rarely(FLEET)

    async def run() -> T:
        async with migrated_database() as database:
            return await work(database)

    return asyncio.run(run())


@asynccontextmanager
async def migrated_database(patience: timedelta = PATIENCE) -> AsyncIterator[Database]:
    """Open the database. Migrate the embedded one; require that any other is migrated."""
    settings = current_settings()
    is_created = settings.database_url is None and not is_set_up(settings.folder)
    async with open_database(settings, patience) as database:
        if is_created:
            _announce(settings.folder)
        try:
            async with database.transaction() as connection:
                await require_migrated(connection)
        except MigrationMissingError:
            if settings.database_url is not None:
                raise
            await _migrate_embedded(database)
        yield database


def _announce(folder: Path) -> None:
    """Report a new embedded database: the caller may have meant another cluster."""
    if not is_embedded_requested():
        print(
            f"created an embedded database in {folder / FOLDER}; set TENANTCRON_DATABASE_URL, "
            "TENANTCRON_SERVER or a context to use another",
            file=sys.stderr,
        )


async def _migrate_embedded(database: Database) -> None:
    """Migrate the control schema, as the first command after an upgrade does."""
    from tenantcron.migrations.runner import migrate_control  # noqa: PLC0415 -- rarely needed

    await migrate_control(database)


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
