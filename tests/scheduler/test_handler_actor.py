"""The actor of a handler's transaction follows from its lease, not from session settings."""

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest
from support.handler_sessions import HandlerSessions, Row, handler_sessions
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.handler_transactions import proof_of
from tenantcron.store.steps.claiming import Claimed

WRITE = "INSERT INTO ledger (note) VALUES ('x')"
RECORDED = (
    "SELECT changed_by, actor_type, actor_source, authenticated, correlation_id"
    " FROM \"tenant_{tenant}\".history WHERE note = 'x'"
)
SCHEDULER = ("system:scheduler:scheduler", "scheduler", "cron-scheduler", False)
FORGED = {
    "tenantcron.actor": "ada",
    "tenantcron.actor_type": "human",
    "tenantcron.actor_source": "back-office",
    "tenantcron.authenticated": "true",
}


@pytest.fixture
async def sessions(database: Database) -> AsyncIterator[HandlerSessions]:
    async with handler_sessions(database) as opened:
        yield opened


@pytest.fixture
async def scheduling(sessions: HandlerSessions, tmp_path: object) -> Scheduling:
    made = Scheduling(sessions.database, Settings(folder=tmp_path))  # type: ignore[arg-type] # a path
    await made.prepare()
    return made


async def started(scheduling: Scheduling, tenant: str = "acme") -> Claimed:
    """Return a running execution."""
    await scheduling.waiting(tenant=tenant)
    (claimed,) = (await scheduling.claim()).started
    return claimed


def says(**settings: str) -> str:
    calls = (
        f"set_config('tenantcron.{name}', '{value}', true)" for name, value in settings.items()
    )
    return f"SELECT {', '.join(calls)}"


async def recorded(sessions: HandlerSessions, tenant: str = "acme") -> list[Row]:
    return await sessions.admin(RECORDED.format(tenant=tenant))


async def by_the_role(sessions: HandlerSessions, tenant: str = "acme") -> list[Row]:
    return [(await sessions.role(tenant), "worker", "sql", False, None)]


