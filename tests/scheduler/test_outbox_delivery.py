"""Events reach a receiver in order per tenant, at least once, and without delaying others."""

import asyncio
import hmac
import json
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from support.fleet import DEPLOYER
from support.patience import PATIENCE
from support.replicas import Works, at_work, due, until, until_state
from support.scheduling import Scheduling
from support.services import answering, forever, service
from support.webhooks import Hooks, choosing, events_of, hooked, subjects

from tenantcron.actor.signatures import verify_signature
from tenantcron.core.values import JsonObject
from tenantcron.events import outbox as outbox_module
from tenantcron.events.cloud_events import PREFIX
from tenantcron.events.delivery import wait_after
from tenantcron.events.outbox import EVENTS_A_LANE, LANES_A_WEBHOOK, LEASE, LONGEST_WAIT
from tenantcron.events.webhooks import requests as webhooks_module
from tenantcron.scheduler.operate.task_operator import TaskOperator
from tenantcron.scheduler.replica.housekeeping import clean_up
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.schedules.settings import RetryPolicy
from tenantcron.store.rows import outbox as store
from tenantcron.targets.http import client as http_module

ENDS = ("succeeded", "dead", "skipped", "missed", "cancelled")
WRITE = text(
    "INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)"
    " VALUES ('acme', 'dev.tenantcron.tenant.changed', :subject, now(), '{}') RETURNING id"
)


async def write(connection: AsyncConnection, subject: str) -> int:
    return int((await connection.execute(WRITE, {"subject": subject})).scalar_one())


async def test_an_event_arrives_as_a_cloud_event_of_version_1(scheduling: Scheduling) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add()
        await scheduling.waiting(1, schedule_name="nightly")
        (claimed,) = await scheduling.claim_all()
        await scheduling.finish(claimed)
        *_, event = await hooks.deliver()

    request = hooks.receiver.received[-1]
    assert (request.method, request.target) == ("POST", "/ops")
    assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert request.headers["idempotency-key"] == event["id"]
    data = event.pop("data")
    assert isinstance(data, dict)
    assert (data["id"], data["state"], data["schedule"]) == (
        str(claimed.id), "SUCCEEDED", "nightly",
    )  # fmt: skip
    assert set(event) == {
        "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "sequence",
        "tenant",
    }  # fmt: skip
    assert event["specversion"] == "1.0"
    assert event["type"] == f"{PREFIX}execution.succeeded"
    assert (event["source"], event["subject"]) == ("/tenants/acme", f"executions/{claimed.id}")
    assert event["time"] == "2026-12-01T12:00:00+00:00"
    assert await scheduling.rows("outbox", "id") == []
    assert await scheduling.rows("webhook_event", "place") == []


