"""A handler that kills its worker, in real processes: only its execution is dead."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet import Shell, manifest
from support.processes import Fleet, all_ended, executions, query, until

# Effects are recorded in separate transactions, which a killed process does not roll back.
HANDLERS = '''
"""Handlers that note what they did, and one that kills its worker."""
import asyncio, os
import psycopg
from tenantcron.targets.python.registry import saga

async def note(execution):
    url = os.environ["TENANTCRON_DATABASE_URL"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "INSERT INTO public.effect VALUES (%s, %s)", (execution.id, execution.saga_name)
        )

@saga("kill")
async def kill(execution):
    await note(execution)
    # Whatever was claimed with it has begun by then.
    await asyncio.sleep(0.3)
    os._exit(137)

async def work(execution):
    await asyncio.sleep(0.6)
    await note(execution)

for number in range(4):
    saga(f"work{number}")(work)
'''
TENANTS = ("acme", "beta", "cosy", "dune", "echo")
INNOCENT = 4 * len(TENANTS)
# A killed process keeps its leases until they expire; here that takes no time.
EXPIRE = (
    "UPDATE tenantcron.execution SET lease_until = now() - interval '1 second'"
    " WHERE state = 'RUNNING' AND worker_id LIKE %s"
)


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    """Five tenants with four schedules each, and one with a handler that kills."""
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    once = 'cron: "0 0 1 1 *", start_within: 1h, retry: {max_attempts: 1}'
    sagas = {f"work{number}": once for number in range(4)}
    for tenant, schedules in {**dict.fromkeys(TENANTS, sagas), "zero": {"kill": once}}.items():
        (tmp_path / f"{tenant}.yaml").write_text(manifest(tenant, schedules), encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    query(database_url, "CREATE TABLE public.effect (execution_id uuid, saga text)")
    query(database_url, "UPDATE tenantcron.limits SET operator = 100")
    fleet = Fleet(shell, database_url, "--handlers", "work", TENANTCRON_KILLS_ALLOWED="3")
    try:
        yield fleet
    finally:
        fleet.close()


def supervise(fleet: Fleet) -> int:
    """Restart killed processes, and return their number."""
    killed = [process for process in fleet.running if process.poll() is not None]
    for process in killed:
        assert process.returncode == 137, process.communicate()
        fleet.kill(process)
        query(fleet.url, EXPIRE, f"%:{process.pid}:%")
        fleet.start()
    return len(killed)


def test_a_handler_that_kills_its_worker_takes_no_other_execution_with_it(fleet: Fleet) -> None:
    url, kills = fleet.url, 0
    first: subprocess.Popen[str] = fleet.start()
    until(lambda: fleet.is_up(first))
    until(lambda: len(query(url, "SELECT 1 FROM tenantcron.schedule_cursor")) == INNOCENT + 1)
    query(url, "UPDATE tenantcron.schedule_cursor SET next_run_at = now()")
    fleet.start()

    def is_over() -> bool:
        nonlocal kills
        kills += supervise(fleet)
        return all_ended(url)

    until(is_over)

    rows = executions(url)
    ends = Counter((row["saga_name"].rstrip("0123"), row["state"], row["reason"]) for row in rows)
    assert ends == {
        ("work", "SUCCEEDED", None): INNOCENT,
        ("kill", "DEAD", "killed its worker 3 times"): 1,
    }
    assert max(row["losses"] for row in rows) == kills
    effects = Counter(row["execution_id"] for row in query(url, "SELECT * FROM public.effect"))
    assert {row["id"] for row in rows} == effects.keys()
    (killer,) = (row for row in rows if row["saga_name"] == "kill")
    assert effects[killer["id"]] == killer["attempt"] == kills
