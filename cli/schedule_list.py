"""`tenantcron schedule list`: lists the live schedules of tenants as a stream.

Tenants are read page by page, ordered by id, and each page is printed before the next one is read.
Output starts at once, and memory holds a single page. Tenants whose schema cannot be read are kept
until the end, because the JSON output lists them last.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Protocol

from tenantcron.cli.database import refused, with_database
from tenantcron.cli.formats.outcomes_text import schedule_lines
from tenantcron.cli.operating import scope
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.tables import columns_available
from tenantcron.cli.tenant_list import tenant_pages
from tenantcron.cli.terminal import Palette
from tenantcron.core.errors import UsageError
from tenantcron.core.json_stream import JsonStream
from tenantcron.core.names import TenantId
from tenantcron.core.words import visible
from tenantcron.reconciler.outcome import all_schedules
from tenantcron.reconciler.state import LiveState, read_states
from tenantcron.scheduler.inspect.schedule_status import UnknownError, existing_tenant
from tenantcron.service.responses.outcomes import schedule
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import provided_cursors, schedule_cursors
from tenantcron.store.rows.schedule_cursors import CursorRow

TENANTS_A_PAGE = 300

# Cursors of schedules that no manifest declares.
Provided = Sequence[CursorRow]


class ScheduleListWriter(Protocol):
    """Writes a list of schedules, tenant by tenant."""

    def tenant(self, tenant: TenantId, state: LiveState, provided: Provided) -> None:
        """Write the schedules of a tenant, with those that no manifest declares."""

    def end(self) -> None:
        """Finish the list after the last tenant."""


def run(arguments: argparse.Namespace) -> int:
    """List schedules; return 1 if the schema of a tenant cannot be read."""
    kind: Callable[[datetime], ScheduleListWriter] = _JsonList
    if arguments.format == "text":
        kind = partial(_TextList, columns_available(is_wide=arguments.wide))

    tenant, name = scope(arguments)
    if name is not None:
        raise UsageError(
            f"a list covers all schedules of a tenant: use `schedule show {tenant}/{name}`"
        )

    async def work(database: Database) -> int:
        async with database.transaction() as connection:
            if tenant is not None:
                await existing_tenant(connection, tenant)
            now = await database_time(connection)
        return await _write(partial(kind, now), database, tenant)

    try:
        return with_database(work)
    except UnknownError as error:
        return refused(error)


async def _write(
    begin: Callable[[], ScheduleListWriter], database: Database, only: TenantId | None
) -> int:
    broken = False
    with reader_may_leave():
        # Inside the block: the first line can already fail if the reader is gone.
        writer = begin()
        async for page in _pages(database, only):
            async with database.transaction() as connection:
                provided = await provided_cursors.of_tenants(connection, page)
                faults = await schedule_cursors.faults(connection, page)
            for tenant, state in (await read_states(database, page)).items():
                broken = broken or state.broken is not None
                held = replace(state, faults=faults.get(tenant, {}))
                writer.tenant(tenant, held, provided.get(tenant, ()))
            # Show the page while the next one is read.
            sys.stdout.flush()
        writer.end()
    return int(broken)


async def _pages(database: Database, only: TenantId | None) -> AsyncIterator[Sequence[TenantId]]:
    """Yield the ids of tenants, page by page."""
    if only is not None:
        yield [only]
        return
    async for page in tenant_pages(database, TENANTS_A_PAGE):
        yield [row.id for row in page]


class _TextList:
    """Writes a table per tenant."""

    def __init__(self, columns: int, now: datetime) -> None:
        self._now = now
        self._paint = Palette(sys.stdout)
        self._width = columns
        self._tenants = 0

    def tenant(self, tenant: TenantId, state: LiveState, provided: Provided) -> None:
        self._tenants += 1
        print(self._paint("strong", tenant))
        if state.broken:
            print(self._paint("error", visible(f"  cannot be read: {state.broken}")))
        if state.live or provided:
            live = [schedule(found) for found in all_schedules(state, provided, self._now)]
            for line in schedule_lines(live, self._now, self._paint, self._width):
                print(line)
        elif not state.broken:
            print("  no schedules")

    def end(self) -> None:
        if not self._tenants:
            print("no tenants yet: `tenantcron tenant create ID`")


class _JsonList:
    """Writes all schedules, then the tenants whose schema cannot be read."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._failed: list[dict[str, str]] = []
        self._stream = JsonStream(sys.stdout)
        self._stream.open_list("schedules")

    def tenant(self, tenant: TenantId, state: LiveState, provided: Provided) -> None:
        if state.broken:
            self._failed.append({"tenant": tenant, "error": state.broken})
        for live in all_schedules(state, provided, self._now):
            self._stream.item({"tenant": tenant, **schedule(live)})

    def end(self) -> None:
        self._stream.close_list()
        self._stream.value("failed", self._failed)
        self._stream.close()
        print()
