"""Claim: pending executions start, or are skipped with an exact reason."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.patience import PATIENCE
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.claim import claim_batch, release
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.steps import claiming, glances

NO_SLOT = "concurrency limit reached"


async def test_a_started_execution_has_a_lease_a_token_and_a_worker(scheduling: Scheduling) -> None:
    schedule_id = await scheduling.schedule("nightly")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()

    (claimed,) = (await scheduling.claim()).started

    (row,) = await scheduling.rows()
    now = scheduling.clock.now
    assert (row["state"], row["attempt"], row["worker_id"]) == ("RUNNING", 1, "one")
    assert (row["started_at"], row["lease_until"]) == (now, now + timedelta(seconds=60))
    assert row["lease_token"] == claimed.lease_token
    assert (claimed.id, claimed.schedule_id) == (row["id"], schedule_id)
    assert (claimed.tenant_id, claimed.schema_name) == ("acme", "tenant_acme")
    assert (claimed.attempt, claimed.attempts_allowed, claimed.started_at) == (1, 3, now)
    assert claimed.actor.id == "system:scheduler:scheduler"
    assert claimed.actor.source == "cron-scheduler"


async def test_nothing_starts_before_its_time(scheduling: Scheduling) -> None:
    await scheduling.waiting(not_before=NOON + timedelta(seconds=1))

    assert (await scheduling.claim()).started == ()
    scheduling.clock.advance(seconds=1)
    assert len((await scheduling.claim()).started) == 1


async def test_nothing_starts_twice(scheduling: Scheduling) -> None:
    await scheduling.limit(100)
    await scheduling.waiting(40)
    several = [scheduling.replica(f"r{number}") for number in range(4)]

    claims = await asyncio.gather(*(claim_batch(replica, 15) for replica in several))

    ids = [execution.id for claim in claims for execution in claim.started]
    assert len(ids) == len(set(ids)) == 40
    claimed_by = [
        {execution.lease_token for execution in claim.started} for claim in claims if claim.started
    ]
    assert [len(tokens) for tokens in claimed_by] == [1, 1, 1]
    assert len(set.union(*claimed_by)) == 3


async def test_an_execution_that_may_not_wait_is_skipped_at_the_cluster_limit(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(2)
    await scheduling.waiting(3, start_deadline=NOON)

    started = await scheduling.claim_all()

    assert len(started) == 2
    assert [state for state in await scheduling.states() if state[0] == "SKIPPED"] == [
        ("SKIPPED", NO_SLOT)
    ]
    (row,) = [row for row in await scheduling.rows() if row["state"] == "SKIPPED"]
    assert (row["finished_at"], row["attempt"], row["started_at"]) == (NOON, 0, None)


async def test_an_execution_that_may_not_wait_is_skipped_at_the_tenant_limit(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(6, start_deadline=NOON)
    await scheduling.waiting(1, tenant="other", start_deadline=NOON)

    await scheduling.claim_all()

    assert await scheduling.count(state="RUNNING", tenant_id="acme") == 5
    assert await scheduling.count(state="RUNNING", tenant_id="other") == 1
    assert [reason for state, reason in await scheduling.states() if state == "SKIPPED"] == [
        "tenant concurrency limit reached (5 of 5 running)"
    ]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"status": "suspended", "status_reason": "unpaid"}, "tenant suspended: unpaid"),
        ({"status": "suspended"}, "tenant suspended"),
        ({"status": "deprovisioned"}, "tenant deprovisioned"),
    ],
)
async def test_executions_of_an_inactive_tenant_end_without_a_start(
    scheduling: Scheduling, columns: dict[str, Any], reason: str
) -> None:
    await scheduling.tenant("closed", **columns)
    await scheduling.waiting(2, tenant="closed", start_deadline=NOON)
    await scheduling.waiting(1, tenant="closed", overlap="queue")
    await scheduling.waiting(1, tenant="closed", actor_source="manual")
    await scheduling.waiting(1, tenant="closed", state="RETRYING", attempt=1)
    await scheduling.waiting(1, tenant="closed", not_before=NOON + timedelta(hours=1))
    await scheduling.waiting(1, tenant="open")

    await scheduling.claim_all()

    states = sorted(await scheduling.states(), key=str)
    assert states == sorted(
        [
            ("RUNNING", None),
            ("PENDING", None),
            ("CANCELLED", reason),
            *[("SKIPPED", reason)] * 4,
        ],
        key=str,
    )


async def test_an_execution_waits_for_start_within_and_is_skipped_at_the_deadline(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(1)
    await scheduling.claim_all()
    await scheduling.waiting(1, start_deadline=NOON + timedelta(minutes=5))

    await scheduling.claim_all()
    scheduling.clock.advance(minutes=4, seconds=59)
    await scheduling.claim_all()
    assert await scheduling.count(state="PENDING") == 1

    scheduling.clock.advance(seconds=1)
    await scheduling.claim_all()
    assert await scheduling.states() != []
    assert await scheduling.count(state="SKIPPED", reason=NO_SLOT) == 1


async def test_a_pending_execution_starts_when_a_slot_is_freed(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(1)
    (first,) = await scheduling.claim_all()
    await scheduling.waiting(1, start_deadline=NOON + timedelta(minutes=5))
    assert await scheduling.claim_all() == []

    await scheduling.finish(first)

    assert len(await scheduling.claim_all()) == 1


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "RETRYING", "attempt": 1},
        {"actor_source": "manual"},
        {"overlap": "queue"},
        {"start_deadline": NOON + timedelta(days=1)},
    ],
    ids=["a retry", "a manual trigger", "a queued one", "a caught up one"],
)
async def test_an_execution_that_may_wait_stays_pending_at_the_limit(
    scheduling: Scheduling, columns: dict[str, Any]
) -> None:
    await scheduling.limit(1, per_tenant=1)
    await scheduling.waiting(1, priority=0)
    (first,) = await scheduling.claim_all()
    await scheduling.waiting(1, **columns)
    scheduling.clock.advance(hours=3)

    assert await scheduling.claim_all() == []
    assert await scheduling.count(state=columns.get("state", "PENDING")) == 1

    await scheduling.finish(first)
    assert len(await scheduling.claim_all()) == 1


async def test_an_execution_that_does_not_fit_into_a_batch_is_not_skipped(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100)
    await scheduling.waiting(30, start_deadline=NOON)

    claims = [await claim_batch(scheduling.replica(), 7) for _ in range(6)]

    assert [len(claim.started) for claim in claims] == [7, 7, 7, 7, 2, 0]
    assert [claim.more for claim in claims] == [True] * 5 + [False]
    assert [execution for claim in claims for execution in claim.skipped] == []


@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE tenantcron.tenant RENAME COLUMN status TO state",
        "ALTER TABLE tenantcron.limits RENAME COLUMN declared TO said",
        "DELETE FROM tenantcron.limits",
    ],
)
async def test_without_a_limits_row_nothing_starts_and_nothing_is_lost(
    scheduling: Scheduling, damage: str
) -> None:
    await scheduling.waiting(2, start_deadline=NOON)
    before = await scheduling.rows()
    await scheduling.execute(damage)

    with pytest.raises((DBAPIError, DatabaseError)):
        await scheduling.claim()

    assert await scheduling.rows() == before


async def test_without_the_privilege_to_read_tenants_nothing_starts_and_nothing_is_lost(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(2, start_deadline=NOON)
    before = await scheduling.rows()
    await scheduling.execute("DROP ROLE IF EXISTS half_blind")
    await scheduling.execute("CREATE ROLE half_blind")
    await scheduling.execute("GRANT USAGE ON SCHEMA tenantcron TO half_blind")
    await scheduling.execute("GRANT ALL ON ALL TABLES IN SCHEMA tenantcron TO half_blind")
    await scheduling.execute("GRANT ALL ON ALL FUNCTIONS IN SCHEMA tenantcron TO half_blind")
    await scheduling.execute("REVOKE ALL ON tenantcron.tenant FROM half_blind")

    async def claim_without_privilege() -> None:
        async with scheduling.database.transaction() as connection:
            await connection.exec_driver_sql("SET LOCAL ROLE half_blind")
            await claiming.claim(
                connection,
                "one",
                batch=5,
                lease=timedelta(seconds=60),
                at=scheduling.clock(),
                requires=["saga:work"],
            )

    with pytest.raises(DatabaseError, match="permission denied for table tenant"):
        await claim_without_privilege()

    await scheduling.execute("DROP OWNED BY half_blind")
    await scheduling.execute("DROP ROLE half_blind")
    assert await scheduling.rows() == before
    assert len((await scheduling.claim()).started) == 2


async def test_an_execution_that_is_being_cancelled_does_not_start(scheduling: Scheduling) -> None:
    await scheduling.waiting(2)
    first = (await scheduling.rows())[0]["id"]
    async with scheduling.database.transaction() as connection:
        await connection.exec_driver_sql(
            "UPDATE tenantcron.execution SET state = 'CANCELLED' WHERE id = %(id)s", {"id": first}
        )
        claim = await scheduling.claim()

    assert [execution.id for execution in claim.started if execution.id == first] == []
    assert len(claim.started) == 1
    assert await scheduling.count(id=first, state="CANCELLED") == 1


async def test_a_released_execution_looks_unclaimed(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(2, start_deadline=NOON)
    await scheduling.waiting(1, state="RETRYING", attempt=1)
    before = await scheduling.rows()
    claimed = (await scheduling.claim()).started
    assert len(claimed) == 3

    await release(scheduling.replica(), claimed)

    assert await scheduling.rows() == before
    assert len((await scheduling.claim(scheduling.replica("two"))).started) == 3


async def test_only_the_holder_of_the_lease_can_release_it(scheduling: Scheduling) -> None:
    await scheduling.waiting(1)
    (claimed,) = (await scheduling.claim()).started
    await scheduling.finish(claimed)
    before = await scheduling.rows()

    await release(scheduling.replica(), [claimed])

    assert await scheduling.rows() == before


async def test_the_time_until_the_next_pending_execution_may_start(
    scheduling: Scheduling,
) -> None:
    async def seconds(since: datetime | None = None) -> float | None:
        now = scheduling.clock()
        own = ["saga:work"]
        return await glances.seconds_to_next_waiting(scheduling.database, own, since or now, now)

    assert await seconds() is None
    await scheduling.waiting(1)
    assert await seconds() is None
    await scheduling.waiting(1, start_deadline=NOON + timedelta(seconds=90))
    assert await seconds() == 90
    await scheduling.waiting(1, state="RETRYING", not_before=NOON + timedelta(seconds=30))
    assert await seconds() == 30
    # Executions that only other replicas can run do not wake this one.
    await scheduling.waiting(1, saga_name="other", not_before=NOON + timedelta(seconds=10))
    assert await seconds() == 30
    scheduling.clock.advance(seconds=60)
    assert await seconds() == 30
    scheduling.clock.advance(seconds=60)
    assert await seconds() is None
    # An execution that became pending after the last claim shortens the sleep.
    assert await seconds(since=NOON + timedelta(seconds=60)) == -30


async def test_an_execution_that_no_replica_claimed_in_time_does_not_start(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(catch_up="none")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    scheduling.clock.advance(hours=5)

    claim = await scheduling.claim()

    assert claim.started == ()
    assert await scheduling.states() == [("SKIPPED", "no scheduler started it in time")]


async def test_an_execution_fired_at_the_last_moment_has_a_minute_to_be_claimed(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule()
    scheduling.clock.advance(hours=1, seconds=60)
    await scheduling.fire()
    scheduling.clock.advance(seconds=1)

    assert len((await scheduling.claim()).started) == 1


async def _failed_once_while(scheduling: Scheduling, change: str) -> None:
    """Fail an attempt during which the cursor is changed, and wait for the retry."""
    await scheduling.schedule()
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    (claimed,) = (await scheduling.claim()).started
    await scheduling.execute(f"UPDATE tenantcron.schedule_cursor SET {change}")  # noqa: S608 -- a test's own words
    await scheduling.finish(claimed, AttemptOutcome.FAILED, "no luck")
    scheduling.clock.advance(minutes=5)


async def test_an_execution_of_a_disabled_schedule_is_not_retried(scheduling: Scheduling) -> None:
    await _failed_once_while(scheduling, "enabled = false")

    assert (await scheduling.claim()).started == ()
    assert await scheduling.states() == [("CANCELLED", "schedule disabled")]


async def test_an_execution_of_a_paused_schedule_is_retried(scheduling: Scheduling) -> None:
    await _failed_once_while(scheduling, "paused_at = now(), paused_reason = 'partner is down'")

    (started,) = (await scheduling.claim()).started
    assert started.attempt == 2


async def test_a_cancelled_execution_ends_when_it_is_released(scheduling: Scheduling) -> None:
    await scheduling.waiting(1)
    (claimed,) = (await scheduling.claim()).started
    await scheduling.execute(
        "UPDATE tenantcron.execution SET cancel_requested_at = now(), cancel_reason = 'by maria'"
    )

    await release(scheduling.replica(), [claimed])

    assert await scheduling.states() == [("CANCELLED", "by maria")]


async def test_a_stalled_claim_does_not_stop_other_replicas(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(3)
    stalled = scheduling.database.transaction(by_key=True)
    connection = await stalled.__aenter__()
    await claiming.claim(
        connection,
        "one",
        batch=3,
        lease=timedelta(seconds=60),
        at=scheduling.clock.now,
        requires=["saga:work"],
    )
    patience = "idle_in_transaction_session_timeout"
    assert await connection.scalar(text(f"SHOW {patience}")) == "10s"
    # Shorten the timeout, only for this test.
    await connection.execute(text(f"SET LOCAL {patience} TO '50ms'"))

    async with asyncio.timeout(PATIENCE):
        claim = await scheduling.claim(scheduling.replica("two"))

    assert len(claim.started) == 3
    with pytest.raises(DatabaseError):
        await stalled.__aexit__(None, None, None)
    assert {row["worker_id"] for row in await scheduling.rows()} == {"two"}
