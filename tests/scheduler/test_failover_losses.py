"""The attempts that a replica remembers, compared with the rows of a new primary."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from time import monotonic

import pytest
from support.scheduling import Scheduling

from tenantcron.scheduler.steps import recent_attempts
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.scheduler.steps.recent_attempts import RecentAttempts
from tenantcron.store.rows import failovers
from tenantcron.store.rows.failovers import LossRow, Remembered
from tenantcron.store.steps.claiming import Claimed

FORGET_CLAIM = (
    "UPDATE tenantcron.execution SET state = 'PENDING', attempt = 0, started_at = NULL,"
    " worker_id = NULL, lease_token = NULL, lease_until = NULL, finished_at = NULL"
)

Then = Callable[[Scheduling, Claimed], Awaitable[None]]


async def started(scheduling: Scheduling) -> Claimed:
    await scheduling.waiting(1)
    (claimed,) = (await scheduling.claim()).started
    return claimed


async def record(scheduling: Scheduling, claimed: Claimed, *, ended: bool) -> list[LossRow]:
    async with scheduling.database.transaction(by_key=True) as connection:
        return await failovers.record_losses(
            connection, [Remembered(claimed, ended)], timeline=2, worker_id="one", at=None
        )


async def nothing(_: Scheduling, __: Claimed) -> None:
    """The row stays RUNNING."""


async def succeed(scheduling: Scheduling, claimed: Claimed) -> None:
    await scheduling.finish(claimed)


async def fail(scheduling: Scheduling, claimed: Claimed) -> None:
    await scheduling.finish(claimed, AttemptOutcome.FAILED)


async def recover(scheduling: Scheduling, _: Claimed) -> None:
    scheduling.clock.advance(hours=1)
    assert await recover_lost(scheduling.replica("two")) == 1


async def forget_claim(scheduling: Scheduling, _: Claimed) -> None:
    await scheduling.execute(FORGET_CLAIM)


async def forget_row(scheduling: Scheduling, _: Claimed) -> None:
    await scheduling.execute("DELETE FROM tenantcron.execution")


async def run_again(scheduling: Scheduling, _: Claimed) -> None:
    await scheduling.execute(FORGET_CLAIM)
    scheduling.clock.advance(seconds=1)
    (again,) = (await scheduling.claim()).started
    await scheduling.finish(again)


@pytest.mark.parametrize(
    ("then", "ended", "lost"),
    [
        pytest.param(succeed, True, None, id="a recorded success is there"),
        pytest.param(fail, True, None, id="a recorded failure is there"),
        pytest.param(nothing, False, None, id="a running execution is there"),
        pytest.param(recover, False, None, id="a lost lease is not a lost start"),
        pytest.param(nothing, True, "result", id="the row still runs"),
        pytest.param(recover, True, "result", id="the row was recovered as lost"),
        pytest.param(forget_claim, True, "claim", id="the row was never claimed"),
        pytest.param(forget_claim, False, "claim", id="the running attempt was never claimed"),
        pytest.param(forget_row, True, "claim", id="the row was never fired"),
        pytest.param(run_again, True, "claim", id="the row has run again meanwhile"),
    ],
)
async def test_missing_attempts_are_recorded_once(
    scheduling: Scheduling, then: Then, ended: bool, lost: str | None
) -> None:
    claimed = await started(scheduling)
    await then(scheduling, claimed)

    found = await record(scheduling, claimed, ended=ended)
    again = await record(scheduling, claimed, ended=ended)

    assert [row.lost for row in found] == ([lost] if lost else [])
    assert again == []
    assert [row["lost"] for row in await scheduling.rows("failover_loss", "execution_id")] == (
        [lost] if lost else []
    )


async def test_an_attempt_is_remembered_once_with_its_end(scheduling: Scheduling) -> None:
    claimed, kept = await started(scheduling), RecentAttempts()
    kept.note_claimed([claimed])
    assert kept.remembered() == [Remembered(claimed, ended=False)]

    kept.note_ended([claimed])

    assert kept.remembered() == [Remembered(claimed, ended=True)]


async def test_memory_is_bounded_by_number_and_time(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, kept = await started(scheduling), RecentAttempts()
    many = [claimed._replace(attempt=number, id=claimed.definition_id) for number in range(8)]
    monkeypatch.setattr(recent_attempts, "MOST", 5)
    kept.note_ended(many[:4])
    kept.note_ended([claimed])
    kept.note_ended(many[:1])
    assert {attempt.claimed.id for attempt in kept.remembered()} == {
        claimed.id,
        claimed.definition_id,
    }

    now = monotonic()
    monkeypatch.setattr(recent_attempts, "monotonic", lambda: now + recent_attempts.LONGEST + 1)
    assert kept.remembered() == []


async def test_losses_are_deleted_with_the_history(scheduling: Scheduling) -> None:
    claimed = await started(scheduling)
    (row,) = await record(scheduling, claimed, ended=True)
    retention = timedelta(days=90)
    async with scheduling.database.transaction() as connection:
        await failovers.forget_old(connection, row.noticed_at + retention, retention)
        kept = await failovers.losses(connection, row.noticed_at)
        later = row.noticed_at + retention + timedelta(seconds=1)
        await failovers.forget_old(connection, later, retention)
        gone = await failovers.losses(connection, row.noticed_at)

    assert (kept.number, gone.number) == (1, 0)
