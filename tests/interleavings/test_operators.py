"""Every order of a replica and a user who pauses, cancels, suspends, retries or applies."""

from pathlib import Path

from interleavings.conftest import Theatre
from support.interleaving import Ran
from support.scheduling import NOON
from support.stages import ACME, HOURLY

from tenantcron.core.errors import TenantcronError
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.connection.errors import ConflictError
from tenantcron.store.steps.claiming import Claim

QUARTERLY = "cron: '*/15 * * * *'"


async def test_a_pause_that_ends_pending_executions_misses_none(
    theatre: Theatre, tmp_path: Path
) -> None:
    stage = theatre.stage
    await stage.declare({"hourly": HOURLY}, tmp_path / "m")
    programs = {"fire": stage.fire(), "pause": stage.pause("hourly")}

    async def check(_: Ran) -> None:
        # A cursor that the pause had locked is due again in the next round.
        await stage.fire()(stage.scheduling.database)
        (execution,) = await stage.executions()
        assert (execution["scheduled_for"], execution["state"]) == (NOON, "SKIPPED")
        assert execution["reason"] == "paused: partner is down"

    assert await theatre.every_order(programs, check) > 1


async def test_a_cancelled_execution_is_always_asked_to_stop(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.scheduling.waiting(1)
    (waiting,) = await stage.executions()
    execution_id = waiting["id"]
    programs = {"claim": stage.claim(), "cancel": stage.cancel(execution_id)}

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        if isinstance(ran.results["cancel"], ConflictError):
            assert execution["cancel_requested_at"] is None
            return
        assert not isinstance(ran.results["cancel"], Exception), ran.results["cancel"]
        if execution["state"] == "RUNNING":
            assert execution["cancel_requested_at"] is not None
        else:
            assert execution["state"] == "CANCELLED"

    assert await theatre.every_order(programs, check) > 1


async def test_nothing_starts_after_a_tenant_is_suspended(theatre: Theatre) -> None:
    stage = theatre.stage
    await stage.scheduling.waiting(1)
    programs = {"claim": stage.claim(), "suspend": stage.suspend()}

    async def check(ran: Ran) -> None:
        (execution,) = await stage.executions()
        (tenant,) = await stage.scheduling.rows("tenant", "id")
        assert tenant["status"] == "suspended"
        if ran.committed_before_first_step("suspend", "claim"):
            assert execution["state"] != "RUNNING"
        claim = ran.results["claim"]
        assert isinstance(claim, Claim)
        assert len(claim.started) == (execution["state"] == "RUNNING")

    assert await theatre.every_order(programs, check) > 1


async def test_a_retry_never_starts_work_of_a_deleted_schedule(
    theatre: Theatre, tmp_path: Path
) -> None:
    stage = theatre.stage
    await stage.declare({"hourly": f"{HOURLY}, retry: {{max_attempts: 1}}"}, tmp_path / "m")
    await stage.fire()(stage.scheduling.database)
    claimed = await stage.start()
    await stage.scheduling.finish(claimed, AttemptOutcome.FAILED, "no such customer")
    await stage.apply(await stage.wanted({}, tmp_path / "none"))(stage.scheduling.database)
    programs = {"retry": stage.retry(claimed.id), "delete": stage.refresh()}

    async def check(ran: Ran) -> None:
        retried = ran.results["retry"]
        assert not isinstance(retried, Exception) or isinstance(retried, TenantcronError), retried
        assert not isinstance(ran.results["delete"], Exception), ran.results["delete"]
        claim = await stage.scheduling.claim()
        assert claim.started == ()
        (execution,) = await stage.executions()
        expected = "DEAD" if isinstance(retried, OperationError | ConflictError) else "CANCELLED"
        assert execution["state"] == expected

    assert await theatre.every_order(programs, check) > 1


async def test_two_applies_leave_the_schedules_of_one(theatre: Theatre, tmp_path: Path) -> None:
    stage = theatre.stage
    await stage.declare({"hourly": HOURLY}, tmp_path / "m")
    first = await stage.wanted({"hourly": QUARTERLY, "first": HOURLY}, tmp_path / "first")
    second = await stage.wanted({"second": HOURLY}, tmp_path / "second")
    programs = {"first": stage.apply(first), "second": stage.apply(second)}

    async def check(ran: Ran) -> None:
        assert not any(isinstance(end, Exception) for end in ran.results.values()), ran.results
        rows = await stage.scheduling.query("SELECT * FROM tenant_acme.tenant_schedule")
        assert {row["schedule_name"] for row in rows} in ({"hourly", "first"}, {"second"})
        versions = await stage.scheduling.rows("manifest_version", "version")
        assert [row["version"] for row in versions] == [1, 2, 3]
        assert {row["manifest_version_id"] for row in rows} == {versions[-1]["id"]}

    assert await theatre.every_order(programs, check) > 1


async def test_an_edit_never_fires_an_occurrence_again(theatre: Theatre, tmp_path: Path) -> None:
    stage = theatre.stage
    await stage.declare({"hourly": HOURLY}, tmp_path / "m")
    edited = await stage.wanted({"hourly": QUARTERLY}, tmp_path / "edited")
    programs = {"fire": stage.fire(), "apply": stage.apply(edited)}

    async def check(_: Ran) -> None:
        await stage.scheduling.execute(
            "UPDATE tenant_acme.tenant_schedule SET effective_from = :noon", noon=NOON
        )
        await stage.refresh()(stage.scheduling.database)
        await stage.fire()(stage.scheduling.database)
        (execution,) = await stage.executions()
        assert execution["scheduled_for"] == NOON

    assert await theatre.every_order(programs, check) > 1


async def test_a_replica_never_starts_an_execution_whose_saga_changed(
    theatre: Theatre, tmp_path: Path
) -> None:
    stage = theatre.stage
    await stage.declare({"hourly": f"{HOURLY}, start_within: 1h"}, tmp_path / "m")
    await stage.fire()(stage.scheduling.database)
    renamed = {"other": f"name: hourly, {HOURLY}, start_within: 1h"}
    await stage.apply(await stage.wanted(renamed, tmp_path / "next"))(stage.scheduling.database)
    programs = {"claim": stage.claim("old", "hourly"), "refresh": stage.refresh()}
    ends: set[tuple[object, ...]] = set()

    async def check(ran: Ran) -> None:
        assert not any(isinstance(end, Exception) for end in ran.results.values()), ran.results
        (execution,) = await stage.executions()
        ends.add((execution["state"], execution["saga_name"], execution["requires"]))

    assert await theatre.every_order(programs, check) > 1
    assert ends == {("RUNNING", "hourly", "saga:hourly"), ("PENDING", "other", "saga:other")}


async def test_cursors_match_the_last_apply(theatre: Theatre, tmp_path: Path) -> None:
    stage = theatre.stage
    await stage.declare({"hourly": HOURLY}, tmp_path / "m")
    first = await stage.wanted({"hourly": QUARTERLY}, tmp_path / "first")
    await stage.apply(first)(stage.scheduling.database)
    second = await stage.wanted({"hourly": "cron: '30 * * * *'", "new": HOURLY}, tmp_path / "next")
    programs = {"refresh": stage.refresh(), "apply": stage.apply(second)}

    async def check(ran: Ran) -> None:
        assert not any(isinstance(end, Exception) for end in ran.results.values()), ran.results
        await stage.refresh()(stage.scheduling.database)
        cursors = await stage.scheduling.rows("schedule_cursor", "schedule_name")
        timetables = {row["schedule_name"]: row["cron_expr"] for row in cursors}
        assert timetables == {"hourly": "30 * * * *", "new": "0 * * * *"}
        (tenant,) = await stage.scheduling.query(
            "SELECT * FROM tenantcron.tenant WHERE id = :id", id=ACME
        )
        assert tenant["synced_revision"] == tenant["schedule_revision"]

    assert await theatre.every_order(programs, check) > 1
