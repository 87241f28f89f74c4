"""The product on other versions and builds of PostgreSQL."""

from pathlib import Path

from support.builds import Build
from support.database import Server
from support.fleet import Shell
from support.lifecycle import (
    WITHOUT_EFFECT,
    all_have_succeeded,
    executions,
    have_one_success_each,
    live,
    scheduler,
    succeed,
)
from support.lifecycle_handlers import SAGAS
from support.processes import all_ended, query, until
from support.replication import replicating


def test_the_life_cycle_of_a_tenant_works(server: Server, tmp_path: Path) -> None:
    with server.database("template1") as url:
        live(tmp_path, url, url)


def test_work_continues_on_a_promoted_standby(
    build: Build, failover_folder: Path, tmp_path: Path
) -> None:
    with replicating(failover_folder, build) as pair:
        shell = Shell(tmp_path, pair.url)
        have_one_success_each(shell, pair.url)
        before = executions(pair.url)
        with scheduler(shell):
            pair.fail_over()

            assert executions(pair.url) == before
            for saga in SAGAS:
                succeed(shell, "schedule", "trigger", f"acme/{saga}")
            until(lambda: all_ended(pair.url))
        after = executions(pair.url)
        assert len(after) == len(before) + len(SAGAS)
        assert all_have_succeeded(after)
        assert query(pair.url, WITHOUT_EFFECT) == []
