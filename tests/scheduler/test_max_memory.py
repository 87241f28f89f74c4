"""A replica above its memory limit drains and exits, so that its supervisor restarts it."""

from pathlib import Path

from support.misbehaving import events, scheduler
from support.processes import query, until

HANDLERS = """
kept = []

@saga("leaks")
async def leaks(execution):
    kept.append(b"x" * (300 << 20))

@saga("beside")
async def runs_beside(execution):
    Path("beside").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.05)
"""
LIMIT = 300 << 20


def test_a_replica_above_its_memory_limit_drains_and_exits_with_its_own_code(
    tmp_path: Path, database_url: str
) -> None:
    variables = {"TENANTCRON_MAX_MEMORY": "300MiB", "TENANTCRON_DRAIN": "2m"}
    with scheduler(tmp_path, database_url, HANDLERS, ["leaks", "beside"], **variables) as run:
        process = run.start()
        run.make_due("beside")
        run.until_noted("beside")
        assert process.poll() is None, "what a replica needs by itself is below the limit"
        run.make_due("leaks")
        draining = "SELECT 1 FROM tenantcron.worker WHERE draining"
        until(lambda: bool(query(database_url, draining)))
        run.note("go")
        lines = run.ended()
        beside = run.execution("beside")

    assert process.returncode == 75
    (exceeded,) = events(lines, "memory_exceeded")
    assert int(str(exceeded["resident"])) > LIMIT == exceeded["max_memory"]
    assert (beside["state"], beside["attempt"]) == ("SUCCEEDED", 1), "it could end"
    assert query(database_url, "SELECT 1 FROM tenantcron.worker") == []
