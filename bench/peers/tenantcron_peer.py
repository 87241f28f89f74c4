"""tenantcron itself: schedules of 200 tenants, and executions that wait; limits on, and raised."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from noting import asked, url

TENANTS = int(os.environ.get("BENCH_TENANTS", "200"))


async def _hold(kind: str, number: int, due: float) -> None:
    sys.path.append(str(Path(__file__).parents[1]))
    from seeding import seeding  # noqa: PLC0415 -- a worker needs nothing of it

    async with seeding(url()) as filled:
        if kind == "schedules again":
            await filled.clear()
        else:
            await filled.prepare()
        await filled.add_tenants(TENANTS)
        if kind == "executions":
            await filled.add_pending(number, tenants=TENANTS)
        else:
            at = datetime.fromtimestamp(due, UTC)
            await filled.add_cursors(number, at, tenants=TENANTS)


def _work() -> None:
    """Become the command that users run."""
    environment = os.environ | {
        "TENANTCRON_DATABASE_URL": url(),
        "TENANTCRON_LOG_LEVEL": "warning",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    command = [sys.executable, "-m", "tenantcron", "run", "--handlers", "noting_saga"]
    os.execve(sys.executable, command, environment)  # noqa: S606 -- no shell is wanted


if __name__ == "__main__":
    action, kind, number, due = asked()
    if action == "hold":
        asyncio.run(_hold(kind, number, due))
    else:
        _work()
