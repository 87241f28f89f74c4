"""Checks of new manifests, in a thread or in worker processes."""

import os
import subprocess
import sys

import pytest
from support.fleet import NIGHTLY, Fleet, numbered

from tenantcron.core.names import TenantId
from tenantcron.reconciler import checking
from tenantcron.reconciler.sources import Prepared
from tenantcron.store.rows import tenants
from tenantcron.tenants.creation import create_tenant

TOO_OFTEN = 'cron: "*/5 * * * *"'
SEVERAL = checking._CHUNK * 2 + 1


async def test_checks_in_processes_and_in_a_thread_have_the_same_results(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(SEVERAL):
        timetable = TOO_OFTEN if number % 7 == 0 else NIGHTLY
        fleet.write(f"t{number:03}", {"b": timetable, "a": NIGHTLY})
    async with fleet.database.transaction() as connection:
        await create_tenant(connection, TenantId("t001"))
    await set_cap(fleet, "t001", 1)
    here = await fleet.prepared()

    monkeypatch.setattr(checking, "WORTH_PROCESSES", SEVERAL)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    elsewhere = await fleet.prepared()

    assert elsewhere == here
    assert [codes(source) for source in elsewhere[:3]] == [["TC301"], ["TC302"], []]


async def test_a_cap_in_the_database_replaces_the_one_of_the_policy(fleet: Fleet) -> None:
    text = "[policy]\nmax_schedules_per_tenant = 1\n[policy.tenants.acme]\nmax_schedules = 2\n"
    (fleet.folder / "tenantcron.toml").write_text(text, encoding="utf-8")
    fleet.write("acme", numbered(2))
    await fleet.apply()
    (allowed,) = await fleet.prepared()
    assert codes(allowed) == []

    await set_cap(fleet, "acme", 1)

    (refused,) = await fleet.prepared()
    assert codes(refused) == ["TC302"]


async def test_a_quota_of_an_operator_applies_to_what_was_applied_before(fleet: Fleet) -> None:
    fleet.write("acme", numbered(2, "every: 1d, owner: 'user:ada'"))
    await fleet.apply()
    assert codes((await fleet.prepared())[0]) == []

    async with fleet.database.transaction() as connection:
        await tenants.set_limits(
            connection, TenantId("acme"), {"quotas": {"schedules_per_owner": 1}}
        )

    (refused,) = await fleet.prepared()
    assert codes(refused) == ["TC309"]


async def set_cap(fleet: Fleet, tenant: str, cap: int) -> None:
    async with fleet.database.transaction() as connection:
        await tenants.set_limits(connection, TenantId(tenant), {"max_schedules": cap})


def codes(source: Prepared) -> list[str]:
    return [diagnostic.problem.code for diagnostic in source.diagnostics]


def test_a_checking_process_does_not_import_a_database_driver() -> None:
    program = "import sys, tenantcron.reconciler.checking; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)

    assert not {"sqlalchemy", "psycopg"} & set(done.stdout.decode().split())
