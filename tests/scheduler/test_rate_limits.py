"""Rate limits of hosts: calls are spent in the database, and tenants take turns."""

from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest
from sqlalchemy.exc import DBAPIError
from support.scheduling import NOON, Scheduling

from tenantcron.core.rates import Rate, parse_rate
from tenantcron.core.requirements import TargetKind
from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.scheduler.inspect.schedule_status import read_schedule_status
from tenantcron.scheduler.inspect.why import explain
from tenantcron.scheduler.metrics.prometheus import Metrics
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim_limited import LimitedHosts
from tenantcron.scheduler.steps.definitions import Definitions
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.scheduler.steps.runners import RunnerWatch
from tenantcron.store.connection.errors import DatabaseError
from tenantcron.store.rows import workers
from tenantcron.store.rows.workers import WorkerReport
from tenantcron.store.steps.claiming import Claimed
from tenantcron.store.steps.statements import statement
from tenantcron.targets.capabilities import Capabilities

HOST = "billing.internal"
HTTP, GRPC = f"http:{HOST}", f"grpc:{HOST}"
_REQUEST = {"method": "POST", "headers": {}, "auth": "none"}
TARGET = {"http": {"url": f"https://{HOST}/run", **_REQUEST}}
OTHER = {"http": {"url": "https://reports.internal/run", **_REQUEST}}


def limited(scheduling: Scheduling, rate: str, name: str = "one") -> Replica:
    """Return a replica whose policy has a rate limit."""
    limits = {HOST: parse_rate(rate)}
    kinds = (TargetKind.HTTP.value, TargetKind.GRPC.value)
    return Replica(
        scheduling.database,
        scheduling.settings,
        worker_id=name,
        capabilities=Capabilities(kinds, ("saga:*",)).with_limits(limits),
        definitions=Definitions(limited_hosts=limits),
        clock=scheduling.clock,
        random=Random(1),  # noqa: S311 -- the same for every test
        rate_limits=limits,
    )


async def claim_at_host(hosts: LimitedHosts, required: str = HTTP) -> list[Claimed]:
    """Claim for a host until it has no calls left or nothing can start, as the loop does."""
    started: list[Claimed] = []
    for _ in range(1000):
        claim, more = await hosts.claim(required, 1600)
        started += claim.started if claim else ()
        if not more:
            return started
    raise AssertionError("the claims do not end")


async def succeed(scheduling: Scheduling, started: list[Claimed]) -> None:
    attempts = [Attempt(execution, AttemptOutcome.SUCCEEDED) for execution in started]
    if attempts:
        await finish_batch(scheduling.replica(), attempts)


def assert_within(rate: Rate, times: list[datetime]) -> None:
    """Compare every time span that begins with a start and ends with one."""
    for first, begin in enumerate(times):
        for last in range(first, len(times)):
            seconds = (times[last] - begin).total_seconds()
            allowed = seconds / rate.interval + rate.burst / rate.interval
            assert last - first + 1 <= allowed + 0.01, (seconds, last - first + 1)


@pytest.mark.parametrize("rate", ["50/s", "3/s", "10/m", "7000/h"])
async def test_two_replicas_together_never_exceed_the_rate_and_lose_nothing(
    scheduling: Scheduling, rate: str
) -> None:
    await scheduling.limit(1000)
    random, clock, each = Random(rate), scheduling.clock, parse_rate(rate)  # noqa: S311 -- chance for a test
    replicas = [LimitedHosts(limited(scheduling, rate, name)) for name in ("one", "two")]
    for tenant in "abc":
        await scheduling.waiting(20, tenant=tenant, requires=HTTP, overlap="allow")

    times: list[datetime] = []
    for _ in range(600):
        started = await claim_at_host(random.choice(replicas))
        times += [clock.now] * len(started)
        await succeed(scheduling, started)
        if len(times) == 60:
            break
        clock.advance(seconds=random.expovariate(1) * each.interval * 2)

    assert_within(each, times)
    states = Counter(row["state"] for row in await scheduling.rows())
    assert states == {"SUCCEEDED": 60}


async def test_a_busy_host_is_called_at_its_rate(scheduling: Scheduling) -> None:
    await scheduling.limit(1000)
    hosts, rate = LimitedHosts(limited(scheduling, "50/s")), parse_rate("50/s")
    await scheduling.waiting(200, requires=HTTP)

    began, starts = scheduling.clock.now, 0
    while starts < 200:
        started = await claim_at_host(hosts)
        starts += len(started)
        await succeed(scheduling, started)
        waits = await hosts.waits()
        scheduling.clock.advance(seconds=waits.get(HTTP, 0))

    seconds = (scheduling.clock.now - began).total_seconds()
    assert seconds == pytest.approx((200 - rate.most(0)) / 50, abs=rate.group)


