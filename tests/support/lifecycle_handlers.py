"""Handlers of `support.lifecycle`, async and synchronous; each writes to the tenant's schema."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from tenantcron import Execution, saga

SAGAS = ("write_in_the_loop", "write_in_a_thread")
WRITE = text("INSERT INTO effect VALUES (:id) RETURNING at, late")


def check(row: Any) -> None:
    """Fail if the driver could not parse values of a platform's tables."""
    if not isinstance(row.at, datetime) or row.late != timedelta(days=1, hours=2):
        raise ValueError(f"{row.at} {row.late}")


@saga(SAGAS[0])
async def write_in_the_loop(execution: Execution) -> None:
    async with execution.connection() as connection:
        check((await connection.execute(WRITE, {"id": execution.id})).one())


@saga(SAGAS[1])
def write_in_a_thread(execution: Execution) -> None:
    with execution.connection() as connection:
        check(connection.execute(WRITE, {"id": execution.id}).one())
