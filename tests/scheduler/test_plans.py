"""Query plans: the cost of hot statements does not grow with the history."""

from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from support.history import add_history
from support.plans import explained, explained_text, nodes, prepared, touched
from support.scheduling import NOON, Scheduling
from support.webhooks import hooked

from tenantcron.store.rows import event_buses, live_logs
from tenantcron.store.rows.live_logs import NewLines
from tenantcron.store.steps.claiming import CLAIM_CONSTANTS, Claimed

CURSORS = 3000
# The live partition is small, so any scan of it is fine.
HISTORY_AND_CURSORS = ("execution_past", "execution_attempt", "schedule_cursor", "live_log")


def read_in_full(plan: dict[str, Any]) -> list[str]:
    """Return the non-empty tables with a sequential scan."""
    return [
        node["Relation Name"]
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan"
        and node["Relation Name"].startswith(HISTORY_AND_CURSORS)
        and node["Actual Rows"] + node.get("Rows Removed by Filter", 0) > 0
    ]


async def statements(scheduling: Scheduling) -> dict[str, dict[str, object]]:
    """Return the hot statements with parameters for which there is work."""
    at = scheduling.clock.now
    held = await scheduling.query(
        "SELECT id, scheduled_for, lease_token FROM tenantcron.execution WHERE state = 'RUNNING'"
    )
    keys: dict[str, object] = {
        "ids": [row["id"] for row in held],
        "scheduled_for": [row["scheduled_for"] for row in held],
        "tokens": [row["lease_token"] for row in held],
    }
    number = len(held)
    assert number > 3
    many = {
        "at": at, "ids": keys["ids"], "digests": ["0" * 32] * number,
        "progress": [1] * number, "progress_texts": ["reading"] * number,
        "deliveries": ["a"] * number, "alive": 5 / 6,
    }  # fmt: skip
    return {
        "due": {"at": at, "batch": 500},
        "claim": {
            "at": at, "after": "", "worker_id": "one", "batch": 400, "pairs": 502,
            "lease": timedelta(seconds=60), "requires": ["saga:work"], **CLAIM_CONSTANTS,
        },
        "skip_late": {
            "at": at, "tenant_ids": ["t1"], "reason_codes": ["limit"], "reasons": ["full"],
            "are_closed": [False], "source_stale": "tenant_source_stale", "limit": "limit",
            "all": False, "most": 1000, "requires": ["saga:work"],
        },
        "heartbeat": {"at": at, "lease": timedelta(seconds=60), **keys},
        "finish": {
            "at": at, "actor_id": "x", **keys, "states": ["DEAD"] * number,
            "cancelled": "cancelled", "auto_paused": "auto:consecutive_failures",
            "reason_codes": ["failed"] * number,
            "reasons": [None] * number, "waits": [0.0] * number, "outcomes": ["FAILED"] * number,
            "errors": [None] * number, "auto_pause_after": [0] * number,
            "http_statuses": [503] * number, "answers": ["busy"] * number,
            "logs": [None] * number, "results": [None] * number, "lost": [False] * number,
            "suspicions": [0] * number, "requires": ["saga:work"],
            "scarce_for": timedelta(minutes=1), "least_charge": 0.125,
        },
        "add_log_lines": {
            "ids": keys["ids"], "tokens": keys["tokens"], "attempts": [1] * number,
            "end_positions": [20] * number, "replaces": [True] * number,
            "lines": ["info reading\n"] * number,
        },
        "begun": {
            "at": at, "ids": keys["ids"], "scheduled_for": keys["scheduled_for"],
            "firsts": [1] * number, "latest": [at] * number,
        },
        "fire": await firing(scheduling),
        "release": {**keys, "requires": [None] * number, "cancelled": "cancelled"},
        "replace": {
            "at": at, "requires": ["saga:work"], "replaced": "replaced", "words": "replaced",
        },
        "expired": {"at": at + timedelta(hours=1), "batch": 200},
        "hand_over": {
            "at": at, "id": held[0]["id"], "scheduled_for": held[0]["scheduled_for"],
            "token": held[0]["lease_token"], "digest": "0" * 32, "heartbeat": timedelta(seconds=30),
            "first": timedelta(seconds=60), "deadline": at + timedelta(hours=1),
        },
        "remote_heartbeat": {
            "at": at, "id": held[0]["id"], "digest": "0" * 32, "progress": 1,
            "progress_text": "reading", "delivery": "a", "alive": 5 / 6,
        },
        "remote_attempt": {
            "at": at, "id": held[0]["id"], "digest": "0" * 32, "progress": 1,
            "progress_text": "reading", "delivery": "a", "alive": 5 / 6,
        },
        "hand_overs": {
            "at": at, "ids": keys["ids"], "tokens": keys["tokens"],
            "digests": ["0" * 32] * number, "heartbeats": [30.0] * number,
            "firsts": [600.0] * number, "deadlines": [at + timedelta(hours=1)] * number,
        },
        "remote_heartbeats": many,
        "remote_attempts": many,
        "mint": {
            "at": at, "ids": keys["ids"], "tokens": keys["tokens"],
            "identity": "system:scheduler:scheduler",
        },
        "measure": {
            "at": at, "busiest": 5, "overdue": timedelta(minutes=5), "gone": timedelta(minutes=2),
            "auto_paused": "auto:consecutive_failures",
            "label_keys": ["tier"],
            "label_values": 20,
        },
    }  # fmt: skip