async def test_a_flood_of_one_tenant_does_not_starve_another(scheduling: Scheduling) -> None:
    await scheduling.limit(1000)
    hosts = LimitedHosts(limited(scheduling, "1/s"))
    await scheduling.waiting(500, tenant="flood", requires=HTTP, priority=0)
    await succeed(scheduling, await claim_at_host(hosts))
    for number in range(5):
        await scheduling.waiting(2, tenant=f"quiet{number}", requires=HTTP, priority=3)

    order = []
    for _ in range(12):
        scheduling.clock.advance(seconds=1)
        (execution,) = await claim_at_host(hosts)
        order.append(str(execution.tenant_id))
        await scheduling.finish(execution)

    assert Counter(order) == {"flood": 2, **{f"quiet{number}": 2 for number in range(5)}}


async def test_tenants_share_the_calls_by_weight(scheduling: Scheduling) -> None:
    await scheduling.limit(1000)
    hosts = LimitedHosts(limited(scheduling, "16/s"))
    await scheduling.tenant("a", weight=3)
    for tenant in "abcdefgh":
        await scheduling.waiting(100, tenant=tenant, requires=HTTP)

    counted: Counter[str] = Counter()
    for _ in range(40):
        started = await claim_at_host(hosts)
        counted.update(str(execution.tenant_id) for execution in started)
        await succeed(scheduling, started)
        scheduling.clock.advance(seconds=0.25)

    others = [counted[tenant] for tenant in "bcdefgh"]
    assert max(others) - min(others) <= 2
    assert counted["a"] == pytest.approx(3 * sum(others) / len(others), abs=4)


