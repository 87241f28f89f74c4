"""Start the schedules of the tenant meadow yesterday, as if no scheduler had run since.

The scheduler then catches up as after a night of downtime: the executions that the dashboard shows
for the last hours did run, only later. Nothing is inserted into the history manually.
"""

import asyncio
import os
from pathlib import Path

from sqlalchemy import text

from tenantcron.core.settings import load_settings
from tenantcron.store.connection.engine import open_database

START_YESTERDAY = text(
    "UPDATE tenant_meadow.tenant_schedule SET effective_from = now() - interval '23 hours'"
)


async def main() -> None:
    """Change the start time; the audit records it as a manual change."""
    settings = load_settings(os.environ, Path.cwd())
    async with open_database(settings) as database, database.transaction() as connection:
        await connection.execute(START_YESTERDAY)


if __name__ == "__main__":
    asyncio.run(main())
