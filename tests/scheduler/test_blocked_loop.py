"""A handler that blocks the event loop of a real process: detection and consequences."""

from pathlib import Path

from support.misbehaving import events, scheduler
from support.processes import query, until

# `blocks` really blocks the loop, for as long as the test wants.
HANDLERS = """
beside = asyncio.Event()
done = asyncio.Event()

@saga("beside")
async def runs_beside(execution):
    beside.set()
    await done.wait()

def block():
    while not Path("go").exists():
        time.sleep(0.05)

@saga("blocks")
async def blocks(execution):
    await beside.wait()
    Path("blocked").touch()
    block()
    done.set()

@saga("threaded")
def threaded(execution):
    Path("threaded").touch()
    while not execution.cancelled:
        time.sleep(0.05)
    Path("flagged").touch()

@saga("apart", isolation="process")
def apart(execution):
    Path("new").write_text(str(os.getpid()))
    Path("new").rename("apart")
    time.sleep(3600)
"""
LONGER_THAN_THE_LEASE = (
    "SELECT 1 FROM tenantcron.execution WHERE saga_name = 'blocks'"
    " AND now() > started_at + interval '6 seconds'"
)
HELD = "SELECT saga_name FROM tenantcron.execution WHERE state = 'RUNNING' AND lease_until > now()"


def test_other_executions_keep_their_leases_while_a_handler_blocks_the_loop(
    tmp_path: Path, database_url: str
) -> None:
    with scheduler(tmp_path, database_url, HANDLERS, ["beside", "blocks"]) as run:
        run.start()
        run.make_due("beside", "blocks")
        run.until_noted("blocked")
        until(lambda: bool(query(database_url, LONGER_THAN_THE_LEASE)))
        held = {row["saga_name"] for row in query(database_url, HELD)}
        run.note("go")
        rows = [run.until_state(saga, "SUCCEEDED", "DEAD") for saga in ("beside", "blocks")]
        lines = run.end()

    assert held == {"beside", "blocks"}
    assert [(row["state"], row["attempt"]) for row in rows] == [("SUCCEEDED", 1)] * 2
    (blocked,), (unblocked,) = events(lines, "loop_blocked"), events(lines, "loop_unblocked")
    assert (blocked["saga"], blocked["tenant"]) == ("blocks", "acme")
    assert blocked["execution"] == str(rows[1]["id"])
    (first, *_), stack = str(blocked["stack"]).splitlines(), str(blocked["stack"])
    assert first.endswith("in blocks"), "the handler's own frames"
    assert "in block\n    time.sleep(0.05)" in stack
    assert 1.0 <= float(str(blocked["seconds"])) < 3.0
    assert float(str(unblocked["seconds"])) >= 4.0


def test_a_cancellation_reaches_a_thread_although_the_loop_is_blocked(
    tmp_path: Path, database_url: str
) -> None:
    with scheduler(tmp_path, database_url, HANDLERS, ["beside", "blocks", "threaded"]) as run:
        run.start()
        run.make_due("threaded")
        run.until_noted("threaded")
        run.make_due("beside", "blocks")
        run.until_noted("blocked")
        query(
            database_url,
            "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'enough'"
            " WHERE saga_name = 'threaded'",
        )
        run.until_noted("flagged")
        run.note("go")
        row = run.until_state("threaded", "CANCELLED", "SUCCEEDED")
        run.end()

    assert (row["state"], row["reason"]) == ("CANCELLED", "enough")


def test_a_replica_blocked_for_two_leases_exits_and_fails_only_the_blocking_attempt(
    tmp_path: Path, database_url: str
) -> None:
    once = ", retry: {max_attempts: 1}"
    with scheduler(tmp_path, database_url, HANDLERS, ["beside", "blocks"], once) as run:
        process = run.start()
        run.make_due("beside", "blocks")
        run.until_noted("blocked")
        lines = run.ended()
        blocks, beside = run.execution("blocks"), run.execution("beside")
        (attempt,) = run.attempts("blocks")

    assert process.returncode == 70
    (gave_up,) = events(lines, "loop_given_up")
    assert gave_up["saga"] == "blocks"
    assert blocks["state"] == "DEAD"
    assert str(blocks["reason"]).startswith("blocked the event loop for 1")
    assert "time.sleep(0.05)" in attempt["error"]
    # The other executions do not fail: they are lost with the worker, and soon recovered.
    assert beside["state"] == "RUNNING"
    left = query(database_url, "SELECT lease_until - now() AS left FROM tenantcron.execution_live")
    assert [row["left"].total_seconds() <= 1.0 for row in left] == [True]


def test_an_isolated_handler_that_loses_its_lease_is_killed_although_the_loop_is_blocked(
    tmp_path: Path, database_url: str
) -> None:
    with scheduler(tmp_path, database_url, HANDLERS, ["beside", "blocks", "apart"]) as run:
        run.start()
        run.make_due("apart")
        apart = Path(f"/proc/{run.until_noted('apart').read_text()}")
        run.make_due("beside", "blocks")
        run.until_noted("blocked")
        # As if another replica had taken over the execution.
        query(
            database_url,
            "UPDATE tenantcron.execution SET lease_token = gen_random_uuid()"
            " WHERE saga_name = 'apart'",
        )
        until(lambda: not apart.exists())
        assert not (tmp_path / "go").exists(), "the loop is still blocked"
