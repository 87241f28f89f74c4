"""`tenantcron migrate`, the command."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.tenants import add_behind, add_row

from tenantcron.cli.main import main
from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import open_database
from tenantcron.store.schema.versions import CONTROL_VERSION


async def add_tenants(url: str, behind: list[str], broken: list[str]) -> None:
    async with (
        open_database(Settings(database_url=url, folder=Path())) as database,
        database.transaction() as connection,
    ):
        for tenant in behind:
            await add_behind(connection, tenant)
        for tenant in broken:
            await add_row(connection, tenant)


def start(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tenantcron", "migrate", "--format", "json"],
        env=os.environ | {"TENANTCRON_DATABASE_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_share_the_tenants(database_url: str) -> None:
    asyncio.run(add_tenants(database_url, [f"t{number}" for number in range(20)], []))

    runs = [start(database_url) for _ in range(2)]
    answers = [json.loads(run.communicate()[0]) for run in runs]

    assert [run.returncode for run in runs] == [0, 0]
    assert sum(answer["tenants"]["migrated"] for answer in answers) == 20
    assert all(answer["tenants"]["failed"] == [] for answer in answers)


def test_an_empty_database_is_set_up(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENANTCRON_DATABASE_URL", empty_database_url)

    assert (main(["migrate"]), main(["migrate"])) == (0, 0)

    output, errors = capfd.readouterr()
    assert output.splitlines() == [
        f"control schema: new -> {CONTROL_VERSION}",
        "tenants: 0 migrated, 0 current, 0 failed",
        f"control schema: current ({CONTROL_VERSION})",
        "tenants: 0 migrated, 0 current, 0 failed",
    ]
    assert errors == ""


def test_a_tenant_that_fails_is_named_and_makes_the_exit_code_1(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENANTCRON_DATABASE_URL", database_url)
    asyncio.run(add_tenants(database_url, ["old"], ["lost"]))

    assert main(["migrate"]) == 1
    output = capsys.readouterr().out
    assert "failed lost: its schema tenant_lost is missing" in output
    assert "tenants: 1 migrated, 0 current, 1 failed" in output

    assert main(["migrate", "--format", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["control"] == {"from": CONTROL_VERSION, "to": CONTROL_VERSION}
    assert (answer["tenants"]["migrated"], answer["tenants"]["current"]) == (0, 1)
    [failed] = answer["tenants"]["failed"]
    assert failed["tenant"] == "lost"
    assert "tenant_lost is missing" in failed["error"]


def test_an_unavailable_database_is_a_usage_error_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENANTCRON_DATABASE_URL", "postgresql://x:hunter2@127.0.0.1:1/x")

    assert main(["migrate"]) == 2

    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: cannot connect to x@127.0.0.1:1/x")
    assert "hunter2" not in line