async def test_a_trigger_can_read_the_actor_and_the_execution(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    claimed = await started(scheduling)

    await sessions.run(claimed, WRITE)
    await sessions.run_plain(claimed, WRITE)

    assert await recorded(sessions) == [(*SCHEDULER, claimed.id)] * 2


async def test_the_actor_is_the_service_that_runs_the_attempt(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    await scheduling.waiting(actor_id="system:scheduler:fires")
    await scheduling.waiting(actor_id="ada", actor_type="human", actor_source="manual")
    settings = replace(scheduling.settings, service="runs")
    replica = replace(scheduling.replica(), settings=settings)
    await scheduling.execute(
        "INSERT INTO tenantcron.worker (id, service, started_at, seen_at, capabilities)"
        " VALUES (:id, 'runs', now(), now(), '{}')",
        id=replica.worker_id,
    )
    claim = await scheduling.claim(replica)
    started = {execution.actor.id: execution for execution in claim.started}

    for execution in started.values():
        await sessions.run(execution, WRITE)

    assert {row[0] for row in await recorded(sessions)} == started.keys()
    assert started.keys() == {"system:scheduler:runs", "ada"}


async def test_session_settings_cannot_change_the_actor(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    claimed = await started(scheduling)
    lies = [f"SELECT set_config('{name}', '{value}', true)" for name, value in FORGED.items()]

    await sessions.run(claimed, *lies, WRITE)

    assert await recorded(sessions) == [(*SCHEDULER, claimed.id)]


@pytest.mark.parametrize("execution", ["", "x", "-" * 36, str(UUID(int=7)), "0" * 5000])
async def test_an_execution_that_is_not_running_proves_no_actor(
    sessions: HandlerSessions, scheduling: Scheduling, execution: str
) -> None:
    claimed = await started(scheduling)

    await sessions.run(claimed, says(correlation_id=execution), WRITE)

    assert await recorded(sessions) == await by_the_role(sessions)


async def test_an_expired_lease_proves_no_actor(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    claimed = await started(scheduling)
    await scheduling.finish(claimed)

    await sessions.run(claimed, WRITE)

    assert await recorded(sessions) == await by_the_role(sessions)


async def test_the_lease_of_an_earlier_attempt_proves_no_actor(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    first = await started(scheduling)
    await scheduling.finish(first, AttemptOutcome.FAILED, "x")
    scheduling.clock.advance(hours=1)
    (second,) = (await scheduling.claim()).started
    assert (second.id, second.attempt) == (first.id, 2)

    await sessions.run(first, WRITE)
    await sessions.run(second, WRITE)

    assert await recorded(sessions) == [
        *await by_the_role(sessions),
        (*SCHEDULER, second.id),
    ]


async def test_an_execution_cannot_pose_as_another_of_the_same_claim(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    await scheduling.waiting(count=2)
    first, second = (await scheduling.claim()).started
    assert first.lease_token == second.lease_token

    await sessions.run(first, says(correlation_id=str(second.id)), WRITE)

    assert await recorded(sessions) == await by_the_role(sessions)


async def test_a_tenant_cannot_use_the_proof_of_another(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    other = await started(scheduling, "night-owl")
    own = await started(scheduling)
    stolen = says(correlation_id=str(other.id), lease=proof_of(other.lease))

    await sessions.run(own, stolen, WRITE)

    assert await recorded(sessions) == await by_the_role(sessions)


async def test_the_proof_is_not_the_lease_token(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    claimed = await started(scheduling)

    shown = await sessions.run(claimed, "SELECT current_setting('tenantcron.lease')")

    assert str(claimed.lease_token) not in str(shown)
    assert shown == [(proof_of(claimed.lease),)]


async def test_the_proof_is_hidden_from_other_sessions_of_the_tenant(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    claimed = await started(scheduling)
    other = await started(scheduling)

    async with sessions.of(claimed):
        shown = await sessions.run(other, "SELECT query FROM pg_stat_activity")

    assert shown
    assert proof_of(claimed.lease) not in str(shown)


async def test_a_change_of_a_schedule_by_a_handler_is_attributed_to_it(
    sessions: HandlerSessions, scheduling: Scheduling
) -> None:
    claimed = await started(scheduling)
    await sessions.login("acme")
    role = await sessions.role("acme")
    await sessions.admin(
        f"GRANT INSERT ON tenant_acme.tenant_schedule, tenant_acme.audit_record TO {role}"
    )
    await sessions.admin(f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA tenantcron TO {role}")
    await sessions.admin(f"GRANT SELECT, UPDATE ON tenantcron.tenant TO {role}")
    await sessions.admin(f"GRANT INSERT ON tenantcron.schedule_change TO {role}")
    insert = (
        "INSERT INTO tenant_schedule (id, schedule_name, saga_name, cron_expr, timezone,"
        " manifest_version_id, definition, created_at, updated_at)"
        " VALUES (gen_random_uuid(), 'n', 's', '0 0 1 1 *', 'UTC', gen_random_uuid(), '{}',"
        " now(), now())"
    )

    await sessions.run(claimed, says(actor="ada", authenticated="true"), insert)

    audit = "SELECT changed_by, authenticated FROM tenant_acme.audit_record"
    assert await sessions.admin(audit) == [("system:scheduler:scheduler", False)]
    revision = "SELECT schedule_revision FROM tenantcron.tenant WHERE id = 'acme'"
    assert await sessions.admin(revision) == [(1,)]


async def test_other_logins_set_the_actor_as_before(sessions: HandlerSessions) -> None:
    async with sessions.database.transaction() as connection:
        for name, value in FORGED.items():
            await connection.exec_driver_sql(f"SELECT set_config('{name}', '{value}', true)")
        found = await connection.exec_driver_sql("SELECT * FROM tenantcron.acting()")
        assert tuple(found.one()) == ("ada", "human", "back-office", True, None, False)
