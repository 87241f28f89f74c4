"""One replica with real loops and a real clock. Tests wait for the effects of the loops."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from support.fleet import Fleet
from support.patience import PATIENCE
from support.replicas import Works, at_work, due, made, make_due, until, until_state
from support.scheduling import Scheduling

from tenantcron.scheduler.replica import claim_loop, maintenance_loops, polling_loops, replica_loops
from tenantcron.scheduler.replica.polling_loops import Step
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.store.connection.errors import DatabaseAwayError

A_SECOND = timedelta(seconds=1)


async def test_a_due_schedule_is_fired_run_and_recorded(real: Scheduling) -> None:
    works = Works()
    await due(real, "quick", start_within="1m")

    async with at_work(real, works):
        await until_state(real, "SUCCEEDED")

    (call,) = works.calls
    (row,) = await real.rows()
    assert (call.id, call.scheduled_for, call.attempt) == (row["id"], row["scheduled_for"], 1)
    assert await real.rows("worker", "id") == []


async def test_a_schedule_that_becomes_due_during_a_sleep_fires_in_time(
    real: Scheduling,
) -> None:
    works = Works()
    schedule_id = await real.schedule("quick", "0 0 1 1 *", start_within="1m")

    async with at_work(real, works):
        await real.execute(
            "UPDATE tenantcron.schedule_cursor"
            " SET next_run_at = statement_timestamp() + interval '1 second'"
            " WHERE schedule_id = :id",
            id=schedule_id,
        )
        await until_state(real, "SUCCEEDED")


async def test_an_apply_wakes_the_refresh_and_its_schedules_get_cursors(real: Scheduling) -> None:
    works = Works()
    folder = real.settings.folder / "manifests"
    folder.mkdir()
    fleet = Fleet(real.database, folder)

    async with at_work(real, works, replace(real.settings, refresh_interval=timedelta(hours=1))):
        await until(lambda: _has(real, "worker", 1))
        fleet.write("acme", {"quick": 'cron: "0 2 * * *"'})
        await fleet.apply()
        await until(lambda: _has(real, "schedule_cursor", 1))

    (cursor,) = await real.rows("schedule_cursor", "1")
    assert (cursor["schedule_name"], cursor["fault"]) == ("quick", None)


async def sleeps(real: Scheduling, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Run each step of a new replica once, and return how long each loop would sleep."""
    found: dict[str, float] = {}

    async def step_once(name: str, step: Step, *_: object) -> None:
        found[name] = await step()

    monkeypatch.setattr(replica_loops, "run_loop", step_once)
    async with made(real, Works()) as run:
        run.stop()
        await run.run()
    return found


async def test_an_idle_replica_sleeps_until_the_next_cursor_is_due(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling_loops, "LONGEST_SLEEP", 60.0)
    idle = await sleeps(real, monkeypatch)
    assert (idle["fire"], idle["claim"]) == (60.0, 60.0)

    await real.schedule("quick", "0 0 1 1 *")
    await real.execute(
        "UPDATE tenantcron.schedule_cursor SET next_run_at = now() + interval '40 seconds'"
    )
    waiting = await sleeps(real, monkeypatch)
    assert 10 < waiting["fire"] <= 40
    assert waiting["claim"] == 60.0


