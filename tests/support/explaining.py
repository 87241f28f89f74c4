"""The plans of what reading sends to the database."""

import json
from typing import Any

from sqlalchemy import event

from tenantcron.store.engine import Database


async def explained(database: Database, read: Any) -> str:
    """Return the plans of what is sent to the database to read a page, as a request sends it."""
    sent: list[tuple[str, Any]] = []

    def collect(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if statement.startswith("SELECT"):
            sent.append((statement, parameters))

    engine = database.engine.sync_engine
    async with database.seen_by(None).transaction() as connection:
        event.listen(engine, "before_cursor_execute", collect)
        await read(connection)
        event.remove(engine, "before_cursor_execute", collect)
        plans = [
            (await connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {one}", given)).scalar_one()
            for one, given in sent
        ]
    return json.dumps(plans)
