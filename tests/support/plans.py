"""Plans of the hot statements, as Postgres ran them."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg.sql import Literal
from support.scheduling import Scheduling

from tenantcron.store.steps.statements import statement


async def explained(scheduling: Scheduling, name: str, /, **parameters: object) -> dict[str, Any]:
    """Run a statement of `store.steps`, roll it back, and return its plan."""
    return await explained_text(scheduling, statement(name), **parameters)


async def explained_text(
    scheduling: Scheduling, sql: str, /, **parameters: object
) -> dict[str, Any]:
    """Run a statement, roll it back, and return its plan."""
    async with scheduling.database.transaction(by_key=True) as connection:
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"
        found = (await connection.exec_driver_sql(text, parameters)).scalar_one()
        await connection.rollback()
    return _plan(found)


Explain = Callable[..., Awaitable[dict[str, Any]]]


@asynccontextmanager
async def prepared(scheduling: Scheduling, name: str) -> AsyncIterator[Explain]:
    """Prepare a statement, with a generic plan for what the tables have now.

    Yields a function that runs it with parameters, NULL by default, and returns the plan.
    """
    names: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", numbered, statement(name)).replace("%%", "%")
    async with scheduling.database.transaction(by_key=True) as connection:
        await connection.exec_driver_sql("SET LOCAL plan_cache_mode TO force_generic_plan")
        await connection.exec_driver_sql(f"PREPARE hot AS {text}".replace("%", "%%"), ())

        async def explain(**parameters: object) -> dict[str, Any]:
            values = ", ".join(Literal(parameters.get(key)).as_string() for key in names)
            savepoint = await connection.begin_nested()
            found = await connection.exec_driver_sql(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE hot ({values})"
            )
            plan = _plan(found.scalar_one())
            await savepoint.rollback()
            return plan

        # Postgres makes the plan when the statement runs for the first time.
        await explain()
        yield explain
        await connection.exec_driver_sql("DEALLOCATE hot")


def _plan(found: object) -> dict[str, Any]:
    document = json.loads(found) if isinstance(found, str) else found
    assert isinstance(document, list)
    plan: dict[str, Any] = document[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def touched(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
