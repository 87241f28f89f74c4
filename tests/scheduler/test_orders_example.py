"""The example `orders`: an order and its task are stored together, and a handler runs the task."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet import Shell
from support.processes import Fleet, query, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    shell = Shell(tmp_path, database_url)
    assert shell("tenant", "create", "acme").code == 0
    fleet = Fleet(shell, database_url, "--handlers", "handlers")
    try:
        yield fleet
    finally:
        fleet.close()


def order(fleet: Fleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "service.py", fleet.url, *arguments]
    return subprocess.run(
        command,
        cwd=fleet.shell.folder,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_order_and_its_invoice_are_stored_together_and_the_invoice_is_sent(
    fleet: Fleet,
) -> None:
    placed, again, rejected = order(fleet, "7"), order(fleet, "7"), order(fleet, "8", "-1")
    assert placed.returncode == 0, placed.stderr
    assert (again.returncode, again.stdout) == (0, placed.stdout)
    assert "orders_cents_check" in rejected.stderr
    query(fleet.url, "GRANT SELECT, UPDATE ON public.orders TO PUBLIC")

    fleet.start()
    sent = "SELECT id, invoice FROM public.orders WHERE invoice IS NOT NULL"
    until(lambda: bool(query(fleet.url, sent)))

    (task,) = query(fleet.url, "SELECT id FROM tenantcron.task")
    assert query(fleet.url, "SELECT id, invoice FROM public.orders") == [
        {"id": 7, "invoice": str(task["id"])}
    ]