async def test_a_waiting_execution_holds_no_slot_and_uses_up_no_attempt(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(2)
    replica = limited(scheduling, "1/m")
    await scheduling.schedules(5, target=TARGET, start_within="1h")
    await scheduling.schedule("other", target=OTHER, tenant="globex")
    scheduling.clock.advance(hours=1)
    await scheduling.fire(replica)

    (first,) = await claim_at_host(LimitedHosts(replica))
    (second,) = (await scheduling.claim(replica)).started

    assert (first.tenant_id, second.tenant_id) == ("acme", "globex")
    rows = await scheduling.rows()
    waiting = [row for row in rows if row["state"] == "PENDING"]
    assert [(row["attempt"], row["requires"]) for row in waiting] == [(0, HTTP)] * 4
    assert {row["requires"] for row in rows if row["state"] == "RUNNING"} == {HTTP, "http"}


async def test_a_retry_spends_a_call_like_every_attempt(scheduling: Scheduling) -> None:
    hosts = LimitedHosts(limited(scheduling, "1/m"))
    await scheduling.waiting(1, requires=HTTP)
    (first,) = await claim_at_host(hosts)
    await scheduling.finish(first, AttemptOutcome.FAILED, "boom")
    scheduling.clock.advance(seconds=59)
    assert await claim_at_host(hosts) == []
    scheduling.clock.advance(seconds=1)

    (again,) = await claim_at_host(hosts)

    assert (again.id, again.attempt) == (first.id, 2)


async def test_all_kinds_of_targets_share_the_calls_of_a_host(scheduling: Scheduling) -> None:
    hosts = LimitedHosts(limited(scheduling, "10/m"))
    await scheduling.waiting(3, requires=HTTP)
    await scheduling.waiting(3, requires=GRPC)

    kinds = []
    for _ in range(4):
        for required, wait in (await hosts.waits()).items():
            if wait <= 0:
                kinds += [required for _ in await claim_at_host(hosts, required)]
        scheduling.clock.advance(seconds=6)

    assert Counter(kinds) == {HTTP: 2, GRPC: 2}


async def test_without_a_limits_row_nothing_starts_and_no_call_is_spent(
    scheduling: Scheduling,
) -> None:
    hosts = LimitedHosts(limited(scheduling, "1/m"))
    await scheduling.waiting(1, requires=HTTP)
    await scheduling.execute("DELETE FROM tenantcron.limits")

    with pytest.raises(DatabaseError):
        await hosts.claim(HTTP, 100)

    assert await scheduling.rows("rate_limit", "host") == []
    assert [row["state"] for row in await scheduling.rows()] == ["PENDING"]


async def test_if_the_calls_cannot_be_read_nothing_starts(scheduling: Scheduling) -> None:
    hosts = LimitedHosts(limited(scheduling, "1/m"))
    await scheduling.waiting(1, requires=HTTP)
    await scheduling.execute("ALTER TABLE tenantcron.rate_limit RENAME spent_until TO gone")

    with pytest.raises((DatabaseError, DBAPIError)):
        await hosts.claim(HTTP, 100)

    assert [row["state"] for row in await scheduling.rows()] == ["PENDING"]


async def test_a_clock_that_was_set_back_does_not_block_a_host(
    scheduling: Scheduling,
) -> None:
    hosts = LimitedHosts(limited(scheduling, "10/s"))
    await scheduling.waiting(20, requires=HTTP, not_before=NOON - timedelta(hours=2))
    await scheduling.limit(1000)
    assert len(await claim_at_host(hosts)) == 5

    scheduling.clock.advance(hours=-1)

    assert len(await claim_at_host(hosts)) == 5


@pytest.mark.parametrize(("start_within", "states"), [("0s", "SKIPPED"), ("10m", "PENDING")])
async def test_an_execution_waits_for_the_rate_as_long_as_it_may(
    scheduling: Scheduling, start_within: str, states: str
) -> None:
    replica = limited(scheduling, "1/h")
    hosts, watch = LimitedHosts(replica), RunnerWatch(replica)
    await scheduling.schedules(3, target=TARGET, start_within=start_within)
    scheduling.clock.advance(hours=1)
    await scheduling.fire(replica)
    assert len(await claim_at_host(hosts)) == 1
    scheduling.clock.advance(seconds=59)
    await watch.check()
    assert [row["state"] for row in await scheduling.rows()].count("PENDING") == 2
    scheduling.clock.advance(seconds=2)

    await watch.check()

    ended = [row for row in await scheduling.rows() if row["state"] != "RUNNING"]
    assert {row["state"] for row in ended} == {states}
    if states == "SKIPPED":
        assert {row["reason_code"] for row in ended} == {"rate_limit"}
        assert {row["reason"] for row in ended} == {f"rate limit of {HOST} reached"}


async def test_when_no_replica_has_the_limit_any_more_its_executions_start_like_others(
    scheduling: Scheduling,
) -> None:
    await scheduling.waiting(2, requires=HTTP)
    replica = scheduling.replica()
    report = WorkerReport(replica.worker_id, "scheduler", running=0, abandoned=0, draining=False)
    async with scheduling.database.transaction() as connection:
        await workers.report(connection, report, scheduling.clock())

    await RunnerWatch(replica).check()

    assert len((await scheduling.claim(replica)).started) == 2


async def test_why_names_the_host(scheduling: Scheduling) -> None:
    replica = limited(scheduling, "1/h")
    await scheduling.schedules(2, target=TARGET, start_within="10m")
    scheduling.clock.advance(hours=1)
    await scheduling.fire(replica)
    (started,) = await claim_at_host(LimitedHosts(replica))
    waiting = "s2" if started.schedule_name == "s1" else "s1"

    async with scheduling.database.transaction() as connection:
        ref = ScheduleRef(started.tenant_id, waiting)
        status = await read_schedule_status(
            connection, ref, scheduling.settings.lease, scheduling.clock()
        )
    codes = {reason.code: reason.message for reason in explain(status)}

    assert codes["waits-for-rate-limit"].endswith(
        f" waits for the rate limit of {HOST}, until 2026-12-01 13:11:00 UTC."
    )


async def test_a_metric_counts_pending_executions_by_host(scheduling: Scheduling) -> None:
    replica = limited(scheduling, "1/h")
    await scheduling.waiting(3, requires=HTTP)
    await scheduling.waiting(2, requires=GRPC)
    await scheduling.waiting(1)
    report = WorkerReport(replica.worker_id, "scheduler", running=0, abandoned=0, draining=False)
    async with scheduling.database.transaction() as connection:
        await workers.report(connection, report, scheduling.clock())

    metrics = Metrics(scheduling.database, scheduling.settings, clock=scheduling.clock)
    scraped = (await metrics.scrape()).decode()

    assert f'tenantcron_executions_rate_limited{{host="{HOST}"}} 5.0' in scraped


async def test_limited_executions_are_found_by_index(scheduling: Scheduling) -> None:
    hosts = LimitedHosts(limited(scheduling, "1/h"))
    await scheduling.waiting(500)
    await scheduling.waiting(3, tenant="globex", requires=HTTP)
    assert await claim_at_host(hosts) != []
    parameters = {"requires": [HTTP, GRPC], "hosts": [HOST, HOST], "at": scheduling.clock.now}
    turn = {"requires": HTTP, "host": HOST, "kind": "http", "burst": 9.0, "interval": 1.0}

    async with scheduling.database.transaction(by_key=True) as connection:
        for name, values in (("rate_glance", parameters), ("rate_turn", {**parameters, **turn})):
            text = f"EXPLAIN {statement(name)}"
            found = await connection.exec_driver_sql(text, {"most": 100, **values})
            plan = "\n".join(str(row[0]) for row in found)
            assert "Seq Scan on execution_live" not in plan, plan
