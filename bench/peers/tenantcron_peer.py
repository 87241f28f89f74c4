"""tenantcron itself: schedules of 200 tenants, executions, and tasks; limits on, and raised."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from recording import arguments, submission, url

TENANTS = int(os.environ.get("BENCH_TENANTS", "200"))
# Tasks of next year that wait beside those that are measured.
WAITING = int(os.environ.get("BENCH_WAITING", "0"))
TASKS_PER_CALL = 1_000


async def _load(kind: str, number: int, due: float) -> None:
    sys.path.append(str(Path(__file__).parents[1]))
    from seeding import seeding  # noqa: PLC0415 -- a worker does not need it

    async with seeding(url()) as seeds:
        if kind == "schedules again":
            await seeds.clear()
        else:
            await seeds.prepare()
        await seeds.add_tenants(TENANTS)
        if kind == "executions":
            await seeds.add_pending(number, tenants=TENANTS)
        elif kind == "tasks":
            await seeds.add_waiting_tasks(WAITING, tenants=TENANTS)
            _submit(number, due)
        else:
            at = datetime.fromtimestamp(due, UTC)
            await seeds.add_cursors(number, at, tenants=TENANTS)


def _submit(number: int, due: float) -> None:
    """Submit tasks as an application does, in a transaction for each batch of a tenant."""
    import psycopg  # noqa: PLC0415 -- as above

    from tenantcron import submit_many  # noqa: PLC0415 -- as above
    from tenantcron.tasks import TaskRequest  # noqa: PLC0415 -- as above

    request = TaskRequest("noop", execute_at=datetime.fromtimestamp(due, UTC))
    with psycopg.connect(url(), autocommit=True) as connection, submission():
        for batch, first in enumerate(range(0, number, TASKS_PER_CALL)):
            tasks = [request] * min(TASKS_PER_CALL, number - first)
            submit_many(connection, f"t{1 + batch % TENANTS}", tasks)


def _work() -> None:
    """Replace this process with the command that users run."""
    environment = os.environ | {
        "TENANTCRON_DATABASE_URL": url(),
        "TENANTCRON_LOG_LEVEL": "warning",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    command = [sys.executable, "-m", "tenantcron", "run", "--handlers", "recording_saga"]
    os.execve(sys.executable, command, environment)  # noqa: S606 -- no shell needed


if __name__ == "__main__":
    action, kind, number, due = arguments()
    if action == "load":
        asyncio.run(_load(kind, number, due))
    else:
        _work()
