"""History: months are created in advance, and never dropped with unfinished executions."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.replicas import until
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.replica.housekeeping import clean_up, prepare_history
from tenantcron.store.rows import executions
from tenantcron.store.rows.execution_history import HistoryPosition
from tenantcron.store.rows.history_months import Month, months_kept

PARTITIONS = (
    "SELECT relname AS name FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_inherits AS i ON i.inhrelid = c.oid"
    " WHERE relname LIKE 'execution%' AND relkind = 'r' ORDER BY 1"
)


async def months(scheduling: Scheduling, table: str = "execution_past") -> list[str]:
    names = [str(row["name"]) for row in await scheduling.query(PARTITIONS)]
    found = [name.removeprefix(f"{table}_") for name in names]
    return [name for name in found if name[0].isdigit()]


AUTUMN = ["2026_09", "2026_10", "2026_11", "2026_12", "2027_01", "2027_02"]


async def test_partitions_exist_for_the_retention_and_two_months_ahead(
    scheduling: Scheduling,
) -> None:
    assert await months(scheduling) == AUTUMN
    assert await months(scheduling, "execution_attempt") == AUTUMN


def test_months_cross_the_end_of_a_year() -> None:
    assert Month(2026, 12).following == Month(2027, 1)
    kept = list(months_kept(NOON, timedelta(days=1)))
    assert [str(month) for month in kept] == ["2026_11", "2026_12", "2027_01", "2027_02"]


async def test_the_next_partition_is_created_a_month_later(scheduling: Scheduling) -> None:
    scheduling.clock.advance(days=31)
    await scheduling.prepare()
    await scheduling.prepare()

    assert await months(scheduling) == [*AUTUMN, "2027_03"]


async def test_concurrent_replicas_create_each_partition_once(scheduling: Scheduling) -> None:
    scheduling.clock.advance(days=70)

    await asyncio.gather(*(prepare_history(scheduling.replica(f"r{n}")) for n in range(4)))

    assert await months(scheduling) == [*AUTUMN, "2027_03", "2027_04"]


async def test_history_older_than_the_retention_is_dropped_with_its_attempts(
    scheduling: Scheduling,
) -> None:
    for day in (5, 40, 95):
        await scheduling.waiting(
            1, state="SUCCEEDED", scheduled_for=NOON + timedelta(days=day - 90), attempt=1
        )
    # On the first of January, ninety days ago was in October.
    scheduling.clock.advance(days=31)

    await asyncio.gather(*(clean_up(scheduling.replica(f"r{n}")) for n in range(3)))

    assert await months(scheduling) == AUTUMN[1:]
    assert await months(scheduling, "execution_attempt") == AUTUMN[1:]
    assert len(await scheduling.rows()) == 2


@pytest.mark.parametrize("state", ["PENDING", "RETRYING", "RUNNING"])
async def test_a_month_with_unfinished_executions_is_kept(
    scheduling: Scheduling, state: str
) -> None:
    lease: dict[str, Any] = {
        "lease_until": NOON,
        "lease_token": "00000000-0000-4000-8000-000000000001",
    }
    held = {**lease, "worker_id": "one", "started_at": NOON} if state == "RUNNING" else {}
    september = NOON - timedelta(days=80)
    await scheduling.waiting(1, state=state, scheduled_for=september, **held)
    scheduling.clock.advance(days=62)

    await clean_up(scheduling.replica())

    assert await months(scheduling) == ["2026_09", *AUTUMN[2:]]
    assert len(await scheduling.rows()) == 1


async def test_a_month_with_a_concurrent_retry_is_kept(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.store.rows.history_months._PATIENCE", "20s")
    september = NOON - timedelta(days=80)
    await scheduling.waiting(1, state="DEAD", scheduled_for=september, attempt=1)
    (row,) = await scheduling.rows()
    scheduling.clock.advance(days=31)
    async with scheduling.database.transaction() as operator:
        key = HistoryPosition(september, UUID(str(row["id"])))
        await executions.retry(operator, [key], more_attempts=3, at=scheduling.clock.now)
        cleaning = asyncio.create_task(clean_up(scheduling.replica()))
        await until(lambda: _has_lock_waits(scheduling))
    await cleaning

    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed)
    assert await scheduling.states() == [("SUCCEEDED", None)]


async def _has_lock_waits(scheduling: Scheduling) -> bool:
    return bool(await scheduling.query("SELECT 1 FROM pg_catalog.pg_locks WHERE NOT granted"))


async def test_a_lock_timeout_drops_nothing(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.store.rows.history_months._PATIENCE", "20ms")
    scheduling.clock.advance(days=62)
    async with scheduling.database.transaction() as reader:
        await reader.exec_driver_sql("SELECT count(*) FROM tenantcron.execution")

        await clean_up(scheduling.replica())

    assert await months(scheduling) == AUTUMN
    await clean_up(scheduling.replica())
    assert await months(scheduling) == AUTUMN[2:]


async def test_creating_a_partition_does_not_wait_for_readers_or_writers(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenantcron.store.rows.history_months._PATIENCE", "20ms")
    await scheduling.waiting(1)
    scheduling.clock.advance(days=31)
    async with scheduling.database.transaction() as writer:
        await writer.exec_driver_sql("UPDATE tenantcron.execution SET reason = 'x'")

        await scheduling.prepare()

    assert (await months(scheduling))[-1] == "2027_03"


async def test_a_partition_with_another_name_is_not_dropped(
    scheduling: Scheduling,
) -> None:
    await scheduling.execute(
        "CREATE TABLE tenantcron.execution_rest PARTITION OF tenantcron.execution_past DEFAULT"
    )
    scheduling.clock.advance(days=31)

    await scheduling.prepare()
    await clean_up(scheduling.replica())

    assert "2027_03" in await months(scheduling)


async def unused_since(scheduling: Scheduling) -> list[object]:
    return [row["unused_since"] for row in await scheduling.rows("schedule_definition", "id")]


async def test_an_unused_definition_is_deleted_after_the_retention(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule()
    await clean_up(scheduling.replica())
    assert await unused_since(scheduling) == [None]

    await scheduling.execute("DELETE FROM tenantcron.schedule_cursor")
    await clean_up(scheduling.replica())
    assert await unused_since(scheduling) == [NOON]

    for days, number in ((152, 1), (153, 0)):
        await scheduling.execute(
            "UPDATE tenantcron.schedule_definition SET unused_since = :then",
            then=NOON - timedelta(days=days),
        )
        await clean_up(scheduling.replica())
        assert len(await unused_since(scheduling)) == number


async def test_a_definition_that_is_used_again_is_kept(scheduling: Scheduling) -> None:
    await scheduling.schedule("one")
    await scheduling.execute("DELETE FROM tenantcron.schedule_cursor")
    await clean_up(scheduling.replica())

    await scheduling.schedule("two")

    assert await unused_since(scheduling) == [None]


async def test_a_definition_marked_during_a_refresh_that_uses_it_is_kept(
    scheduling: Scheduling,
) -> None:
    """The refresh found the definition in use, and its new cursor was not committed yet."""
    await scheduling.schedule()
    long_ago = NOON - timedelta(days=400)
    await scheduling.execute(
        "UPDATE tenantcron.schedule_definition SET unused_since = :then", then=long_ago
    )

    await clean_up(scheduling.replica())

    assert await unused_since(scheduling) == [None]


async def test_only_the_oldest_live_replica_looks_for_unused_definitions(
    scheduling: Scheduling,
) -> None:
    await scheduling.execute(
        "INSERT INTO tenantcron.schedule_definition (id, definition)"
        " VALUES (gen_random_uuid(), '{}')"
    )
    await scheduling.execute(
        "INSERT INTO tenantcron.worker (id, service, started_at, seen_at)"
        " SELECT id, 'scheduler', now() - age, now() - silence FROM (VALUES"
        "  ('killed', interval '3 days', interval '1 hour'),"
        "  ('oldest', interval '2 days', interval '0'),"
        "  ('newest', interval '1 day', interval '0')) AS w (id, age, silence)"
    )

    await clean_up(scheduling.replica("newest"))
    (kept,) = await scheduling.rows("schedule_definition", "1")
    await clean_up(scheduling.replica("oldest"))
    (marked,) = await scheduling.rows("schedule_definition", "1")

    assert kept["unused_since"] is None
    assert marked["unused_since"] == NOON
