"""Shares: priorities and tenants divide scarce slots over time, with a bound."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scheduling import NOON, Scheduling
from support.sharing import LEAST_CHARGE, RESERVED, SCARCE_FOR, SHARES, Run, SharingModel
from support.sharing_workload import Load, Workload

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.claim import claim_batch
from tenantcron.scheduler.steps.finish import finish_batch
from tenantcron.store.rows.limits import KEPT_SHARE
from tenantcron.store.steps import sharing
from tenantcron.store.steps.claiming import Claimed

PRIORITIES = ("critical", "high", "medium", "low")
# Pending executions like those of tasks, which need no schedule; the number is the age.
PENDING = """
INSERT INTO tenantcron.execution_live (
    id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
    overlap, priority, not_before, attempts_allowed, actor_id, actor_type, actor_source, created_at,
    requires
)
SELECT
    id, tenant, id, to_char(number, 'FM00000'), 'work', id, :now, 'PENDING', 'allow', priority,
    CAST(:now AS timestamptz) - interval '1 day' + number * interval '1 s', 1, 'x', 'worker',
    'task', :now, 'saga:work'
FROM (
    SELECT gen_random_uuid() AS id, tenant, priority, number
    FROM unnest(
        CAST(:tenants AS text[]), CAST(:priorities AS int[]), CAST(:numbers AS int[])
    ) AS pending (tenant, priority, number)
) AS pending
"""


async def fill(scheduling: Scheduling, number: int, tenant: str = "acme") -> None:
    """Add that many pending executions of each priority, named after it."""
    for priority, name in enumerate(PRIORITIES):
        await scheduling.waiting(number, tenant=tenant, priority=priority, schedule_name=name)


async def starts(
    scheduling: Scheduling, rounds: int, *replicas: Replica, seconds: float = 1.0
) -> list[Claimed]:
    """Claim, let what started run, finish it and repeat, with the replicas in turn."""
    started: list[Claimed] = []
    for turn in range(rounds):
        batch = await scheduling.claim_all(replicas[turn % len(replicas)] if replicas else None)
        started += batch
        scheduling.clock.advance(seconds=seconds)
        for claimed in batch:
            await scheduling.finish(claimed)
    return started


def by_priority(started: Sequence[Claimed]) -> list[int]:
    found = Counter(claimed.schedule_name for claimed in started)
    return [found[name] for name in PRIORITIES]


async def test_priorities_share_one_slot(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await fill(scheduling, 12)

    started = await starts(scheduling, 20, seconds=3000)

    order = [claimed.schedule_name[0] for claimed in started]
    assert "".join(order) == "chcmhcchml" * 2


@pytest.mark.parametrize("slots", [3, 10, 40])
async def test_priorities_share_many_slots(scheduling: Scheduling, slots: int) -> None:
    await scheduling.limit(slots)
    await fill(scheduling, 40)

    started = await starts(scheduling, 60 // slots + 1)

    rounds = len(started) / 10
    assert by_priority(started) == pytest.approx([rounds * share for share in SHARES], abs=1)


async def test_priorities_share_the_slots_of_a_tenant_across_replicas(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(100, per_tenant=1)
    await fill(scheduling, 12)

    replicas = [scheduling.replica(name) for name in ("one", "two", "three")]
    assert by_priority(await starts(scheduling, 20, *replicas)) == [8, 6, 4, 2]


async def test_a_priority_that_returns_has_saved_up_nothing(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(60, priority=3, schedule_name="low")
    await scheduling.waiting(60, priority=2, schedule_name="medium")
    await starts(scheduling, 30)
    await scheduling.waiting(20, priority=0, schedule_name="critical")

    started = await starts(scheduling, 14)

    # Exactly shared it would be 8, 0, 4, 2. It begins half a round behind the others.
    assert by_priority(started) == [10, 0, 3, 1]


async def test_shares_hold_if_a_tenant_has_more_than_a_batch(scheduling: Scheduling) -> None:
    await scheduling.limit(1000)
    await fill(scheduling, 15)
    replica = scheduling.replica()

    claims = [await claim_batch(replica, 5) for _ in range(4)]

    assert by_priority([run for claim in claims for run in claim.started]) == [8, 6, 4, 2]


async def test_nothing_is_written_while_there_are_slots_for_all(scheduling: Scheduling) -> None:
    await scheduling.limit(100)
    for tenant in "abc":
        await fill(scheduling, 3, tenant)

    await starts(scheduling, 2)

    assert await scheduling.count(state="SUCCEEDED") == 36
    for table in ("share_period", "tenant_share", "tenant_usage"):
        assert await scheduling.rows(table, order="1") == []


async def test_a_tenant_with_long_executions_gets_no_more_time_than_others(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(20, tenant="long")
    await scheduling.waiting(400, tenant="short")
    used: Counter[str] = Counter()

    while max(used.values(), default=0) < 1200:
        (claimed,) = await scheduling.claim_all()
        took = 100 if claimed.tenant_id == "long" else 10
        used[claimed.tenant_id] += took
        # Replicas that are short of slots claim every few seconds.
        for _ in range(took // 10):
            scheduling.clock.advance(seconds=10)
            assert await scheduling.claim_all() == []
        await scheduling.finish(claimed)

    assert abs(used["long"] - used["short"]) <= 110


async def test_time_is_shared_by_weight(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await scheduling.tenant("heavy", weight=3)
    await scheduling.waiting(60, tenant="heavy")
    await scheduling.waiting(60, tenant="light")

    started = await starts(scheduling, 40, seconds=10)

    assert Counter(claimed.tenant_id for claimed in started) == {"heavy": 30, "light": 10}


async def test_a_changed_weight_applies_from_then_on(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(60, tenant="a")
    await scheduling.waiting(60, tenant="b")
    await starts(scheduling, 20, seconds=10)
    await scheduling.execute("UPDATE tenantcron.tenant SET weight = 3 WHERE id = 'a'")

    started = await starts(scheduling, 20, seconds=10)

    assert Counter(claimed.tenant_id for claimed in started) == {"a": 15, "b": 5}


async def test_a_tenant_that_returns_has_saved_up_nothing(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(1, tenant="guest")
    await scheduling.waiting(60, tenant="a")
    await scheduling.waiting(60, tenant="b")
    await starts(scheduling, 31, seconds=10)
    await scheduling.waiting(30, tenant="guest")

    started = await starts(scheduling, 12, seconds=10)

    assert Counter(claimed.tenant_id for claimed in started) == {"guest": 4, "a": 4, "b": 4}


async def test_a_tenant_that_returns_has_saved_up_nothing_beside_a_long_execution(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(2)
    await scheduling.waiting(1, tenant="long")
    await scheduling.claim_all()
    for tenant in ("a", "long"):
        await scheduling.waiting(60, tenant=tenant)
    await starts(scheduling, 30, seconds=10)
    await scheduling.waiting(30, tenant="guest")

    started = await starts(scheduling, 12, seconds=10)

    assert Counter(claimed.tenant_id for claimed in started) in (
        {"guest": 6, "a": 6},
        # The first execution of `a` had not ended when its time was compared.
        {"guest": 7, "a": 5},
    )


async def test_shares_begin_again_when_slots_were_not_scarce_for_a_minute(
    scheduling: Scheduling,
) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(10, tenant="a")
    await starts(scheduling, 10, seconds=100)
    scheduling.clock.advance(minutes=2)
    await scheduling.waiting(10, tenant="a")
    await scheduling.waiting(10, tenant="b")

    started = await starts(scheduling, 6, seconds=10)

    assert Counter(claimed.tenant_id for claimed in started) == {"a": 3, "b": 3}


async def test_short_executions_are_not_charged_when_they_end(scheduling: Scheduling) -> None:
    await scheduling.limit(1)
    await scheduling.waiting(10, tenant="a")
    await scheduling.waiting(10, tenant="b")

    started = await starts(scheduling, 10, seconds=0.1)

    assert Counter(claimed.tenant_id for claimed in started) == {"a": 5, "b": 5}
    assert await scheduling.rows("tenant_usage", order="1") == []


def test_the_model_has_the_constants_of_the_scheduler() -> None:
    assert timedelta(seconds=LEAST_CHARGE) == sharing.LEAST_CHARGE
    assert timedelta(seconds=SCARCE_FOR) == sharing.SCARCE_FOR
    assert SHARES == sharing.SHARES
    assert RESERVED == KEPT_SHARE


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 6, 9])
async def test_claims_start_what_the_model_starts(scheduling: Scheduling, slots: int) -> None:
    await scheduling.limit(slots)
    for seed in range(3):
        for table in ("execution", "tenant", "share_period", "tenant_share", "tenant_usage"):
            await scheduling.execute(f"DELETE FROM tenantcron.{table}")  # noqa: S608 -- the names above
        random = Random(100 * slots + seed)  # noqa: S311 -- the same steps every time
        await claim_as_the_model(scheduling, slots, random)


async def claim_as_the_model(scheduling: Scheduling, slots: int, random: Random) -> None:
    """Compare each claim, while tenants become busy and idle and executions of any length end."""
    model = SharingModel(slots)
    names = "abcdefg"[: random.randint(2, 7)]
    for name in names:
        weight = random.randint(1, 5)
        model.tenant(name, weight)
        await scheduling.tenant(name, weight=weight)
    running: dict[str, Claimed] = {}
    replicas = [scheduling.replica("one"), scheduling.replica("two")]
    number = 0
    for _ in range(20):
        added = []
        for _ in range(random.choice((0, 1, 2, slots))):
            tenant, priority = random.choice(names), random.randrange(4)
            for _ in range(random.randint(1, 4)):
                number += 1
                label = f"{number:05}"
                model.tenants[tenant].pending[priority].append(label)
                added.append((tenant, priority, number))
        if added:
            tenants, priorities, numbers = map(list, zip(*added, strict=True))
            await scheduling.execute(
                PENDING, now=NOON, tenants=tenants, priorities=priorities, numbers=numbers
            )
        claimed = await scheduling.claim_all(random.choice(replicas))
        running |= {str(run.schedule_name): run for run in claimed}
        expected = model.claim_all()
        assert sorted(run.schedule_name for run in claimed) == sorted(run.name for run in expected)
        # Spans whose sums are exact as floating-point numbers.
        span = random.choice((0.0, 0.125, 1.5, 30.0, 90.0))
        scheduling.clock.advance(seconds=span)
        model.now += span
        ended = random.sample(model.runs, random.randint(0, len(model.runs)))
        for run in ended:
            model.finish(run)
        attempts = [Attempt(running.pop(run.name), AttemptOutcome.SUCCEEDED) for run in ended]
        if attempts:
            await finish_batch(replicas[0], attempts)


LENGTHS = st.sampled_from((0.125, 0.5, 1.0, 7.0, 60.0, 3600.0))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    slots=st.integers(1, 6),
    tenants=st.lists(st.tuples(st.integers(1, 5), LENGTHS), min_size=2, max_size=7),
    random=st.randoms(use_true_random=False),
)
def test_the_time_of_busy_tenants_differs_by_less_than_the_bound(
    slots: int, tenants: list[tuple[int, float]], random: Random
) -> None:
    """All tenants always have pending executions, of a random length up to their longest."""
    model, used, most = SharingModel(slots), defaultdict[str, float](float), Counter[str]()
    longest = {}
    for number, (weight, length) in enumerate(tenants):
        name = f"t{number}"
        model.tenant(name, weight)
        longest[name] = max(length, LEAST_CHARGE)
    ends: list[tuple[float, int, Run]] = []
    for step in range(300):
        for tenant in model.tenants.values():
            while len(tenant.pending[2]) < slots:
                tenant.pending[2].append(f"{step:05}")
        for run in model.claim_all():
            length = longest[run.tenant.name] * random.choice((0.25, 0.5, 1.0))
            took = max(length, LEAST_CHARGE)
            ends.append((model.now + took, len(ends), run))
            used[run.tenant.name] += took
            most[run.tenant.name] = max(most[run.tenant.name], run.tenant.running)
        ends.sort(key=lambda end: end[:2])
        model.now, _, run = ends.pop(0)
        # Replicas that are short of slots claim every few seconds.
        model.waited_at = model.now
        model.finish(run)
    for pair in combinations(model.tenants.values(), 2):
        first, second = (used[tenant.name] / tenant.weight for tenant in pair)
        bound = sum((most[t.name] + 1) * longest[t.name] / t.weight for t in pair)
        assert abs(first - second) <= bound, pair


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    slots=st.integers(1, 12),
    queues=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=12),
    random=st.randoms(use_true_random=False),
)
def test_the_starts_of_pending_priorities_differ_by_less_than_one_each(
    slots: int, queues: list[set[int]], random: Random
) -> None:
    """Which priorities are pending changes from time to time; ends are in random order."""
    model = SharingModel(slots)
    tenant = model.tenant("acme")
    for pending in queues:
        for priority, queue in enumerate(tenant.pending):
            queue[:] = ["x"] * (200 if priority in pending else 0)
        # After a round, those that were not pending before have caught up.
        starts = [run.priority for _ in range(60) for run in claimed_after_an_end(model, random)]
        started = Counter(starts[10 + slots :])
        for pair in combinations(pending, 2):
            first, second = (started[priority] / SHARES[priority] for priority in pair)
            assert abs(first - second) <= sum(1 / SHARES[priority] for priority in pair)


def test_the_bounds_hold_at_every_step_of_random_workloads() -> None:
    """Tenants become busy and idle; weights, priorities and lengths of executions are random."""
    checked = 0
    for seed in range(150):
        random = Random(seed)  # noqa: S311 -- the same steps every time
        loads = [
            Load(
                weight=random.randint(1, 5),
                longest=random.choice((1, 1, 2, 300)),
                idling=random.choice((0.1, 1, 10, 100)),
                most_in_a_burst=random.choice((5, 40)),
            )
            for _ in range(random.randint(2, 6))
        ]
        workload = Workload(random.randint(1, 4), loads, random)
        for _ in range(300):
            workload.step()
        assert workload.closest <= 1, seed
        assert workload.closest_of_priorities <= 1, seed
        checked += workload.checked
    assert checked > 50_000


def claimed_after_an_end(model: SharingModel, random: Random) -> list[Run]:
    if model.runs:
        model.finish(random.choice(model.runs))
    return model.claim_all()