async def test_the_execution_of_a_task_sends_its_events_with_the_id_of_the_task(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add(event_types=tuple(f"{PREFIX}execution.{end}" for end in ENDS))
        done = await scheduling.task(saga="invoice")
        dead = await scheduling.task(saga="refund", retry=RetryPolicy(max_attempts=1))
        later = await scheduling.task(saga="reminder", delay=timedelta(hours=1))
        for claimed in await scheduling.claim_all():
            failed = claimed.id == dead
            await scheduling.finish(
                claimed, AttemptOutcome.FAILED if failed else AttemptOutcome.SUCCEEDED, "boom"
            )
        operator = TaskOperator(
            scheduling.database, scheduling.settings, DEPLOYER, scheduling.clock
        )
        await operator.cancel(later)
        await hooks.deliver()
        received = {event["subject"]: event for event in hooks.events()}

    ends = {"succeeded": done, "dead": dead, "cancelled": later}
    assert {subject: event["type"] for subject, event in received.items()} == {
        f"executions/{task}": f"{PREFIX}execution.{end}" for end, task in ends.items()
    }
    data = received[f"executions/{dead}"]["data"]
    assert isinstance(data, dict)
    assert data["id"] == data["correlation_id"] == str(dead)
    assert (data["schedule"], data["saga"], data["reason_code"]) == (
        "task:refund", "refund", "failed",
    )  # fmt: skip
    actor = data["actor"]
    assert isinstance(actor, dict)
    assert actor["source"] == "task"


async def test_an_event_has_the_reason_as_a_code_and_in_words(scheduling: Scheduling) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add()
        await scheduling.limit(0)
        await scheduling.waiting(1, start_deadline=scheduling.clock.now)
        await scheduling.claim_all()
        *_, event = await hooks.deliver()

    data = event["data"]
    assert isinstance(data, dict)
    assert (data["reason_code"], data["reason"]) == ("limit", "concurrency limit reached")


async def test_a_request_is_signed_like_calls_of_targets(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "correct-horse")
    async with hooked(scheduling) as hooks:
        await hooks.add(secret_ref="env:HOOK_SECRET")  # noqa: S106 -- a reference
        await hooks.happen("one")
        await hooks.deliver()
    request = hooks.receiver.only
    verify_signature(
        b"correct-horse",
        method="POST",
        url=f"{hooks.receiver.url}{request.target}",
        headers=request.headers,
        body=request.body,
        now=scheduling.clock.now,
        tolerance=timedelta(seconds=1),
    )
    stamp, key = request.headers["x-tenantcron-timestamp"], request.headers["idempotency-key"]
    as_before = f"v1:{stamp}:{key}:".encode() + request.body
    digest = hmac.new(b"correct-horse", as_before, "sha256").hexdigest()
    assert request.headers["x-tenantcron-signature"] == f"v1={digest}"


async def test_events_of_a_tenant_arrive_in_order(
    scheduling: Scheduling,
) -> None:
    names = [f"e{number}" for number in range(EVENTS_A_LANE + 20)]
    async with hooked(scheduling) as hooks:
        await hooks.add()
        await hooks.happen(*names[:7])
        await hooks.happen("other", tenant="beta")
        await hooks.happen(*names[7:])
        delivered = await hooks.deliver()
    assert subjects(delivered) == names
    assert subjects(delivered, "beta") == ["other"]
    places = [str(event["sequence"]) for event in delivered if event["tenant"] == "acme"]
    assert places == sorted(set(places))


async def test_events_of_a_transaction_that_commits_late_are_neither_lost_nor_reordered(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add()
        async with scheduling.database.transaction() as slow:
            low = await write(slow, "began first, committed last")
            async with scheduling.database.transaction() as quick:
                high = await write(quick, "began last, committed first")
            assert low < high
            assert subjects(await hooks.deliver()) == ["began last, committed first"]
        await hooks.happen("afterwards")
        delivered = await hooks.deliver()
    assert subjects(delivered) == [
        "began last, committed first", "began first, committed last", "afterwards",
    ]  # fmt: skip
    places = [str(event["sequence"]) for event in delivered]
    assert places == sorted(set(places))


async def test_events_of_a_transaction_that_waited_for_a_row_come_second(
    scheduling: Scheduling,
) -> None:
    """The transaction with the lower number comes second: it waited for a row of the other."""
    await scheduling.tenant("acme")
    async with hooked(scheduling) as hooks:
        await hooks.add(event_types=(f"{PREFIX}tenant.changed",))
        async with scheduling.database.transaction() as first:
            # From here on it has its number and its first event.
            await write(first, "early")
            async with scheduling.database.transaction() as second:
                await second.execute(text("UPDATE tenantcron.tenant SET weight = 2"))
            await first.execute(text("UPDATE tenantcron.tenant SET weight = 3"))
        delivered = await hooks.deliver()
    weights = [event["data"]["after"]["weight"] for event in delivered if event["data"]]  # type: ignore[index,call-overload] # of the JSON
    assert weights == [2, 3]


async def test_only_one_replica_sequences_events_at_a_time(scheduling: Scheduling) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add()
        await hooks.happen("one", "two")
        async with scheduling.database.transaction() as first:
            assert await store.place(first, 10, None) == 2
            async with scheduling.database.transaction() as second:
                assert await store.place(second, 10, None) == 0
    placed = await scheduling.rows("webhook_event", "place")
    assert [row["subject"] for row in placed] == ["one", "two"]


@pytest.mark.parametrize("status", [301, 400, 401, 404, 429, 500, 503])
async def test_a_rejected_event_is_sent_again_with_the_same_id_and_blocks_only_its_tenant(
    scheduling: Scheduling, status: int
) -> None:
    refused: list[object] = []

    def refuse_once(event: JsonObject) -> int:
        if event["subject"] == "bad" and not refused:
            refused.append(event["id"])
            return status
        return 200

    async with hooked(scheduling) as hooks:
        hooks.receiver.behaviour = choosing(refuse_once)
        await hooks.add()
        await hooks.happen("good", "bad", "after")
        await hooks.happen("theirs", tenant="beta")
        first = await hooks.deliver()
        assert subjects(first) == ["good", "bad"]
        assert subjects(first, "beta") == ["theirs"]
        (lane,) = await scheduling.query(
            "SELECT * FROM tenantcron.webhook_lane WHERE tenant_id = 'acme'"
        )
        assert (lane["failures"], str(status) in str(lane["last_error"])) == (1, True)
        scheduling.clock.advance(minutes=5)
        delivered = await hooks.deliver()

    assert subjects(delivered) == ["good", "bad", "bad", "after"]
    assert [event["id"] for event in delivered if event["subject"] == "bad"] == refused * 2
    assert await scheduling.rows("webhook_event", "place") == []


async def test_a_lane_backs_off_for_a_random_time_up_to_five_minutes() -> None:
    random = Random(3)  # noqa: S311 -- chance for a test
    for failures, bound in ((1, 1), (2, 2), (5, 16), (9, 256), (10, 300), (100_000, 300)):
        waits = [wait_after(failures, random, LONGEST_WAIT).total_seconds() for _ in range(500)]
        assert max(waits) <= bound
        assert max(waits) > 0.9 * bound
        assert min(waits) < 0.1 * bound


async def test_a_webhook_whose_receiver_is_gone_is_disabled_and_recorded(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        hooks.receiver.behaviour = answering(410)
        await hooks.add()
        await hooks.happen("one", "two")
        await hooks.deliver()
        scheduling.clock.advance(hours=1)
        await hooks.deliver()
    assert len(hooks.receiver.received) == 1
    (webhook,) = await scheduling.rows("webhook", "name")
    assert (webhook["disabled_at"] is not None, webhook["disabled_reason"]) == (
        True, "the receiver answered 410 Gone",
    )  # fmt: skip
    *_, record = await scheduling.query(
        "SELECT * FROM tenantcron.audit_record WHERE entity_type = 'webhook' ORDER BY id"
    )
    assert (record["operation"], record["changed_by"]) == ("update", "system:scheduler:scheduler")
    assert "url" not in str(record["after"])


async def test_a_batch_is_one_request_for_many_events_in_order(scheduling: Scheduling) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add(in_batches=True)
        await hooks.happen("one", "two", "three")
        delivered = await hooks.deliver()
    request = hooks.receiver.only
    assert request.headers["content-type"] == ("application/cloudevents-batch+json; charset=utf-8")
    assert subjects(delivered) == ["one", "two", "three"]
    assert request.headers["idempotency-key"] == f"{delivered[0]['id']}:{delivered[-1]['id']}"


async def test_two_webhooks_get_the_same_event_with_the_same_id_and_sequence(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add("one")
        await hooks.add("two")
        await hooks.happen("thing")
        first, second = await hooks.deliver()
    assert first == second
    assert {request.target for request in hooks.receiver.received} == {"/one", "/two"}


async def test_a_lane_of_a_dead_replica_is_taken_over_when_its_lease_expires(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add()
        await hooks.happen("one", "two")
        async with scheduling.database.transaction() as connection:
            at = scheduling.clock.now
            await store.place(connection, 10, at)
            (lane,) = await store.take(connection, {"ops": 4}, events=10, lease=LEASE, at=at)
        assert await hooks.deliver() == []
        scheduling.clock.now += LEASE
        assert subjects(await hooks.deliver()) == ["one", "two"]
        # It was only stalled: its late record is rejected.
        await hooks.happen("three")
        async with scheduling.database.transaction() as connection:
            late = store.LaneProgress(2**60, timedelta(0), 0, None)
            assert not await store.release(connection, lane, late, scheduling.clock.now)
        assert subjects(await hooks.deliver()) == ["one", "two", "three"]


async def test_two_replicas_share_the_work_and_keep_the_order_per_tenant(
    scheduling: Scheduling,
) -> None:
    tenants = [f"t{number}" for number in range(12)]
    names = [f"e{number}" for number in range(15)]
    async with hooked(scheduling) as hooks:
        await hooks.add()
        for name in names:
            for tenant in tenants:
                await hooks.happen(name, tenant=tenant)
        replicas = [hooks.outbox("one"), hooks.outbox("two")]
        for _ in range(10):
            await asyncio.gather(*(outbox.deliver_once() for outbox in replicas))
        delivered = hooks.events()
    by_tenant = {tenant: subjects(delivered, tenant) for tenant in tenants}
    assert by_tenant == dict.fromkeys(tenants, names)


async def test_a_receiver_that_never_answers_does_not_block_others(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks, service(forever) as dead, asyncio.timeout(PATIENCE):
        outbox = hooks.outbox("one", dead.port)
        await hooks.add("dead", dead.url)
        for number in range(LANES_A_WEBHOOK * 3):
            await hooks.happen("one", tenant=f"t{number}")
        async with asyncio.TaskGroup() as tasks:
            await outbox.step(tasks)
            await dead.arrived.wait()
            await hooks.add("alive")
            await hooks.happen("two")
            await outbox.step(tasks)
            await hooks.receiver.arrived.wait()
            assert subjects(hooks.events()) == ["two"]
            assert len(dead.received) <= LANES_A_WEBHOOK
            await dead.close()


async def test_executions_run_on_time_while_a_receiver_hangs(
    real: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The receiver hangs for the entire test, so a scheduler that waited for it would be noticed.
    for module, name in ((webhooks_module, "LONGEST_CALL"), (http_module, "LONGEST_CONNECT")):
        monkeypatch.setattr(module, name, timedelta(hours=1))
    works = Works()
    async with hooked(real) as hooks, service(forever) as dead:
        await hooks.add("dead", dead.url)
        for number in range(50):
            await hooks.happen("one", tenant=f"t{number}")
        clockless = replace(real.replica(), clock=lambda: None)
        outbox = outbox_module.Outbox(
            clockless.event_delivery, hooks.outbox("one", dead.port)._courier
        )
        async with at_work(real, works, outbox=outbox):
            await dead.arrived.wait()
            for number in range(5):
                await due(real, "quick", tenant=f"on-time-{number}", start_within="1m")
            await until_state(real, "SUCCEEDED", 5)
            assert not dead.hung_up.is_set()
            await dead.close()
    # And what they ended as waits for the receiver, in its place.
    waiting = await real.rows("webhook_event", "place") + await real.rows("outbox", "id")
    assert sum(str(row["type"]).endswith("execution.succeeded") for row in waiting) == 5


async def test_a_stopping_replica_finishes_requests_in_progress(
    real: Scheduling,
) -> None:
    works = Works()
    async with hooked(real) as hooks:
        await hooks.add()
        clockless = replace(real.replica(), clock=lambda: None)
        outbox = outbox_module.Outbox(clockless.event_delivery, hooks.outbox()._courier)
        async with at_work(real, works, outbox=outbox):
            await due(real, "quick", start_within="1m")
            await until(lambda: _was_delivered(hooks, 2))
    assert [str(event["type"]).removeprefix(PREFIX) for event in hooks.events()] == [
        "tenant.changed", "execution.succeeded",
    ]  # fmt: skip
    assert await real.rows("webhook_event", "place") == []


async def _was_delivered(hooks: Hooks, number: int) -> bool:
    return len(hooks.events()) == number


async def test_a_forbidden_address_is_not_called_and_the_lane_has_the_error(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add(url="https://billing.internal/hook")
        await hooks.happen("one")
        assert await hooks.deliver() == []
    (lane,) = await scheduling.rows("webhook_lane", "tenant_id")
    assert "billing.internal is not among the hosts" in str(lane["last_error"])


async def test_events_older_than_the_retention_are_dropped_and_counted(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        hooks.receiver.behaviour = answering(503)
        await hooks.add()
        await hooks.happen("old", "old too")
        await hooks.deliver()
        scheduling.clock.advance(days=6)
        await hooks.happen("new")
        await hooks.deliver()
        scheduling.clock.advance(days=1, seconds=1)
        await clean_up(scheduling.replica())
        hooks.receiver.behaviour = answering(200)
        hooks.receiver.received.clear()
        scheduling.clock.advance(minutes=5)
        delivered = await hooks.deliver()
    assert subjects(delivered) == ["new"]
    (webhook,) = await scheduling.rows("webhook", "name")
    assert (webhook["dropped"], webhook["dropped_at"] is not None) == (2, True)


async def test_every_attempt_sends_the_same_body(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        hooks.receiver.behaviour = answering(500)
        await hooks.add()
        await hooks.happen("one")
        for _ in range(3):
            await hooks.deliver()
            scheduling.clock.advance(minutes=5)
    bodies = {request.body for request in hooks.receiver.received}
    assert len(hooks.receiver.received) >= 3
    assert len(bodies) == 1
    assert json.loads(bodies.pop())["subject"] == "one"
    assert len({str(events_of(request)[0]["id"]) for request in hooks.receiver.received}) == 1
