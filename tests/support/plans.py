"""Plans of the hot statements, as Postgres ran them."""

import json
from collections.abc import Iterator
from typing import Any

from support.scheduling import Scheduling

from tenantcron.store.steps.statements import statement


async def explained(scheduling: Scheduling, name: str, /, **parameters: object) -> dict[str, Any]:
    """Run a statement, roll it back, and return its plan."""
    async with scheduling.database.transaction(by_key=True) as connection:
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement(name)}"
        found = (await connection.exec_driver_sql(text, parameters)).scalar_one()
        await connection.rollback()
    document = json.loads(found) if isinstance(found, str) else found
    plan: dict[str, Any] = document[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def touched(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
