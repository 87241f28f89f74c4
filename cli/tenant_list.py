"""`tenantcron tenant list`: lists all tenants as a stream.

Each page is printed before the next one is read. The first page determines whether labels are shown
and how wide the columns are. A later line may exceed a column if the line still fits.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from functools import partial

from tenantcron.cli.columns import Column, TextColumns
from tenantcron.cli.database import with_database
from tenantcron.cli.formats.tenants_text import cells, columns
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.tables import columns_available
from tenantcron.cli.terminal import Palette
from tenantcron.core.json_stream import JsonStream
from tenantcron.core.labels import LabelFilter, read_filter
from tenantcron.service.responses.tenants import tenant_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenants
from tenantcron.store.rows.tenants import TenantFilter, TenantRow

_Pages = AsyncIterator[Sequence[TenantRow]]
TENANTS_A_PAGE = 1_000
_NONE_YET = "no tenants yet: `tenantcron tenant create ID`"


def run(arguments: argparse.Namespace) -> int:
    """list tenants"""
    write: Callable[[_Pages, str], Coroutine[None, None, None]] = _write_json
    if arguments.format == "text":
        write = partial(_write_text, columns_available(is_wide=arguments.wide))
    labels = [read_filter(text) for text in arguments.label]
    none = "no tenant has these labels" if labels else _NONE_YET

    async def work(database: Database) -> None:
        with reader_may_leave():
            await write(tenant_pages(database, TENANTS_A_PAGE, labels), none)

    with_database(work)
    return 0


async def tenant_pages(
    database: Database, size: int, labels: Collection[LabelFilter] = ()
) -> AsyncIterator[Sequence[TenantRow]]:
    """Yield the tenants by id, page by page; each page is read in its own transaction."""
    wanted, after = TenantFilter(labels=labels), None
    while True:
        async with database.transaction() as connection:
            page = await tenants.page(connection, wanted, after=after, limit=size)
        if page:
            yield page
        if len(page) < size:
            return
        after = page[-1].id


async def _write_text(available: int, pages: _Pages, none: str) -> None:
    paint, fitted = Palette(sys.stdout), None
    shown: tuple[Column, ...] = ()
    async for page in pages:
        shown = shown or columns(page)
        rows = [cells(row, shown) for row in page]
        if fitted is None:
            fitted = TextColumns.fitting(shown, rows, available)
            for line in fitted.head(paint):
                print(line)
        for row in rows:
            for line in fitted.row(row, paint):
                print(line)
        # Show the page while the next one is read.
        sys.stdout.flush()
    if fitted is None:
        print(none)


async def _write_json(
    pages: _Pages,
    none: str,  # noqa: ARG001 -- JSON has an empty list instead
) -> None:
    stream = JsonStream(sys.stdout)
    stream.open_list("tenants")
    async for page in pages:
        for row in page:
            stream.item(tenant_as_json(row))
        sys.stdout.flush()
    stream.close_list()
    stream.close()
    print()
