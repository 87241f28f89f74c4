"""Let the schedules of the tenant meadow count from yesterday, as if no scheduler had run since.

The scheduler then catches up as it does after a night without it: what the dashboard shows of the
last hours did run, only later. Nothing is put into the history by hand.
"""

import asyncio
import os
from pathlib import Path

from sqlalchemy import text

from tenantcron.core.settings import load_settings
from tenantcron.store.engine import open_database

COUNT_FROM_YESTERDAY = text(
    "UPDATE tenant_meadow.tenant_schedule SET effective_from = now() - interval '23 hours'"
)


async def main() -> None:
    """Change when they count from; the audit puts it on record as a change by hand."""
    settings = load_settings(os.environ, Path.cwd())
    async with open_database(settings) as database, database.transaction() as connection:
        await connection.execute(COUNT_FROM_YESTERDAY)


if __name__ == "__main__":
    asyncio.run(main())
