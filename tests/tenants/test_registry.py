"""The life cycle of tenants, and its audit records."""

import asyncio

import psycopg
import pytest
from psycopg.rows import DictRow
from sqlalchemy.exc import IntegrityError
from support.fleet import CORRELATION, DEPLOYER, footprint, query
from support.patience import PATIENCE

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId, tenant_id
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows.tenants import TenantLimits, TenantStatus
from tenantcron.store.steps.claiming import WORK
from tenantcron.tenants.errors import TenantError
from tenantcron.tenants.registry import Registry, find_tenant, list_tenants

ACME = TenantId("acme")


@pytest.fixture
def registry(database: Database) -> Registry:
    return Registry(database, DEPLOYER)


def records(url: str) -> list[DictRow]:
    return query(url, "SELECT * FROM tenantcron.audit_record ORDER BY id")


def has_schema(url: str) -> bool:
    return bool(query(url, "SELECT 1 FROM pg_namespace WHERE nspname = 'tenant_acme'"))


async def test_each_step_is_recorded_with_actor_before_after_and_reason(
    registry: Registry, database_url: str
) -> None:
    await registry.create(ACME, TenantLimits())
    await registry.set_limits(ACME, TenantLimits(max_concurrent=3))
    await registry.suspend(ACME, "unpaid")
    await registry.resume(ACME, None)
    await registry.deprovision(ACME, "contract ended", drop_schema=False)

    found = records(database_url)
    assert [record["operation"] for record in found] == ["create"] + ["update"] * 4
    assert {(record["entity_type"], record["entity_id"]) for record in found} == {
        ("tenant", "acme")
    }
    assert {
        (
            record["changed_by"],
            record["actor_type"],
            record["actor_source"],
            record["authenticated"],
        )
        for record in found
    } == {("github:octocat", "pipeline", "github-actions", False)}
    assert {record["correlation_id"] for record in found} == {CORRELATION}
    assert found[0]["before"] is None
    assert (found[1]["before"]["max_concurrent"], found[1]["after"]["max_concurrent"]) == (None, 3)
    states = [(record["after"]["status"], record["after"]["status_reason"]) for record in found[2:]]
    assert states == [
        ("suspended", "unpaid"),
        ("active", None),
        ("deprovisioned", "contract ended"),
    ]
    assert [record["before"]["status"] for record in found[2:]] == ["active", "suspended", "active"]


async def test_a_new_tenant_is_active_and_has_its_schema(
    registry: Registry, database: Database, database_url: str
) -> None:
    row = await registry.create(ACME, TenantLimits(max_schedules=7))

    assert (row.status, row.schema_name, row.max_schedules) == (
        TenantStatus.ACTIVE,
        "tenant_acme",
        7,
    )
    assert query(database_url, "SELECT * FROM {}.tenant_schedule", "tenant_acme") == []
    assert await find_tenant(database, ACME) == row
    assert await list_tenants(database) == [row]


async def test_only_one_of_two_concurrent_creates_succeeds(registry: Registry) -> None:
    results = await asyncio.gather(
        *(registry.create(ACME, TenantLimits()) for _ in range(2)), return_exceptions=True
    )

    assert sorted(type(result).__name__ for result in results) == ["TenantError", "TenantRow"]


async def test_a_schema_without_a_tenant_is_not_taken_over(
    registry: Registry, database_url: str
) -> None:
    query(database_url, "CREATE SCHEMA {}", "tenant_acme")
    before = footprint(database_url)

    with pytest.raises(TenantError, match="exists already and belongs to no tenant"):
        await registry.create(ACME, TenantLimits())

    assert footprint(database_url) == before


async def test_deprovisioning_keeps_the_schema_and_can_be_undone(
    registry: Registry, database_url: str
) -> None:
    await registry.create(ACME, TenantLimits())
    await registry.deprovision(ACME, "by mistake", drop_schema=False)

    assert has_schema(database_url)
    assert (await registry.resume(ACME, None)).status is TenantStatus.ACTIVE


async def test_a_dropped_schema_cannot_come_back(registry: Registry, database_url: str) -> None:
    await registry.create(ACME, TenantLimits())
    row = await registry.deprovision(ACME, "contract ended", drop_schema=True)

    assert row.status is TenantStatus.DEPROVISIONED
    assert not has_schema(database_url)
    with pytest.raises(TenantError, match="tables of `acme` were dropped"):
        await registry.resume(ACME, None)
    with pytest.raises(TenantError, match="deprovisioned already, and its tables dropped"):
        await registry.deprovision(ACME, "again", drop_schema=True)


async def test_a_kept_schema_can_be_dropped_later(registry: Registry, database_url: str) -> None:
    await registry.create(ACME, TenantLimits())
    await registry.deprovision(ACME, "contract ended", drop_schema=False)
    await registry.deprovision(ACME, "kept long enough", drop_schema=True)

    assert not has_schema(database_url)
    assert records(database_url)[-1]["after"]["status_reason"] == "kept long enough"


