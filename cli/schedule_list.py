"""`tenantcron schedule list`: lists the live schedules of tenants as a stream.

Tenants are read page by page, ordered by id, and each page is printed before the next one is read.
Output starts at once, and memory holds a single page. Tenants whose schema cannot be read are kept
until the end, because the JSON output lists them last.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from tenantcron.cli.clusters.choice import with_cluster
from tenantcron.cli.clusters.cluster import ClusterAccess, TenantSchedules
from tenantcron.cli.formats.listings import listing_writer
from tenantcron.cli.formats.outcomes_text import (
    ScheduleTable,
    first_execution,
    pause_lines,
    schedule_lines,
)
from tenantcron.cli.operating import add_cluster, add_format, add_tenant, future, scope
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.responding import declined, resolved
from tenantcron.cli.tables import columns_available
from tenantcron.cli.terminal import Palette
from tenantcron.cli.watching import add_watch, repeated
from tenantcron.core.errors import DeclinedError, UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.words import visible
from tenantcron.service.responses.shapes import ScheduleResponse


@dataclass(frozen=True, slots=True)
class ListedSchedules:
    """Filters of a list; None and False match all."""

    until: datetime | None
    is_paused: bool

    @property
    def is_set(self) -> bool:
        """Whether it can drop a schedule."""
        return self.until is not None or self.is_paused

    def matching(self, schedules: Sequence[ScheduleResponse]) -> Sequence[ScheduleResponse]:
        """Return the schedules to list."""
        return [schedule for schedule in schedules if self._matches(schedule)]

    def _matches(self, schedule: ScheduleResponse) -> bool:
        if self.is_paused and schedule["paused"] is None:
            return False
        if self.until is None:
            return True
        first = first_execution(schedule)
        return first is not None and first < self.until


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tenant(parser)
    words = "list those that fire before TIME, such as 2h or 18:00"
    parser.add_argument("--until", metavar="TIME", type=future, help=words)
    words = "list paused schedules, with the reason"
    parser.add_argument("--paused", action="store_true", help=words)
    add_cluster(parser)
    add_format(parser, has_table=True, listing="schedules")
    add_watch(parser)
    parser.set_defaults(run=run)


class ScheduleListWriter(Protocol):
    """Writes a list of schedules, tenant by tenant."""

    def tenant(self, found: TenantSchedules) -> None:
        """Write the schedules of a tenant."""

    def end(self, *, is_filtered: bool) -> None:
        """Finish the list after the last tenant."""


def run(arguments: argparse.Namespace) -> int:
    """List schedules; return 1 if the schema of a tenant cannot be read."""
    kind: Callable[[datetime], ScheduleListWriter] = partial(_ItemList, arguments.format)
    if arguments.format == "text":
        table = pause_lines if arguments.paused else schedule_lines
        kind = partial(_TextList, table, columns_available(is_wide=arguments.wide))

    tenant, name = scope(arguments)
    if name is not None:
        raise UsageError(
            f"a list covers all schedules of a tenant: use `schedule show {tenant}/{name}`"
        )

    async def work(cluster: ClusterAccess) -> int:
        until = await resolved(cluster, arguments.until)
        return await _write(kind, cluster, tenant, ListedSchedules(until, arguments.paused))

    try:
        return with_cluster(arguments, repeated(arguments, work))
    except DeclinedError as error:
        return declined(error)


async def _write(
    kind: Callable[[datetime], ScheduleListWriter],
    cluster: ClusterAccess,
    only: TenantId | None,
    filters: ListedSchedules,
) -> int:
    broken, writer = False, None
    pages, now = cluster.schedules.pages(only), await cluster.now()
    # An unknown tenant is reported before anything is printed. The default is not an empty
    # tuple: for that, CPython 3.11 raises a SystemError at the end of the pages.
    first = await anext(pages, None)
    with reader_may_leave():
        # Inside the block: the first line can already fail if the reader is gone.
        writer = kind(now)
        page = first
        while page:
            for found in page:
                broken = broken or found.error is not None
                shown = replace(found, schedules=filters.matching(found.schedules))
                if shown.schedules or shown.error or not filters.is_set:
                    writer.tenant(shown)
            # Show the page while the next one is read.
            sys.stdout.flush()
            page = await anext(pages, None)
        writer.end(is_filtered=filters.is_set)
    return int(broken)


class _TextList:
    """Writes a table per tenant."""

    def __init__(self, table: ScheduleTable, columns: int, now: datetime) -> None:
        self._table = table
        self._now = now
        self._paint = Palette(sys.stdout)
        self._width = columns
        self._tenants = 0

    def tenant(self, found: TenantSchedules) -> None:
        self._tenants += 1
        print(self._paint("strong", found.tenant))
        if found.error:
            print(self._paint("error", visible(f"  cannot be read: {found.error}")))
        if found.schedules:
            for line in self._table(found.schedules, self._now, self._paint, self._width):
                print(line)
        elif not found.error:
            print("  no schedules")

    def end(self, *, is_filtered: bool) -> None:
        if not self._tenants:
            none = "no tenants yet: `tenantcron tenant create ID`"
            print("no schedules match" if is_filtered else none)


class _ItemList:
    """Writes all schedules for programs, then the tenants whose schema cannot be read."""

    def __init__(self, output_format: str, _: datetime) -> None:
        self._failed: list[dict[str, str]] = []
        self._listing = listing_writer(output_format, "schedules")

    def tenant(self, found: TenantSchedules) -> None:
        if found.error:
            self._failed.append({"tenant": found.tenant, "error": found.error})
        for schedule in found.schedules:
            self._listing.item({"tenant": found.tenant, **schedule})

    def end(self, *, is_filtered: bool) -> None:  # noqa: ARG002 -- an empty list needs no words
        self._listing.end({"failed": self._failed})
