"""Events are written in the transaction of the change, or not at all."""

from sqlalchemy import text
from support.scheduling import NOON, Row, Scheduling
from support.webhooks import hooked

from tenantcron.events.cloud_events import EVENT_TYPES, PREFIX
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.rows import webhooks


async def events(scheduling: Scheduling) -> list[Row]:
    return await scheduling.rows("outbox", "id")


async def types(scheduling: Scheduling) -> list[str]:
    return [str(row["type"]).removeprefix(PREFIX) for row in await events(scheduling)]


async def listen(scheduling: Scheduling, **fields: object) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add(**fields)  # type: ignore[arg-type] # as given


async def test_without_webhooks_no_events_are_written(scheduling: Scheduling) -> None:
    await everything_happens(scheduling)
    assert await scheduling.count(state="SUCCEEDED") == 1
    assert await events(scheduling) == []


async def triggers_of_executions(scheduling: Scheduling) -> list[str]:
    statement = (
        "SELECT tgname FROM pg_trigger WHERE tgrelid = 'tenantcron.execution'::regclass"
        " AND NOT tgisinternal ORDER BY tgname"
    )
    return [str(row["tgname"]) for row in await scheduling.query(statement)]


async def test_executions_have_event_triggers_only_while_a_webhook_subscribes_to_them(
    scheduling: Scheduling,
) -> None:
    before = await triggers_of_executions(scheduling)
    await listen(scheduling, name="tenants", event_types=(f"{PREFIX}tenant.changed",))
    for_tenants = await triggers_of_executions(scheduling)
    await listen(scheduling, name="executions")
    for_executions = await triggers_of_executions(scheduling)
    async with scheduling.database.transaction() as connection:
        await webhooks.disable(connection, "executions", "enough")
    after = await triggers_of_executions(scheduling)

    assert (before, for_tenants, after) == ([], [], [])
    assert for_executions == ["execution_made_told", "execution_told"]


async def test_a_webhook_can_be_removed_during_a_long_read_of_the_history(
    scheduling: Scheduling,
) -> None:
    await listen(scheduling, name="executions")
    async with scheduling.database.transaction() as reader:
        await reader.execute(text("SELECT FROM tenantcron.execution"))
        async with scheduling.database.transaction() as connection:
            assert await webhooks.remove(connection, "executions") is not None
            assert await connection.scalar(text("SHOW lock_timeout")) == "0"
    await everything_happens(scheduling)

    assert await triggers_of_executions(scheduling) != []
    assert await events(scheduling) == []
    await listen(scheduling, name="tenants", event_types=(f"{PREFIX}tenant.changed",))
    assert await triggers_of_executions(scheduling) == []


async def everything_happens(scheduling: Scheduling) -> None:
    """End executions in every way, pause and resume a schedule, and suspend a tenant."""
    schedule_id = await scheduling.schedule("missed", catch_up="none")
    await scheduling.waiting(1, schedule_name="done", attempts_allowed=1)
    await scheduling.waiting(1, schedule_name="dead", attempts_allowed=1)
    await scheduling.limit(2)
    done, dead = await scheduling.claim_all()
    await scheduling.finish(done)
    await scheduling.finish(dead, AttemptOutcome.FAILED, "boom")
    await scheduling.limit(0)
    await scheduling.waiting(1, schedule_name="skipped", start_deadline=NOON)
    await scheduling.claim_all()
    scheduling.clock.advance(hours=5)
    await scheduling.fire()
    await scheduling.set_cursor(schedule_id, paused_at=NOON, paused_by="x", paused_reason="y")
    await scheduling.set_cursor(schedule_id, paused_at=None, paused_by=None, paused_reason=None)
    await scheduling.execute("UPDATE tenantcron.tenant SET status = 'suspended'")


async def test_each_end_of_an_execution_pause_and_change_writes_one_event(
    scheduling: Scheduling,
) -> None:
    await listen(scheduling)
    await everything_happens(scheduling)

    assert await types(scheduling) == [
        "tenant.changed",
        "execution.succeeded",
        "execution.dead",
        "execution.skipped",
        "execution.missed",
        "schedule.paused",
        "schedule.resumed",
        "tenant.changed",
    ]
    rows = [row for row in await scheduling.rows() if row["state"] != "PENDING"]
    data = [row["data"] for row in await events(scheduling) if str(row["type"]).find("exec") > 0]
    assert sorted((event["id"], event["state"], event["reason_code"]) for event in data) == sorted(
        (str(row["id"]), row["state"], row["reason_code"]) for row in rows
    )


