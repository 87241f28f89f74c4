"""Labels of tenants: valid values, audit, and filters."""

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from support.explaining import explained
from support.fleet import CORRELATION, DEPLOYER, query

from tenantcron.core.errors import UsageError
from tenantcron.core.labels import (
    LabelChanges,
    LabelFilter,
    label_problems,
    read_changes,
    read_filter,
)
from tenantcron.core.names import TenantId
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import tenants
from tenantcron.store.rows.tenants import TenantFilter, TenantLimits, TenantRow
from tenantcron.tenants.registry import Registry

ACME = TenantId("acme")


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["Tier=gold"], "label 'Tier' is not a label key"),
        (["tier"], "label 'tier' is not KEY=VALUE"),
        (["tier="], "must have 1 to 100 printable characters"),
        (["tier= gold"], "must have 1 to 100 printable characters"),
        (["tier=a\nb"], "must have 1 to 100 printable characters"),
        (["tier=" + "x" * 101], "must have 1 to 100 printable characters"),
        (["tier=gold", "tier=silver"], "label 'tier' is given twice"),
        (["tier=gold", "tier-"], "label 'tier' is given twice"),
        (["x" * 64 + "=1"], "is not a label key"),
    ],
)
def test_a_label_that_is_not_valid_is_refused_with_the_reason(
    texts: list[str], problem: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read_changes(texts)
    assert problem in str(refused.value)


def test_all_problems_of_labels_are_reported_at_once() -> None:
    found = label_problems({"Tier": "gold", "region": 7, "plan": ""})
    assert [words.split("'")[1] for words in found] == ["Tier", "region", "plan"]


def test_a_tenant_has_at_most_32_labels() -> None:
    changes = LabelChanges({f"k{number}": "v" for number in range(32)})
    assert len(changes.apply_to({"k0": "old"})) == 32
    with pytest.raises(UsageError, match="33 labels are too many: a tenant has at most 32"):
        changes.apply_to({"other": "v"})


def test_a_filter_is_a_key_or_a_key_with_its_value() -> None:
    assert read_filter("tier") == LabelFilter("tier")
    assert read_filter("tier=gold=plus") == LabelFilter("tier", "gold=plus")
    with pytest.raises(UsageError):
        read_filter("tier=")


async def test_a_change_of_labels_is_recorded_with_its_actor(
    database: Database, database_url: str
) -> None:
    registry = Registry(database, DEPLOYER)
    await registry.create(ACME, TenantLimits(), labels=read_changes(["tier=gold", "region=eu"]))
    row = await registry.change_labels(ACME, read_changes(["tier=silver", "region-"]))
    again = await registry.change_labels(ACME, read_changes(["tier=silver"]))

    assert row.labels == again.labels == {"tier": "silver"}
    *_, last = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY id")
    assert (last["before"]["labels"], last["after"]["labels"]) == (
        {"tier": "gold", "region": "eu"},
        {"tier": "silver"},
    )
    assert (last["changed_by"], last["correlation_id"]) == ("github:octocat", CORRELATION)


async def test_a_label_filter_reads_the_index_and_not_all_tenants(
    database: Database, database_url: str
) -> None:
    query(
        database_url,
        "INSERT INTO tenantcron.tenant (id, schema_name, labels, created_at, updated_at)"
        " SELECT 't' || n, 'tenant_t' || n,"
        " jsonb_build_object('tier', CASE n % 1000 WHEN 0 THEN 'gold' ELSE 'free' END),"
        " now(), now() FROM generate_series(1, 5000) AS n",
    )
    query(database_url, "ANALYZE tenantcron.tenant, tenantcron.tenant_label")
    wanted = TenantFilter(labels=[LabelFilter("tier", "gold")])

    async def read(connection: AsyncConnection) -> list[TenantRow]:
        return await tenants.page(connection, wanted, after=None, limit=50)

    # As a caller of the API, with row-level security.
    plan = await explained(database, read)
    assert "tenant_label_key_value_tenant_id_idx" in plan
    assert "Seq Scan" not in plan
    async with database.transaction() as connection:
        found = await read(connection)
    assert [row.id for row in found] == ["t1000", "t2000", "t3000", "t4000", "t5000"]
