"""`tenantcron tenant list`: lists all tenants as a stream.

Each page is printed before the next one is read. The first page determines whether labels are shown
and how wide the columns are. A later line may exceed a column if the line still fits.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial

from tenantcron.cli.clusters.choice import with_cluster
from tenantcron.cli.clusters.cluster import ClusterAccess
from tenantcron.cli.columns import Column, TextColumns
from tenantcron.cli.formats.listings import listing_writer
from tenantcron.cli.formats.tenants_text import cells, columns
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.responding import declined
from tenantcron.cli.tables import columns_available
from tenantcron.cli.terminal import Palette
from tenantcron.cli.watching import repeated
from tenantcron.core.errors import DeclinedError
from tenantcron.core.labels import read_filter
from tenantcron.service.responses.shapes import TenantResponse

_Pages = AsyncIterator[Sequence[TenantResponse]]
_NONE_YET = "no tenants yet: `tenantcron tenant create ID`"


def run(arguments: argparse.Namespace) -> int:
    """list tenants"""
    write: Callable[[_Pages, str], Coroutine[None, None, None]]
    write = partial(_write_items, arguments.format)
    if arguments.format == "text":
        write = partial(_write_text, columns_available(is_wide=arguments.wide))
    labels: list[str] = arguments.label
    for text in labels:
        read_filter(text)
    none = "no tenant has these labels" if labels else _NONE_YET

    async def work(cluster: ClusterAccess) -> int:
        with reader_may_leave():
            await write(cluster.tenants.pages(labels), none)
        return 0

    try:
        return with_cluster(arguments, repeated(arguments, work))
    except DeclinedError as error:
        return declined(error)


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


async def _write_items(
    output_format: str,
    pages: _Pages,
    none: str,  # noqa: ARG001 -- programs get an empty list instead
) -> None:
    listing = listing_writer(output_format, "tenants")
    async for page in pages:
        for row in page:
            listing.item({**row})
        sys.stdout.flush()
    listing.end({})