async def test_a_cancelled_execution_has_its_own_event_type(scheduling: Scheduling) -> None:
    await listen(scheduling)
    await scheduling.limit(0)
    await scheduling.waiting(1)
    await scheduling.execute("UPDATE tenantcron.execution SET state = 'CANCELLED'")
    assert await types(scheduling) == ["tenant.changed", "execution.cancelled"]


async def test_an_attempt_that_is_retried_writes_no_event(scheduling: Scheduling) -> None:
    await scheduling.waiting(1, attempts_allowed=3)
    await listen(scheduling)
    (claimed,) = await scheduling.claim_all()
    await scheduling.finish(claimed, AttemptOutcome.FAILED, "boom")
    assert await scheduling.count(state="RETRYING") == 1
    assert await events(scheduling) == []


async def test_a_rolled_back_transaction_writes_no_event(scheduling: Scheduling) -> None:
    await scheduling.waiting(1)
    await listen(scheduling)
    change = text("UPDATE tenantcron.execution SET state = 'SKIPPED'")
    async with scheduling.database.transaction() as connection:
        await connection.execute(change)
        await connection.execute(text("UPDATE tenantcron.tenant SET weight = 7"))
        seen = await connection.scalar(text("SELECT count(*) FROM tenantcron.outbox"))
        await connection.rollback()
    assert seen == 2
    assert await events(scheduling) == []


async def test_the_event_of_a_manual_change_has_the_database_user_and_the_old_value(
    scheduling: Scheduling,
) -> None:
    await scheduling.tenant("acme")
    await listen(scheduling)
    await scheduling.execute("UPDATE tenantcron.tenant SET max_concurrent = 3")

    (event,) = await events(scheduling)
    data = event["data"]
    assert isinstance(data, dict)
    assert (data["before"]["max_concurrent"], data["after"]["max_concurrent"]) == (None, 3)
    assert data["actor"]["source"] == "sql"
    assert (event["subject"], event["tenant_id"]) == ("tenants/acme", "acme")


async def test_an_update_without_changes_writes_no_event(scheduling: Scheduling) -> None:
    await scheduling.tenant("acme")
    await listen(scheduling)
    await scheduling.execute("UPDATE tenantcron.tenant SET weight = weight, status = status")
    await scheduling.execute("UPDATE tenantcron.tenant SET schedule_revision = 5")
    assert await events(scheduling) == []


async def test_only_subscribed_event_types_are_written(scheduling: Scheduling) -> None:
    await listen(scheduling, name="dead", event_types=(f"{PREFIX}execution.dead",))
    await listen(scheduling, name="beta", event_types=(f"{PREFIX}tenant.changed",), tenants=("b",))
    await scheduling.tenant("a")
    await scheduling.tenant("b")
    await everything_happens(scheduling)
    found = [(row["type"], row["tenant_id"]) for row in await events(scheduling)]
    assert found == [
        ("dev.tenantcron.tenant.changed", "b"),
        ("dev.tenantcron.execution.dead", "acme"),
        ("dev.tenantcron.tenant.changed", "b"),
    ]


async def test_no_events_are_written_for_a_disabled_webhook(scheduling: Scheduling) -> None:
    await listen(scheduling)
    async with scheduling.database.transaction() as connection:
        await webhooks.disable(connection, "ops", "for a test")
    await everything_happens(scheduling)
    assert await events(scheduling) == []


async def test_a_role_that_may_end_executions_needs_no_privileges_on_the_outbox(
    scheduling: Scheduling,
) -> None:
    await scheduling.tenant("acme")
    await listen(scheduling)
    async with scheduling.database.transaction() as connection:
        for statement in (
            "CREATE ROLE plain_operator",
            "GRANT USAGE ON SCHEMA tenantcron TO plain_operator",
            "GRANT SELECT, UPDATE ON tenantcron.tenant TO plain_operator",
            "GRANT INSERT ON tenantcron.audit_record TO plain_operator",
            "GRANT EXECUTE ON FUNCTION tenantcron.sees, tenantcron.acting TO plain_operator",
            "GRANT EXECUTE ON FUNCTION tenantcron.put_on_record TO plain_operator",
            "SET LOCAL ROLE plain_operator",
            "UPDATE tenantcron.tenant SET weight = 2",
            "RESET ROLE",
        ):
            await connection.execute(text(statement))
        number = await connection.scalar(text("SELECT count(*) FROM tenantcron.outbox"))
        # Roles belong to the server, which other tests use as well.
        await connection.rollback()
    assert number == 1


def test_every_type_has_one_scheme() -> None:
    assert all(
        event_type.startswith(PREFIX) and event_type.count(".") == 3 for event_type in EVENT_TYPES
    )