async def test_a_tenant_with_a_missing_schema_can_be_deprovisioned(
    registry: Registry, database_url: str
) -> None:
    await registry.create(ACME, TenantLimits())
    query(database_url, "DROP SCHEMA {} CASCADE", "tenant_acme")

    row = await registry.deprovision(ACME, "lost", drop_schema=True)

    assert row.status is TenantStatus.DEPROVISIONED


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (["resume"], "is active, so it cannot become active"),
        (["suspend", "suspend"], "is suspended, so it cannot become suspended"),
        (["deprovision", "suspend"], "is deprovisioned, so it cannot become suspended"),
        (["deprovision", "deprovision"], "deprovisioned already"),
    ],
)
async def test_wrong_steps_are_refused_and_change_nothing(
    registry: Registry, database_url: str, steps: list[str], words: str
) -> None:
    await registry.create(ACME, TenantLimits())
    for step in steps[:-1]:
        await _step(registry, step)
    before = footprint(database_url)

    with pytest.raises(TenantError, match=words):
        await _step(registry, steps[-1])

    assert footprint(database_url) == before


async def _step(registry: Registry, step: str) -> None:
    if step == "deprovision":
        await registry.deprovision(ACME, "why", drop_schema=False)
    elif step == "suspend":
        await registry.suspend(ACME, "why")
    else:
        await registry.resume(ACME, "why")


async def test_every_operation_on_a_missing_tenant_is_refused(
    registry: Registry, database: Database, database_url: str
) -> None:
    before = footprint(database_url)

    for attempt in (
        registry.suspend(ACME, "why"),
        registry.resume(ACME, None),
        registry.deprovision(ACME, "why", drop_schema=True),
        registry.set_limits(ACME, TenantLimits(max_concurrent=1)),
        find_tenant(database, ACME),
    ):
        with pytest.raises(TenantError, match="`acme` does not exist: `tenantcron tenant list`"):
            await attempt

    assert footprint(database_url) == before


async def test_limits_that_are_not_given_stay_and_none_removes_them(
    registry: Registry,
) -> None:
    await registry.create(ACME, TenantLimits(max_schedules=7, max_concurrent=2))

    row = await registry.set_limits(ACME, TenantLimits(max_schedules=None))

    assert (row.max_schedules, row.max_concurrent) == (None, 2)


async def test_new_limits_notify_the_schedulers(registry: Registry, database_url: str) -> None:
    await registry.create(ACME, TenantLimits(max_concurrent=1))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as listening:
        await listening.execute(f"LISTEN {WORK}".encode())
        await registry.set_limits(ACME, TenantLimits(max_concurrent=2))

        heard = [
            notification.payload
            async for notification in listening.notifies(timeout=PATIENCE, stop_after=1)
        ]

    assert heard == ["limits"]


async def test_the_database_itself_rejects_invalid_limits(registry: Registry) -> None:
    with pytest.raises(IntegrityError):
        await registry.create(ACME, TenantLimits(max_concurrent=0))


async def test_a_manual_change_is_recorded_with_the_database_user(
    registry: Registry, database_url: str
) -> None:
    await registry.create(ACME, TenantLimits())
    query(database_url, "UPDATE tenantcron.tenant SET status = 'suspended'")

    last = records(database_url)[-1]
    assert (last["changed_by"], last["actor_source"], last["correlation_id"]) == (
        "postgres",
        "sql",
        None,
    )


async def test_audit_records_cannot_be_changed(registry: Registry, database_url: str) -> None:
    await registry.create(ACME, TenantLimits())

    with pytest.raises(psycopg.Error, match="append only"):
        query(database_url, "DELETE FROM tenantcron.audit_record")


@pytest.mark.parametrize(
    "text",
    ["", "Acme", "a'b", 'a"b', "a;drop table x", "1a", "a b", "é", "a" * 49, "a\n", "-a", "a.b"],
)
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a tenant id"):
        tenant_id(text)


@pytest.mark.parametrize("text", ["public", "tenantcron", "information_schema", "pg_acme"])
def test_reserved_names_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="reserved"):
        tenant_id(text)


@pytest.mark.parametrize("text", ["a", "acme-energy_2", "a" * 48])
def test_valid_ids_are_not_changed(text: str) -> None:
    assert tenant_id(text) == text


async def test_the_revision_increases_when_schedules_stop_and_start_counting(
    registry: Registry,
) -> None:
    await registry.create(ACME, TenantLimits())
    revisions = [
        (await registry.suspend(ACME, "unpaid")).schedule_revision,
        (await registry.resume(ACME, None)).schedule_revision,
        (await registry.deprovision(ACME, "left", drop_schema=False)).schedule_revision,
        (await registry.resume(ACME, "back")).schedule_revision,
        (await registry.deprovision(ACME, "left", drop_schema=True)).schedule_revision,
    ]

    assert revisions == [0, 0, 1, 2, 3]