async def firing(scheduling: Scheduling) -> dict[str, object]:
    """Return the parameters to fire three cursors, each once."""
    due = await scheduling.query(
        "SELECT schedule_id, next_run_at FROM tenantcron.schedule_cursor WHERE next_run_at <= :now",
        now=scheduling.clock.now,
    )
    ids, times = [row["schedule_id"] for row in due], [row["next_run_at"] for row in due]
    number = len(due)
    return {
        "schedule_ids": ids, "found_at": times, "next_run_at": [None] * number,
        "last_run_at": times, "ids": [uuid4() for _ in due], "of": ids, "scheduled_for": times,
        "state": ["PENDING"] * number, "reason_code": [None] * number, "reason": [None] * number,
        "overlap": ["skip"] * number,
        "priority": [2] * number, "not_before": times, "start_deadline": times,
        "attempts_allowed": [3] * number, "source": ["cron-scheduler"] * number,
        "covers_from": [None] * number, "missed_count": [0] * number, "actor_id": "x",
        "requires": ["saga:work"] * number,
        "tz_version": "2026a", "now": scheduling.clock.now,
    }  # fmt: skip


async def test_no_hot_statement_reads_history(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(CURSORS, "0 0 1 1 *")
    await scheduling.execute(
        "UPDATE tenantcron.schedule_cursor SET next_run_at = :now"
        " WHERE schedule_name IN ('s1', 's2', 's3')",
        now=NOON,
    )
    for number in range(8):
        await scheduling.waiting(6, tenant=f"t{number}", start_deadline=NOON)
    await scheduling.limit(10)
    await scheduling.claim()
    await scheduling.limit(20)
    given = await statements(scheduling)

    await add_history(scheduling, 20_000)
    short = {name: await explained(scheduling, name, **given[name]) for name in given}
    await add_history(scheduling, 180_000)
    long = {name: await explained(scheduling, name, **given[name]) for name in given}

    for name, plan in long.items():
        assert read_in_full(plan) == [], name
    # A deeper index costs one or two pages per lookup.
    grown = {name: (touched(short[name]), touched(long[name])) for name in given}
    assert {name: pages for name, pages in grown.items() if pages[1] > 2 * pages[0] + 40} == {}, (
        grown
    )


async def test_claim_and_due_use_their_indexes(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedules(CURSORS, "0 0 1 1 *")
    await scheduling.execute(
        "UPDATE tenantcron.schedule_cursor SET next_run_at = :now WHERE schedule_name = 's1'",
        now=NOON,
    )
    await scheduling.waiting(3000, start_deadline=None)
    await scheduling.limit(5)
    await scheduling.claim()
    await scheduling.limit(20)
    await add_history(scheduling, 20_000)
    given = await statements(scheduling)

    used = {
        name: {
            node["Index Name"]
            for node in nodes(await explained(scheduling, name, **given[name]))
            if "Index Name" in node
        }
        for name in ("due", "claim", "finish")
    }

    assert used["due"] == {"schedule_cursor_due_idx"}
    assert "execution_runnable_idx" in used["claim"]
    assert "execution_active_idx" in used["claim"]
    for name in ("claim", "finish"):
        assert not [index for index in used[name] if "schedule_name" in index], name


async def test_plans_made_for_empty_tables_use_indexes_when_they_are_full(
    scheduling: Scheduling,
) -> None:
    """Small steps prepare these statements; a plan is kept until a table is analysed."""
    async with AsyncExitStack() as stack:
        explain = {
            name: await stack.enter_async_context(prepared(scheduling, name))
            for name in ("due", "fire", "claim", "finish")
        }
        await scheduling.schedules(CURSORS, "0 0 1 1 *")
        await scheduling.execute(
            "UPDATE tenantcron.schedule_cursor SET next_run_at = :now"
            " WHERE schedule_name IN ('s1', 's2', 's3')",
            now=NOON,
        )
        await scheduling.waiting(3000, start_deadline=None)
        await scheduling.limit(5)
        await scheduling.claim()
        await scheduling.limit(20)
        await add_history(scheduling, 20_000)
        given = {name: {**of, "batch": 8} for name, of in (await statements(scheduling)).items()}
        plans = {name: await run(**given[name]) for name, run in explain.items()}

    for name, plan in plans.items():
        assert read_in_full(plan) == [], name
        planned_now = touched(await explained(scheduling, name, **given[name]))
        assert touched(plan) < 2 * planned_now + 40, (name, touched(plan), planned_now)


async def test_live_executions_are_looked_up_by_index_scans(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(1400, start_deadline=None)
    await scheduling.limit(1400, 1400)
    await scheduling.claim_all()
    await scheduling.execute("ANALYZE")
    given = await statements(scheduling)

    local = ("claim", "heartbeat", "finish", "release", "expired", "mint", "add_log_lines")
    remote = (
        *("hand_over", "remote_heartbeat", "remote_attempt"),
        *("hand_overs", "remote_heartbeats", "remote_attempts"),
    )
    for name in (*local, *remote):
        plan = await explained(scheduling, name, **given[name])
        scans = {
            node["Node Type"]
            for node in nodes(plan)
            if node.get("Relation Name") == "execution_live" and node["Node Type"].endswith("Scan")
        }
        assert scans <= {"Index Scan", "Index Only Scan", "Tid Scan"}, (name, scans)


async def test_the_cost_of_live_logs_does_not_grow_with_the_lines_of_others(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(10, start_deadline=None)
    started = await scheduling.claim_all()
    lines = [NewLines(claimed, 20, "info reading\n", replaces=True) for claimed in started]
    few, many = list[int](), list[int]()
    for found in (few, many):
        async with scheduling.database.transaction() as connection:
            await live_logs.add(connection, lines)
        plans = [await explained(scheduling, "add_log_lines", **adding(started))]
        for text in (live_logs._OF_ATTEMPTS, live_logs._TAKE):
            ended = live_logs._parameters(started)
            plans.append(await explained_text(scheduling, text, **ended))
        found += [touched(plan) for plan in plans]
        for plan in plans:
            assert read_in_full(plan) == []
        await scheduling.execute(
            "INSERT INTO tenantcron.live_log SELECT gen_random_uuid(), 1, n, 't', 'x'"
            " FROM generate_series(1, 50000) AS n"
        )
    assert all(after <= 2 * before + 40 for before, after in zip(few, many, strict=True))


def adding(started: list[Claimed]) -> dict[str, object]:
    """Return the parameters that store one more line of each attempt."""
    number = len(started)
    return {
        "ids": [claimed.id for claimed in started],
        "tokens": [claimed.lease_token for claimed in started],
        "attempts": [1] * number, "end_positions": [40] * number, "replaces": [True] * number,
        "lines": ["info writing\n"] * number,
    }  # fmt: skip


async def test_a_token_reads_a_constant_number_of_pages(
    scheduling: Scheduling,
) -> None:
    await scheduling.execute(
        "INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at)"
        " SELECT 'many' || n, 'tenant_many' || n, :now, :now FROM generate_series(1, 3000) AS n",
        now=NOON,
    )
    await scheduling.waiting(3000, start_deadline=None)
    await scheduling.limit(5)
    await scheduling.claim()
    await add_history(scheduling, 20_000)
    await scheduling.execute("ANALYZE tenantcron.tenant, tenantcron.identity")
    given = (await statements(scheduling))["mint"]

    plan = await explained(scheduling, "mint", **given)

    used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    assert {"tenant_pkey", "identity_pkey"} <= used
    # By key or by the running executions: both take a few pages, and the planner chooses.
    assert used & {"execution_live_pkey", "execution_active_idx"}
    scanned = {n["Relation Name"] for n in nodes(plan) if n["Node Type"] == "Seq Scan"}
    assert scanned <= {"signing_key"}
    assert touched(plan) < 70


async def test_the_cost_of_leasing_lanes_does_not_grow_with_the_backlog(
    scheduling: Scheduling,
) -> None:
    async with hooked(scheduling) as hooks:
        await hooks.add("alive")
        await hooks.add("dead")
    await backlog(scheduling, "alive", lanes=20, events=5, due=NOON)
    given = {
        "at": NOON, "webhooks": ["alive", "dead"], "slots": [4, 4], "events": 100,
        "lease": timedelta(seconds=40),
    }  # fmt: skip
    short = await explained(scheduling, "take_lanes", **given)
    await backlog(scheduling, "alive", lanes=1, events=20_000, due=NOON, tenant="long")
    await backlog(scheduling, "dead", lanes=5000, events=10, due=NOON + timedelta(minutes=5))
    await scheduling.execute("ANALYZE tenantcron.webhook_lane, tenantcron.webhook_event")
    long = await explained(scheduling, "take_lanes", **given)

    used = {node["Index Name"] for node in nodes(long) if "Index Name" in node}
    assert {"webhook_lane_due_idx", "webhook_event_pkey"} <= used
    assert "Seq Scan" not in {node["Node Type"] for node in nodes(long)}
    assert touched(long) < 2 * touched(short) + 40, (touched(short), touched(long))


async def test_the_cost_of_publishing_does_not_grow_with_the_backlog_of_a_bus(
    scheduling: Scheduling,
) -> None:
    async with scheduling.database.transaction() as connection:
        await event_buses.declare(connection, "probe/probe", NOON)
    given: dict[str, dict[str, object]] = {
        "bus_glance": {"at": NOON, "name": "probe/probe"},
        "take_bus": {
            "at": NOON, "name": "probe/probe", "events": 100, "lease": timedelta(seconds=40),
        },
        "release_bus": {
            "at": NOON, "name": "probe/probe", "token": None, "published": 1050, "refused": 0,
            "wait": timedelta(0), "failures": 0, "error": None,
        },
    }  # fmt: skip
    await bus_backlog(scheduling, 1001, 1200)
    short = {name: await explained(scheduling, name, **values) for name, values in given.items()}
    await bus_backlog(scheduling, 1201, 50_000)
    await scheduling.execute("ANALYZE tenantcron.bus_event")
    for name, values in given.items():
        long = await explained(scheduling, name, **values)
        scans = [n for n in nodes(long) if n.get("Relation Name") == "bus_event"]
        assert scans, name
        assert "Seq Scan" not in {node["Node Type"] for node in scans}, name
        assert touched(long) < 2 * touched(short[name]) + 40, name


async def bus_backlog(scheduling: Scheduling, first: int, last: int) -> None:
    """Add unpublished events of many tenants."""
    await scheduling.execute(
        "INSERT INTO tenantcron.bus_event SELECT n, 't' || n % 100, gen_random_uuid(), 't', 's',"
        " :at, '{}', :at FROM generate_series(CAST(:first AS int), :last) AS n",
        at=NOON,
        first=first,
        last=last,
    )


async def backlog(
    scheduling: Scheduling,
    webhook: str,
    *,
    lanes: int,
    events: int,
    due: datetime,
    tenant: str = "t",
) -> None:
    """Add undelivered events for a number of tenants."""
    values = {"webhook": webhook, "lanes": lanes, "events": events, "due": due, "tenant": tenant}
    await scheduling.execute(
        "WITH made AS (INSERT INTO tenantcron.webhook_lane"
        " (webhook_name, tenant_id, last_placed, due_at)"
        " SELECT :webhook, :tenant || n, :events, :due FROM generate_series(1, :lanes) AS n"
        " RETURNING webhook_name, tenant_id)"
        " INSERT INTO tenantcron.webhook_event SELECT webhook_name, tenant_id, e,"
        " gen_random_uuid(), 't', 's', :due, '{}', :due"
        " FROM made, generate_series(1, :events) AS e",
        **values,
    )


async def test_the_cost_of_a_claim_does_not_grow_with_executions_that_only_others_can_run(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(20, start_deadline=None)
    await scheduling.waiting(1, tenant="t1", saga_name="other", overlap="cancel_running")
    await scheduling.limit(10)
    await scheduling.claim(scheduling.replica("one", "work"))
    await scheduling.execute("ANALYZE tenantcron.execution_live")
    given = await statements(scheduling)
    of_others = ("claim", "skip_late", "replace", "finish")
    few = {name: await explained(scheduling, name, **given[name]) for name in of_others}
    await copied(scheduling, "other", 100_000)
    many = {name: await explained(scheduling, name, **given[name]) for name in of_others}
    await scheduling.execute("ANALYZE tenantcron.execution_live")
    known = {name: await explained(scheduling, name, **given[name]) for name in of_others}

    # Before and after an ANALYZE.
    for plans in (many, known):
        for name, plan in plans.items():
            ran = (node for node in nodes(plan) if node["Actual Loops"])
            used = {node["Index Name"] for node in ran if "Index Name" in node}
            assert "execution_waiting_idx" not in used, name
            # A deeper primary key costs a page per lookup.
            pages = touched(few[name]), touched(plan)
            assert pages[1] <= 1.2 * pages[0] + 40, (name, pages)


async def copied(scheduling: Scheduling, saga: str, number: int) -> None:
    """Copy the pending execution of a saga many times, with different schedules and tenants."""
    columns = (
        "saga_name, schedule_name, definition_id, scheduled_for, state, overlap, priority,"
        " not_before, attempts_allowed, actor_id, actor_type, actor_source, created_at, requires"
    )
    await scheduling.execute(
        f"INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, {columns})"  # noqa: S608 -- the names above
        f" SELECT gen_random_uuid(), 't' || n % 1000, gen_random_uuid(), {columns}"
        " FROM tenantcron.execution_live, generate_series(1, :number) AS n WHERE saga_name = :saga",
        number=number,
        saga=saga,
    )


async def test_pending_requirements_are_found_by_one_index_step_each(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(1, saga_name="other")
    await copied(scheduling, "other", 20_000)
    await scheduling.waiting(3, start_deadline=None)
    await scheduling.execute("ANALYZE tenantcron.execution_live")
    given = {"unnamed": True, "at": NOON, "kept": timedelta(hours=1)}

    plan = await explained(scheduling, "pending_requirements", **given)

    assert {n["Index Name"] for n in nodes(plan) if "Index Name" in n} >= {"execution_runnable_idx"}
    assert touched(plan) < 30
