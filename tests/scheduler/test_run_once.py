"""`run --once` ends when everything that is due has run, even with few slots."""

import asyncio
import sys
from pathlib import Path

import pytest
from support.fleet import Shell, manifest, query

from tenantcron.scheduler.replica import polling_loops
from tenantcron.scheduler.replica.claim_loop import ClaimLoop

SCHEDULES = dict.fromkeys(("first", "second"), 'cron: "0 * * * *", catch_up_window: 2h')
HANDLERS = """
import asyncio
from tenantcron import saga

may_end = asyncio.Event()

@saga("first")
@saga("second")
async def wait(execution):
    await may_end.wait()
"""
MAKE_DUE = (
    "UPDATE tenantcron.schedule_cursor SET next_run_at = date_trunc('hour', now()),"
    " effective_from = now() - interval '1 day'"
)


def test_handlers_that_end_while_the_next_are_claimed_do_not_end_the_run(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(tmp_path, database_url)
    (tmp_path / "acme.yaml").write_text(manifest("acme", SCHEDULES), encoding="utf-8")
    (tmp_path / "once_work.py").write_text(HANDLERS, encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    assert shell("run", "--once").code == 0
    query(database_url, MAKE_DUE)
    claim = ClaimLoop.start_batch

    async def claim_and_let_end(loop: ClaimLoop) -> bool:
        claimed = await claim(loop)
        if not claimed:
            sys.modules["once_work"].may_end.set()
            while loop._executor.load:
                await asyncio.sleep(0)
        return claimed

    monkeypatch.setattr(ClaimLoop, "start_batch", claim_and_let_end)
    monkeypatch.setattr(polling_loops, "LONGEST_SLEEP", 0.01)
    options = {"TENANTCRON_MAX_CONCURRENT": "1", "PYTHONPATH": str(tmp_path)}
    assert shell("run", "--handlers", "once_work", "--once", **options).code == 0

    ended = query(database_url, "SELECT state FROM tenantcron.execution")
    assert ended == [{"state": "SUCCEEDED"}] * 2
