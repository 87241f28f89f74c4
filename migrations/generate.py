"""Write `objects.txt` of both histories: `python -m tenantcron.migrations.generate migrations`.

It migrates an embedded server in a temporary folder and reads its catalog.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from tenantcron.core.settings import Settings
from tenantcron.migrations.expected import FILE_NAME
from tenantcron.migrations.runner import migrate
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.schema.catalog import objects_of
from tenantcron.store.schema.tables import CONTROL_SCHEMA
from tenantcron.store.schema.tenant_tables import create_tenant_schema

_SAMPLE = "tenant_sample"


async def built_objects(database: Database) -> dict[str, list[str]]:
    """Return the objects that migrations and the creation of a tenant build, by history."""
    await migrate(database)
    async with database.transaction() as connection:
        await create_tenant_schema(connection, _SAMPLE)
        return {
            "control": await objects_of(connection, CONTROL_SCHEMA),
            "tenant": await objects_of(connection, _SAMPLE),
        }


async def _write(migrations: Path) -> None:
    with TemporaryDirectory(prefix="tenantcron-") as folder:
        settings = Settings(folder=Path(folder), embedded_linger=timedelta(0))
        async with open_database(settings) as database:
            built = await built_objects(database)
    for history, lines in built.items():
        (migrations / history / FILE_NAME).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1])))
