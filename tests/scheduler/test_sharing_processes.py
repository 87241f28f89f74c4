"""Shares with real replicas: slots are scarce, and two processes divide them."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from support.fleet import Shell, manifest
from support.processes import Fleet, executions, query, until

HANDLERS = '''
"""Handlers that take their time."""
import asyncio
from tenantcron.targets.python.registry import saga

async def work(execution):
    await asyncio.sleep(0.6 if execution.saga_name.startswith("long") else 0.15)

for name in ("long", "short", "critical", "high", "medium", "low"):
    saga(name)(work)
'''
Span = tuple[datetime, datetime]
YEARLY = 'cron: "0 0 1 1 *", overlap: allow, start_within: 1h'
# As many pending executions of each schedule as a test can use up.
PENDING = """
INSERT INTO tenantcron.execution (
    id, tenant_id, schedule_id, schedule_name, saga_name, definition_id, scheduled_for, state,
    overlap, priority, not_before, attempts_allowed, actor_id, actor_type, actor_source, created_at,
    requires
)
SELECT
    gen_random_uuid(), tenant_id, schedule_id, schedule_name, saga_name, definition_id,
    now() - n * interval '1 ms', 'PENDING', 'allow',
    coalesce(array_position('{critical,high,medium,low}'::text[], schedule_name::text) - 1, 2),
    now() - n * interval '1 ms', 1, 'test', 'scheduler', 'cron-scheduler', now(),
    'saga:' || saga_name
FROM tenantcron.schedule_cursor, generate_series(1, 200) AS n
"""


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Fleet]:
    (tmp_path / "work.py").write_text(HANDLERS, encoding="utf-8")
    fleet = Fleet(Shell(tmp_path, database_url), database_url, "--handlers", "work")
    try:
        yield fleet
    finally:
        fleet.close()


def start(
    fleet: Fleet,
    slots: int,
    tenants: dict[str, list[str]],
    weights: dict[str, int] | None = None,
) -> None:
    """Apply manifests with these sagas, and start two replicas when executions are pending."""
    for tenant, sagas in tenants.items():
        file = fleet.shell.folder / f"{tenant}.yaml"
        file.write_text(manifest(tenant, dict.fromkeys(sagas, YEARLY)), encoding="utf-8")
        assert fleet.shell("apply-manifest", file.name, "--create-tenants").code == 0
    for tenant, weight in (weights or {}).items():
        query(fleet.url, "UPDATE tenantcron.tenant SET weight = %s WHERE id = %s", weight, tenant)
    statement = "UPDATE tenantcron.limits SET operator = %s, operator_per_tenant = 100"
    query(fleet.url, statement, slots)
    fleet.start()
    fleet.start()
    until(lambda: all(fleet.is_up(process) for process in fleet.running))
    cursors = sum(map(len, tenants.values()))
    statement = "SELECT 1 FROM tenantcron.schedule_cursor"
    until(lambda: len(query(fleet.url, statement)) == cursors)
    query(fleet.url, PENDING)


def ended(fleet: Fleet) -> list[dict[str, object]]:
    return [row for row in executions(fleet.url) if row["state"] == "SUCCEEDED"]


def test_the_priorities_of_a_tenant_share_one_slot_of_two_replicas(fleet: Fleet) -> None:
    start(fleet, 1, {"acme": ["critical", "high", "medium", "low"]})
    until(lambda: len(ended(fleet)) >= 20)

    rows = sorted(ended(fleet), key=lambda row: str(row["started_at"]))[:20]

    found = Counter(str(row["schedule_name"]) for row in rows)
    assert found == {"critical": 8, "high": 6, "medium": 4, "low": 2}


def test_tenants_share_time_by_weight_within_the_bound_whatever_their_executions_take(
    fleet: Fleet,
) -> None:
    weights = {"one": 1, "two": 3, "three": 1}
    start(fleet, 2, {"one": ["long"], "two": ["short"], "three": ["short"]}, weights)
    until(lambda: len(ended(fleet)) >= 100)

    spans = running_times(fleet)

    longest = {tenant: max(end - begin for begin, end in spans[tenant]) for tenant in weights}
    bounds = {
        tenant: (most_at_once(spans[tenant]) + 1) * longest[tenant] / weight
        for tenant, weight in weights.items()
    }
    for moment in sorted(end for of_tenant in spans.values() for _, end in of_tenant):
        used = {
            tenant: used_until(moment, spans[tenant]) / weight for tenant, weight in weights.items()
        }
        for first, second in combinations(weights, 2):
            difference = abs(used[first] - used[second])
            assert difference <= bounds[first] + bounds[second], (first, second, used)
    assert all(used[tenant] > longest[tenant] / weights[tenant] for tenant in weights)


def running_times(fleet: Fleet) -> dict[str, list[Span]]:
    """Return when the executions of each tenant ran; those that still run are cut off."""
    spans: dict[str, list[Span]] = defaultdict(list)
    rows = query(fleet.url, "SELECT *, now() AS now FROM tenantcron.execution ORDER BY started_at")
    for row in rows:
        if row["started_at"] is not None:
            spans[row["tenant_id"]].append((row["started_at"], row["finished_at"] or row["now"]))
    return spans


def most_at_once(spans: list[Span]) -> int:
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def used_until(moment: datetime, spans: list[Span]) -> timedelta:
    passed = (min(end, moment) - begin for begin, end in spans if begin < moment)
    return sum(passed, timedelta(0))
