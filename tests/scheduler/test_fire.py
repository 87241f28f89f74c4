"""Fire: due cursors become executions, exactly one for each occurrence."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy.exc import DBAPIError
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps import fire as fire_module
from tenantcron.scheduler.steps.fire import fire_batch
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows.executions import execution_id
from tenantcron.store.steps import firing, glances

ONE = NOON + timedelta(hours=1)


async def test_an_occurrence_becomes_one_execution_with_its_actor_and_source(
    scheduling: Scheduling,
) -> None:
    schedule_id = await scheduling.schedule("nightly", priority="high")
    scheduling.clock.advance(hours=1, seconds=2)

    assert await scheduling.fire() == 1

    (row,) = await scheduling.rows()
    assert row["id"] == execution_id(schedule_id, ONE)
    assert {name: row[name] for name in ("tenant_id", "schedule_name", "saga_name", "state")} == {
        "tenant_id": "acme",
        "schedule_name": "nightly",
        "saga_name": "nightly",
        "state": "PENDING",
    }
    assert (row["scheduled_for"], row["created_at"]) == (ONE, scheduling.clock.now)
    assert (row["priority"], row["attempt"], row["attempts_allowed"]) == (1, 0, 3)
    assert (row["actor_id"], row["actor_type"], row["actor_source"]) == (
        "system:scheduler:scheduler",
        "scheduler",
        "cron-scheduler",
    )
    assert (row["lease_token"], row["finished_at"], row["started_at"]) == (None, None, None)
    cursor = await scheduling.cursor(schedule_id)
    assert (cursor["last_run_at"], cursor["next_run_at"]) == (ONE, ONE + timedelta(hours=1))


async def test_the_actor_names_the_service(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    scheduling.clock.advance(hours=1)
    replica = scheduling.replica()

    await fire_batch(replace(replica, settings=replace(replica.settings, service="billing")))

    assert (await scheduling.rows())[0]["actor_id"] == "system:scheduler:billing"


async def test_a_catch_up_has_its_own_source(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    scheduling.clock.advance(hours=1, minutes=30)

    await scheduling.fire()

    assert (await scheduling.rows())[0]["actor_source"] == "catch-up"


async def test_future_and_disabled_cursors_do_not_fire(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule("later")
    await scheduling.schedule("off", columns={"enabled": False, "next_run_at": NOON})
    await scheduling.schedule("over", columns={"next_run_at": None})
    await scheduling.schedule("faulty", columns={"fault": "no", "next_run_at": NOON})
    scheduling.clock.advance(minutes=59, seconds=59)

    assert await scheduling.fire() == 0
    assert await scheduling.rows() == []


@pytest.mark.parametrize("replicas", [2, 4])
async def test_concurrent_replicas_create_one_execution_per_occurrence(
    scheduling: Scheduling, replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_module, "CURSORS_A_BATCH", 7)
    names = [f"s{number}" for number in range(1, 41)]
    await scheduling.schedules(len(names))
    several = [scheduling.replica(f"r{number}") for number in range(replicas)]

    for _ in range(12):
        scheduling.clock.advance(hours=1)
        fired = await asyncio.gather(
            *(scheduling.fire(replica) for replica in several for _ in range(2))
        )
        # A late replica finds the remaining cursors locked; the last one finds them unlocked.
        assert sum(fired) + await scheduling.fire() == len(names)

    rows = await scheduling.rows()
    times = [NOON + timedelta(hours=number) for number in range(1, 13)]
    assert Counter((row["schedule_name"], row["scheduled_for"]) for row in rows) == Counter(
        (name, time) for name in names for time in times
    )


async def test_a_cursor_that_was_moved_concurrently_is_not_moved_again(
    scheduling: Scheduling,
) -> None:
    schedule_id = await scheduling.schedule()
    elsewhere = ONE + timedelta(minutes=7)
    move = firing.Move(schedule_id, NOON, NOON, ONE)
    await scheduling.set_cursor(schedule_id, next_run_at=elsewhere)

    async with scheduling.database.transaction() as connection:
        inserted = await firing.fire(
            connection, [move], [], actor_id="x", tz_version="2026a", now=NOON
        )

    cursor = await scheduling.cursor(schedule_id)
    assert (inserted, cursor["next_run_at"], cursor["last_run_at"]) == (0, elsewhere, None)


@pytest.mark.parametrize("catch_up", ["once", "all", "none"])
async def test_a_cursor_that_was_moved_back_manually_does_not_fire_again(
    scheduling: Scheduling, catch_up: str
) -> None:
    schedule_id = await scheduling.schedule(catch_up=catch_up, catch_up_window="6h")
    for _ in range(3):
        scheduling.clock.advance(hours=1)
        await scheduling.fire()
    before = await scheduling.rows()

    await scheduling.set_cursor(schedule_id, next_run_at=ONE)
    assert await scheduling.fire() == 0

    assert await scheduling.rows() == before
    assert len(before) == 3
    assert (await scheduling.cursor(schedule_id))["next_run_at"] == NOON + timedelta(hours=4)


async def test_a_crash_before_the_commit_changes_nothing(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_id = await scheduling.schedule()
    scheduling.clock.advance(hours=1)
    before = await scheduling.cursor(schedule_id)

    async def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(firing, "quarantine", crash)
        with pytest.raises(KeyboardInterrupt):
            await scheduling.fire()

    assert (await scheduling.rows(), await scheduling.cursor(schedule_id)) == ([], before)
    assert await scheduling.fire() == 1


BAD_CURSORS = [
    ({"cron_expr": "61 * * * *"}, "61"),
    ({"cron_expr": ""}, "empty"),
    ({"timezone": "Europe/Atlantis"}, "Europe/Atlantis"),
]


@pytest.mark.parametrize(("columns", "words"), BAD_CURSORS)
async def test_a_cursor_that_cannot_be_evaluated_is_quarantined_and_the_others_fire(
    scheduling: Scheduling, columns: dict[str, object], words: str
) -> None:
    bad = await scheduling.schedule("bad")
    await scheduling.schedule("good")
    await scheduling.set_cursor(bad, **columns)
    scheduling.clock.advance(hours=1)

    fired = await fire_batch(scheduling.replica())

    assert (fired.executions, fired.quarantined, fired.more) == (1, 1, False)
    assert [row["schedule_name"] for row in await scheduling.rows()] == ["good"]
    cursor = await scheduling.cursor(bad)
    assert words in str(cursor["fault"])
    assert (cursor["next_run_at"], cursor["last_run_at"]) == (ONE, None)
    assert await fire_batch(scheduling.replica()) == fire_module.Fired()


async def test_the_fault_of_an_unreadable_definition_names_its_key_and_the_others_fire(
    scheduling: Scheduling,
) -> None:
    bad = await scheduling.schedule("bad", catch_up="sometimes")
    await scheduling.schedule("good")
    scheduling.clock.advance(hours=1)

    await scheduling.fire()

    assert [row["schedule_name"] for row in await scheduling.rows()] == ["good"]
    assert "catch_up 'sometimes'" in str((await scheduling.cursor(bad))["fault"])


async def test_a_schedule_with_a_missing_definition_fires_again_after_an_apply(
    scheduling: Scheduling,
) -> None:
    bad = await scheduling.schedule("bad", timeout="7m")
    await scheduling.schedule("good")
    await scheduling.execute(
        "CREATE TABLE public.kept AS SELECT * FROM tenantcron.schedule_definition"
    )
    await scheduling.execute(
        "DELETE FROM tenantcron.schedule_definition WHERE definition->>'timeout' = '7m'"
    )
    scheduling.clock.advance(hours=1)
    replica = scheduling.replica()

    await scheduling.fire(replica)
    assert [row["schedule_name"] for row in await scheduling.rows()] == ["good"]
    assert "its definition is missing" in str((await scheduling.cursor(bad))["fault"])

    # The same content has the same id, so a replica must not cache that it is missing.
    await scheduling.execute(
        "INSERT INTO tenantcron.schedule_definition SELECT * FROM public.kept"
        " ON CONFLICT DO NOTHING"
    )
    await scheduling.set_cursor(bad, fault=None)
    await scheduling.fire(replica)
    assert await scheduling.count(schedule_name="bad", state="PENDING") == 1


async def test_a_cursor_that_the_database_rejects_is_quarantined_and_the_others_fire(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(30)
    await scheduling.execute(
        "ALTER TABLE tenantcron.execution ADD CHECK (schedule_name NOT IN ('s5', 's17'))"
    )
    scheduling.clock.advance(hours=1)

    fired = await fire_batch(scheduling.replica())

    assert (fired.executions, fired.quarantined) == (28, 2)
    assert await scheduling.count(state="PENDING") == 28
    held = {
        row["schedule_name"]: row
        for row in await scheduling.rows("schedule_cursor", "schedule_name")
        if row["fault"]
    }
    assert set(held) == {"s5", "s17"}
    for row in held.values():
        assert "violates check constraint" in str(row["fault"])
        assert (row["next_run_at"], row["last_run_at"]) == (ONE, None)
    assert (await fire_batch(scheduling.replica())).executions == 0


async def test_a_cursor_without_a_history_partition_does_not_stop_the_others(
    scheduling: Scheduling,
) -> None:
    late = await scheduling.schedule(
        "late", "0 0 1 * *", columns={"next_run_at": datetime.fromisoformat("2026-11-01T00:00Z")}
    )
    await scheduling.schedule("good")
    await scheduling.execute("DROP TABLE tenantcron.execution_past_2026_11")
    await scheduling.execute(
        "UPDATE tenantcron.schedule_cursor SET cron_expr = '0 0 1 11 *' WHERE schedule_id = :id",
        id=late,
    )
    scheduling.clock.advance(hours=1)

    await scheduling.fire()

    assert [row["schedule_name"] for row in await scheduling.rows()] == ["good"]
    assert "no partition of relation" in str((await scheduling.cursor(late))["fault"])


async def test_if_all_cursors_are_rejected_none_is_quarantined_and_all_stay_due(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(5)
    # The clock has jumped to a month without a history partition.
    scheduling.clock.advance(days=200)

    with pytest.raises(DBAPIError, match="no partition"):
        await scheduling.fire()

    cursors = await scheduling.rows("schedule_cursor", "schedule_id")
    assert [(row["fault"], row["next_run_at"]) for row in cursors] == [(None, ONE)] * 5
    await scheduling.prepare()
    assert await scheduling.fire() >= 5


async def test_a_database_error_quarantines_no_cursor(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    await scheduling.execute("ALTER TABLE tenantcron.execution RENAME COLUMN overlap TO policy")
    scheduling.clock.advance(hours=1)

    with pytest.raises((DBAPIError, DatabaseError)):
        await scheduling.fire()

    assert [row["fault"] for row in await scheduling.rows("schedule_cursor", "1")] == [None]


async def test_a_batch_ends_after_a_number_of_occurrences_and_the_next_continues(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_module, "STEPS_A_BATCH", 100)
    await scheduling.schedules(10)
    scheduling.clock.advance(hours=48)

    batches = [await fire_batch(scheduling.replica()) for _ in range(4)]

    # 48 occurrences each, so a batch ends after the third cursor.
    assert [batch.more for batch in batches] == [True, True, True, False]
    assert [batch.executions for batch in batches] == [6, 6, 6, 2]
    due = [
        row for row in await scheduling.rows("schedule_cursor", "1") if row["next_run_at"] == ONE
    ]
    assert due == []


async def test_occurrences_before_the_retained_history_only_move_the_cursor(
    scheduling: Scheduling,
) -> None:
    once = await scheduling.schedule("once", "@at 2026-12-01T13:00:00Z")
    yearly = await scheduling.schedule("yearly", "0 13 1 12 *")
    scheduling.clock.advance(days=200)
    await scheduling.prepare()

    assert await scheduling.fire() == 0

    assert await scheduling.rows() == []
    assert (await scheduling.cursor(once))["next_run_at"] is None
    assert (await scheduling.cursor(yearly))["next_run_at"] == ONE.replace(year=2027)
    assert await scheduling.fire() == 0


async def test_a_cover_begins_within_the_retained_history(scheduling: Scheduling) -> None:
    await scheduling.schedule("daily", "0 13 * * *")
    scheduling.clock.advance(days=200)
    await scheduling.prepare()

    await scheduling.fire()

    missed, *_ = await scheduling.rows()
    assert missed["state"] == "MISSED"
    assert missed["covers_from"] == ONE + timedelta(days=110)


async def test_after_a_day_of_downtime_each_of_thousands_of_schedules_fires_once(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(5000)
    scheduling.clock.advance(hours=24, minutes=10)

    assert await scheduling.fire() == 10_000

    found = await scheduling.query(
        "SELECT state, count(*) AS number, count(DISTINCT schedule_id) AS schedules,"
        " min(missed_count) AS least, max(missed_count) AS most"
        " FROM tenantcron.execution GROUP BY state ORDER BY state"
    )
    assert [tuple(row.values()) for row in found] == [
        ("MISSED", 5000, 5000, 22, 22),
        ("PENDING", 5000, 5000, 0, 0),
    ]


async def test_a_timetable_without_occurrences_leaves_the_cursor_without_a_next_time(
    scheduling: Scheduling,
) -> None:
    never = await scheduling.schedule("never", "0 0 31 2 *", columns={"next_run_at": ONE})
    scheduling.clock.advance(hours=1)

    assert await scheduling.fire() == 1

    assert (await scheduling.cursor(never))["next_run_at"] is None
    assert await scheduling.fire() == 0


async def test_the_cursor_of_a_paused_schedule_keeps_moving(scheduling: Scheduling) -> None:
    paused = await scheduling.schedule(
        columns={"paused_at": NOON, "paused_by": "maria", "paused_reason": "partner is down"}
    )
    for _ in range(2):
        scheduling.clock.advance(hours=1)
        await scheduling.fire()

    rows = await scheduling.rows()
    assert [(row["state"], row["reason"]) for row in rows] == [
        ("SKIPPED", "paused: partner is down")
    ] * 2
    assert [row["finished_at"] for row in rows] == [ONE, ONE + timedelta(hours=1)]
    assert (await scheduling.cursor(paused))["next_run_at"] == ONE + timedelta(hours=2)


async def test_the_time_until_the_next_cursor_is_due(scheduling: Scheduling) -> None:
    async def seconds() -> float | None:
        return await glances.seconds_to_next_due(scheduling.database, scheduling.clock())

    assert await seconds() is None
    await scheduling.schedule("off", columns={"enabled": False, "next_run_at": NOON})
    assert await seconds() is None
    await scheduling.schedule()
    assert await seconds() == 3600
    scheduling.clock.advance(hours=2)
    assert await seconds() == -3600
