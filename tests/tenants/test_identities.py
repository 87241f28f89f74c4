"""System identities exist as long as their tenant."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text
from support.fleet import DEPLOYER, Fleet, query
from support.patience import PATIENCE

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import scheduler_actor
from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import SchemaName
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records, identities, tenants
from tenantcron.store.rows.tenants import TenantLimits
from tenantcron.tenants.registry import Registry, find_identities

ACME = TenantId("acme")


@pytest.fixture
def registry(database: Database) -> Registry:
    return Registry(database, DEPLOYER)


async def statuses(database: Database) -> dict[str, str]:
    return {
        identity.id: identity.status.value for identity in await find_identities(database, ACME)
    }


async def declare(database: Database, service: str) -> bool:
    async with database.transaction() as connection:
        await audit_records.act(connection, Attribution(scheduler_actor(service)))
        return await identities.declare_service(connection, service)


async def test_a_new_tenant_has_the_identity_of_the_scheduler_with_the_role_service(
    registry: Registry, database: Database
) -> None:
    row = await registry.create(ACME, TenantLimits())

    (identity,) = await find_identities(database, ACME)
    assert (identity.id, identity.role, identity.status) == (
        "system:scheduler:scheduler",
        "service",
        "active",
    )
    assert identity.created_at == row.created_at


async def test_an_identity_is_suspended_resumed_and_deprovisioned_with_its_tenant(
    registry: Registry, database: Database
) -> None:
    await registry.create(ACME, TenantLimits())
    await registry.suspend(ACME, "unpaid")
    assert await statuses(database) == {"system:scheduler:scheduler": "suspended"}
    await registry.resume(ACME, None)
    assert await statuses(database) == {"system:scheduler:scheduler": "active"}
    await registry.deprovision(ACME, "left", drop_schema=True)
    assert await statuses(database) == {"system:scheduler:scheduler": "deprovisioned"}


async def test_a_tenant_created_by_apply_has_an_identity(
    database: Database, tmp_path: Path
) -> None:
    fleet = Fleet(database, tmp_path)
    fleet.write("acme", {"nightly": 'cron: "0 2 * * *"'})
    await fleet.apply()

    assert await statuses(database) == {"system:scheduler:scheduler": "active"}


async def test_a_rolled_back_step_is_rolled_back_for_the_identity(
    registry: Registry, database: Database
) -> None:
    await registry.create(ACME, TenantLimits())
    async with database.transaction() as connection:
        await tenants.set_status(connection, ACME, tenants.TenantStatus.SUSPENDED, None)
        await connection.rollback()

    assert await statuses(database) == {"system:scheduler:scheduler": "active"}


async def test_a_manual_suspension_suspends_the_identity(
    registry: Registry, database: Database, database_url: str
) -> None:
    await registry.create(ACME, TenantLimits())
    query(database_url, "UPDATE tenantcron.tenant SET status = 'suspended'")

    assert await statuses(database) == {"system:scheduler:scheduler": "suspended"}


async def test_another_service_has_its_own_identity_in_old_and_new_tenants(
    registry: Registry, database: Database, database_url: str
) -> None:
    await registry.create(ACME, TenantLimits())
    await registry.suspend(ACME, "unpaid")

    assert await declare(database, "billing") is True
    assert await declare(database, "billing") is False
    await registry.create(TenantId("globex"), TenantLimits())

    assert await statuses(database) == {
        "system:scheduler:billing": "suspended",
        "system:scheduler:scheduler": "suspended",
    }
    others = await find_identities(database, TenantId("globex"))
    assert {identity.id: identity.status.value for identity in others} == {
        "system:scheduler:billing": "active",
        "system:scheduler:scheduler": "active",
    }
    (record,) = query(
        database_url, "SELECT * FROM tenantcron.audit_record WHERE entity_type = 'service'"
    )
    assert (record["entity_id"], record["changed_by"]) == ("billing", "system:scheduler:billing")


async def test_a_tenant_and_a_service_created_at_the_same_time_get_an_identity(
    database: Database,
) -> None:
    """Neither sees the other before it commits, so one of them must wait."""
    async with database.transaction() as connection:
        await tenants.add(connection, ACME, SchemaName("tenant_acme"))
        declaring = asyncio.create_task(declare(database, "billing"))
        await until_waiting(database)
        await connection.commit()
    await declaring

    assert set(await statuses(database)) == {
        "system:scheduler:billing",
        "system:scheduler:scheduler",
    }


async def until_waiting(database: Database) -> None:
    """Wait until a session waits for another one to end its transaction."""
    waiting = text(
        "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid"
        " WHERE NOT l.granted AND a.datname = current_database()"
    )
    async with asyncio.timeout(PATIENCE):
        while True:
            async with database.transaction() as connection:
                if (await connection.execute(waiting)).scalar_one():
                    return
            await asyncio.sleep(0.01)