async def test_replicas_that_start_together_refresh_at_different_times(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [(await sleeps(real, monkeypatch))["refresh"] for _ in range(20)]

    # They are this close by chance once in 10^12 times.
    assert max(waits) - min(waits) > 2.0
    assert 50 < min(waits) < max(waits) <= 70


async def _has(real: Scheduling, table: str, number: int) -> bool:
    return len(await real.rows(table, "1")) == number


async def test_a_retry_starts_after_its_delay(real: Scheduling) -> None:
    works = Works()
    await due(real, "flaky", start_within="1m")

    async with at_work(real, works):
        await until_state(real, "SUCCEEDED")

    assert [call.attempt for call in works.calls] == [1, 2]
    (row,) = await real.rows()
    assert [attempt.outcome for attempt in await real.attempts(row["id"])] == [
        "FAILED",
        "SUCCEEDED",
    ]


async def test_stop_lets_running_executions_end_and_starts_no_more(real: Scheduling) -> None:
    works = Works()
    await due(real, "slow", start_within="1m")

    async with made(real, works) as run:
        running = asyncio.create_task(run.run())
        async with asyncio.timeout(PATIENCE):
            await works.called.wait()
        run.stop()
        await due(real, "quick", start_within="1m")
        works.go.set()
        async with asyncio.timeout(PATIENCE):
            await running

    assert await real.states() == [("SUCCEEDED", None)]
    assert [call.saga_name for call in works.calls] == ["slow"]


async def test_an_execution_that_exceeds_the_drain_is_interrupted_and_starts_elsewhere(
    real: Scheduling,
) -> None:
    works = Works()
    await due(real, "slow", start_within="1m")
    hasty = replace(real.settings, drain=timedelta(0))

    async with at_work(real, works, hasty):
        async with asyncio.timeout(PATIENCE):
            await works.called.wait()

    assert await real.states() == [("RETRYING", "interrupted by shutdown")]
    works.go.set()
    async with at_work(real, works):
        await until_state(real, "SUCCEEDED")
    assert [call.attempt for call in works.calls] == [1, 2]


async def test_a_replica_that_cannot_write_its_results_still_stops(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Works()
    await due(real, "quick", start_within="1m")

    async def away(*_: object) -> None:
        raise DatabaseAwayError("the server is away")

    monkeypatch.setattr("tenantcron.scheduler.steps.results.finish_batch", away)
    # The shutdown waits for the results until their deadline.
    async with at_work(real, works, replace(real.settings, lease=A_SECOND, drain=A_SECOND)):
        await works.called.wait()

    assert await real.states() == [("RUNNING", None)]


async def test_executions_claimed_during_a_stop_are_released(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Works()
    await due(real, "quick", start_within="1m")

    async with made(real, works) as run:

        async def claim_and_stop(*arguments: object) -> object:
            claim = await claim_batch(*arguments)  # type: ignore[arg-type] # as given
            if claim.started:
                run.stop()
            return claim

        monkeypatch.setattr(claim_loop, "claim_batch", claim_and_stop)
        async with asyncio.timeout(PATIENCE):
            await run.run()

    assert works.calls == []
    (row,) = await real.rows()
    assert (row["state"], row["attempt"], row["lease_token"]) == ("PENDING", 0, None)


async def test_once_runs_what_is_due_and_returns(real: Scheduling) -> None:
    works = Works()
    await real.limit(2)
    for _ in range(5):
        await real.waiting(1, saga_name="quick", not_before="2026-01-01", overlap="queue")
    await due(real, "quick", start_within="1m")

    async with made(real, works) as run, asyncio.timeout(PATIENCE):
        await run.run_once()

    assert await real.count(state="SUCCEEDED") == 6
    assert len(works.calls) == 6
    assert await real.rows("worker", "id") == []


async def test_once_with_nothing_to_do_returns(real: Scheduling) -> None:
    async with made(real, Works()) as run, asyncio.timeout(PATIENCE):
        await run.run_once()

    assert await real.rows() == []


async def test_once_also_starts_executions_that_waited_for_a_slow_one(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Works()
    await real.limit(1)
    await real.waiting(2, saga_name="slow", not_before="2026-01-01", overlap="queue")
    claims = list[object]()

    async def claim_and_count(*arguments: object) -> object:
        claims.append(await claim_batch(*arguments))  # type: ignore[arg-type] # as given
        # Claims found no free slot while the first one runs.
        if len(claims) > 3:
            works.go.set()
        return claims[-1]

    monkeypatch.setattr(claim_loop, "claim_batch", claim_and_count)
    monkeypatch.setattr(polling_loops, "LONGEST_SLEEP", 0.01)
    async with made(real, works) as run, asyncio.timeout(PATIENCE):
        await run.run_once()

    assert await real.count(state="SUCCEEDED") == 2


async def test_once_ignores_occurrences_that_become_due_during_the_run(real: Scheduling) -> None:
    works = Works()
    await due(real, "slow", start_within="1m")

    async with made(real, works) as run, asyncio.timeout(PATIENCE):
        running = asyncio.create_task(run.run_once())
        await works.called.wait()
        await due(real, "quick", start_within="1m")
        works.go.set()
        await running

    assert [row["schedule_name"] for row in await real.rows()] == ["slow"]


async def test_once_drains_on_a_stop_request(real: Scheduling) -> None:
    works = Works()
    await due(real, "slow", start_within="1m")
    hasty = replace(real.settings, drain=timedelta(0))

    async with made(real, works, hasty) as run, asyncio.timeout(PATIENCE):
        running = asyncio.create_task(run.run_once())
        await works.called.wait()
        run.stop()
        await make_due(real, await real.schedule("quick", "0 0 1 1 *", start_within="1m"))
        await running

    assert await real.states() == [("RETRYING", "interrupted by shutdown")]
    assert await real.rows("worker", "id") == []


async def test_a_missed_cancellation_takes_effect_when_listening_resumes(
    real: Scheduling,
) -> None:
    works = Works()
    await due(real, "slow", start_within="1m")
    # Its next heartbeat is too far off to find it in time.
    patient = replace(real.settings, lease=timedelta(minutes=10))

    async with at_work(real, works, patient):
        await until_state(real, "RUNNING")
        # No notification is sent.
        await real.execute(
            "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'manual'"
        )
        await real.query(
            "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        await until_state(real, "CANCELLED")


async def test_a_scheduler_with_another_service_name_declares_its_identity(
    real: Scheduling,
) -> None:
    await real.tenant("acme")
    named = replace(real.settings, service="billing")

    async with made(real, Works(), named) as run, asyncio.timeout(PATIENCE):
        await run.run_once()

    found = await real.rows("identity", "id")
    assert [(row["tenant_id"], row["id"], row["status"]) for row in found] == [
        ("acme", "system:scheduler:billing", "active"),
        ("acme", "system:scheduler:scheduler", "active"),
    ]


async def test_a_replica_drops_old_months(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_loops, "MINUTE", 0.0)
    await real.prepare()
    shorter = replace(real.settings, retention=timedelta(days=1))
    before = await _months(real)

    async with at_work(real, Works(), shorter):
        await until(lambda: _has_fewer_months(real, before))


async def _months(real: Scheduling) -> int:
    (row,) = await real.query(
        "SELECT count(*) AS number FROM pg_catalog.pg_inherits"
        " WHERE inhparent = 'tenantcron.execution_past'::regclass"
    )
    return int(str(row["number"]))


async def _has_fewer_months(real: Scheduling, before: int) -> bool:
    return await _months(real) < before


async def test_an_execution_of_a_saga_without_a_handler_is_dead_with_a_hint(
    real: Scheduling,
) -> None:
    await due(real, "unknown", start_within="1m")

    async with at_work(real, Works()):
        await until_state(real, "DEAD")

    ((_, reason),) = await real.states()
    assert "no handler is loaded for saga `unknown`" in str(reason)


async def test_a_replica_survives_the_loss_of_all_connections_and_runs_nothing_twice(
    real: Scheduling,
) -> None:
    works = Works()
    schedules = [await due(real, "quick", start_within="1m", tenant=f"t{n}") for n in range(3)]

    async with at_work(real, works):
        await until_state(real, "SUCCEEDED", 3)
        for _ in range(3):
            await _terminate_all(real)
            for schedule in schedules:
                await make_due(real, schedule)
            expected = len(works.calls) + 3
            await until(lambda number=expected: _succeeded(real, number))  # type: ignore[misc] # bound now

    assert len(works.calls) == 12
    assert max(Counter(call.id for call in works.calls).values()) == 1


async def _succeeded(real: Scheduling, number: int) -> bool:
    return await real.count(state="SUCCEEDED") == number


async def _terminate_all(real: Scheduling) -> None:
    await real.query(
        "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_catalog.pg_backend_pid()"
    )


async def test_two_replicas_share_the_work_and_run_nothing_twice(real: Scheduling) -> None:
    works, others = Works(), Works()
    await real.limit(50)
    for number in range(30):
        await due(real, "quick", start_within="1m", tenant=f"t{number}")

    async with at_work(real, works), at_work(real, others):
        await until_state(real, "SUCCEEDED", 30)

    ids = [call.id for call in (*works.calls, *others.calls)]
    assert len(ids) == len(set(ids)) == 30


async def test_cancel_running_stops_the_handler_and_starts_the_next(real: Scheduling) -> None:
    works = Works()
    schedule_id = await due(real, "slow", overlap="cancel_running")

    async with at_work(real, works):
        await until_state(real, "RUNNING")
        await make_due(real, schedule_id)
        await until_state(real, "CANCELLED")
        await until_state(real, "RUNNING")
        works.go.set()
        await until_state(real, "SUCCEEDED")

    assert len(works.calls) == 2
