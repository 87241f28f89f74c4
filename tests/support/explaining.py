"""The query plans of read statements."""

import json
from typing import Any

from sqlalchemy import event

from tenantcron.store.connection.engine import Database


async def explained(database: Database, read: Any, *, as_owner: bool = False) -> str:
    """Return the plans of all statements that a read sends, as in a request or as the owner."""
    sent: list[tuple[str, Any]] = []

    def collect(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if statement.startswith("SELECT"):
            sent.append((statement, parameters))

    engine = database.engine.sync_engine
    seen = database if as_owner else database.seen_by(None)
    async with seen.transaction() as connection:
        event.listen(engine, "before_cursor_execute", collect)
        await read(connection)
        event.remove(engine, "before_cursor_execute", collect)
        plans = [
            (
                await connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values)
            ).scalar_one()
            for statement, values in sent
        ]
    return json.dumps(plans)
