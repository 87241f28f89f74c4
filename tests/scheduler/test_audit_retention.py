"""Housekeeping deletes old audit records and manifest versions, a few tenants at a time."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event, text
from structlog.testing import capture_logs
from support.scheduling import Scheduling
from support.tenants import add_current

from tenantcron.scheduler.replica import audit_retention
from tenantcron.scheduler.replica.audit_retention import RecordRetention
from tenantcron.store.rows import audit_retention as store_retention
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport

_INSERT = (
    "INSERT INTO {}.audit_record (entity_type, entity_id, operation, changed_by, actor_type,"
    " actor_source, authenticated, changed_at) SELECT 'note', 'n', 'create', 'ada', 'human', 'cli',"
    " false, now() - :age FROM generate_series(1, :count)"
)


async def tenants(scheduling: Scheduling, *names: str) -> None:
    for name in names:
        async with scheduling.database.transaction() as connection:
            await add_current(connection, name)


async def record(scheduling: Scheduling, schema: str, days: int, count: int = 1) -> None:
    """Insert records of that age, by the database's clock."""
    async with scheduling.database.transaction() as connection:
        values = {"age": timedelta(days=days), "count": count}
        await connection.execute(text(_INSERT.format(schema)), values)


async def notes(scheduling: Scheduling, schema: str) -> int:
    statement = f"SELECT count(*) AS number FROM {schema}.audit_record WHERE entity_type = 'note'"  # noqa: S608 -- a name of the test
    (row,) = await scheduling.query(statement)
    return int(row["number"])


async def test_records_older_than_the_setting_are_deleted_in_every_schema(
    scheduling: Scheduling,
) -> None:
    await tenants(scheduling, "acme", "beta")
    for schema in ("tenantcron", "tenant_acme", "tenant_beta"):
        await record(scheduling, schema, 401)
        await record(scheduling, schema, 399)

    with capture_logs() as logs:
        await RecordRetention().step(scheduling.replica())

    for schema in ("tenantcron", "tenant_acme", "tenant_beta"):
        assert await notes(scheduling, schema) == 1
    (line,) = [line for line in logs if line["event"] == "records_forgotten"]
    assert (line["audit_records"], line["manifest_versions"]) == (3, 0)


async def test_records_are_kept_at_least_as_long_as_executions(scheduling: Scheduling) -> None:
    await tenants(scheduling, "acme")
    await record(scheduling, "tenant_acme", 80)
    settings = replace(
        scheduling.settings, audit_retention=timedelta(days=30), retention=timedelta(days=90)
    )
    retention = RecordRetention()

    await retention.step(replace(scheduling.replica(), settings=settings))
    assert await notes(scheduling, "tenant_acme") == 1
    shorter = replace(settings, retention=timedelta(days=60))
    await retention.step(replace(scheduling.replica(), settings=shorter))
    assert await notes(scheduling, "tenant_acme") == 0


async def test_a_step_is_bounded_and_the_next_one_continues(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_retention, "ROWS_A_TRANSACTION", 10)
    monkeypatch.setattr(store_retention, "TENANTS_A_TRANSACTION", 2)
    monkeypatch.setattr(audit_retention, "_TRANSACTIONS_A_STEP", 2)
    await tenants(scheduling, *(f"t{number}" for number in range(5)))
    await record(scheduling, "tenantcron", 500, 15)
    await record(scheduling, "tenant_t1", 500, 15)
    await record(scheduling, "tenant_t4", 500, 5)
    retention, replica, seen = RecordRetention(), scheduling.replica(), []

    for _ in range(4):
        await retention.step(replica)
        schemas = ("tenantcron", "tenant_t1", "tenant_t4")
        seen.append([await notes(scheduling, schema) for schema in schemas])

    # Twice the control schema, twice t0 and t1, then t2 and t3, then t4.
    assert seen[0] == [0, 15, 5]
    assert seen[1] == [0, 0, 5]
    assert seen[2] == [0, 0, 0]
    # The next pass finds records that have become old since.
    await record(scheduling, "tenantcron", 500)
    await retention.step(replica)
    assert await notes(scheduling, "tenantcron") == 0


async def test_a_batch_of_tenants_takes_one_statement(scheduling: Scheduling) -> None:
    await tenants(scheduling, *(f"t{number:02}" for number in range(60)))
    sent: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        sent.append(statement)

    engine = scheduling.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    await RecordRetention().step(scheduling.replica())
    event.remove(engine, "before_cursor_execute", note)

    calls = [statement for statement in sent if "forget_" in statement]
    # The control schema, 50 tenants, 10 tenants, and no more.
    assert len(calls) == 4
    assert len(sent) <= 3 * len(calls)


async def test_only_the_oldest_replica_deletes_records(scheduling: Scheduling) -> None:
    await record(scheduling, "tenantcron", 500)
    first, second = scheduling.replica("first"), scheduling.replica("second")
    for replica in (first, second):
        report = WorkerReport(
            replica.worker_id, "scheduler", running=0, abandoned=0, draining=False
        )
        async with scheduling.database.transaction() as connection:
            await workers.report(connection, report, scheduling.clock.advance(seconds=1))

    await RecordRetention().step(second)
    assert await notes(scheduling, "tenantcron") == 1
    await RecordRetention().step(first)
    assert await notes(scheduling, "tenantcron") == 0


async def test_a_broken_tenant_does_not_stop_the_retention_of_others(
    scheduling: Scheduling,
) -> None:
    await tenants(scheduling, "acme", "beta", "gone")
    await scheduling.execute("DROP TABLE tenant_acme.audit_record")
    await scheduling.execute("DROP SCHEMA tenant_gone CASCADE")
    await record(scheduling, "tenant_beta", 500)

    await RecordRetention().step(scheduling.replica())

    assert await notes(scheduling, "tenant_beta") == 0
