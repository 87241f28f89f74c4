"""The scheduler compared with a model of it, in a random order of steps.

The steps: manifests are applied, time passes, replicas refresh, fire, claim, finish and die,
operators pause, trigger and change limits. After each step the test compares the database with
`support/model.py`. `make test` runs the same steps every time. To run other and more steps:
`MODEL_EXAMPLES=1000 pytest tests/scheduler/test_model.py`.
"""

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.model import FOREVER, Cursor, Model, Name, Timetable
from support.scheduling import NOON, Row
from support.worlds import STEPS, TENANTS, World, opened_world

from tenantcron.core.errors import TenantcronError
from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.operate.refusals import OperationError
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.store.steps.claiming import Claimed, Lease

EXAMPLES = "MODEL_EXAMPLES"
SAME_STEPS = settings(max_examples=30, derandomize=True, database=None)
OTHER_STEPS = settings(
    max_examples=int(os.environ.get(EXAMPLES, "1")), derandomize=False, print_blob=True
)

LEASE = timedelta(seconds=60)
STEPS_AN_EXAMPLE = 40
# The history partitions are created once, for two months ahead.
LATEST = NOON + timedelta(days=55)
SPANS = (
    *(timedelta(seconds=seconds) for seconds in (1, 20, 59, 61)),
    *(timedelta(minutes=minutes) for minutes in (5, 16, 50)),
    *(timedelta(hours=hours) for hours in (2, 7, 26, 60)),
)
TIMETABLES = (
    Timetable("cron: '*/15 * * * *'", timedelta(minutes=15)),
    Timetable("cron: '30 * * * *'", timedelta(hours=1), timedelta(minutes=30)),
    Timetable("every: 50m", timedelta(minutes=50)),
    Timetable("daily: {at: '02:00'}", timedelta(days=1), timedelta(hours=2)),
)
POLICIES = st.tuples(
    st.sampled_from(("skip", "queue", "allow", "cancel_running")).map("overlap: {}".format),
    st.sampled_from(("once", "all", "none")).map("catch_up: {}".format),
    st.sampled_from(("1h", "6h")).map("catch_up_window: {}".format),
    st.sampled_from(("0s", "20m")).map("start_within: {}".format),
    st.sampled_from((3, 1)).map("retry: {{max_attempts: {}}}".format),
).map(", ".join)
TENANT = st.sampled_from(TENANTS)
# With different priorities, so that the order of simultaneous executions is deterministic.
NAMES = {"invoices": "priority: high", "reports": "priority: low"}
NAME = st.tuples(TENANT, st.sampled_from(sorted(NAMES)))
REPLICA = st.sampled_from(("one", "two"))
NUMBER = st.integers(0, 11)
OUTCOME = st.sampled_from(
    (
        *(AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.INTERRUPTED),
        AttemptOutcome.LOST,
    )
)
# A schedule of a manifest: its timetable, None for a disabled one, and the rest of its words.
SCHEDULE = st.tuples(st.sampled_from((*TIMETABLES, None)), POLICIES)
MANIFEST = st.dictionaries(st.sampled_from(sorted(NAMES)), SCHEDULE, max_size=2)
FIRST_MANIFEST = st.fixed_dictionaries(dict.fromkeys(NAMES, SCHEDULE))
Manifest = dict[str, tuple[Timetable | None, str]]


def written(name: str, timetable: Timetable | None, policies: str) -> str:
    """Return the YAML of a schedule. Auto-pause is disabled, because the model has none."""
    when = timetable.text if timetable else f"{TIMETABLES[0].text}, enabled: false"
    return f"{when}, {policies}, {NAMES[name]}, auto_pause_after: 0"


def is_running(row: Row) -> bool:
    return bool(row["state"] == "RUNNING")


class Scheduler(RuleBasedStateMachine):
    """Runs each step in the database and in the model, and compares the two."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world, self.model = world, Model()
        self.suspended: set[str] = set()
        self.overall, self.per_tenant = 3, 2
        self.own_limits: dict[str, int | None] = {}
        # All executions that ever started. Steps choose from them by number, so the steps do not
        # depend on the answers of the database.
        self.claimed: list[Claimed] = []
        # The leases that each replica renews; a crashed replica renews none.
        self.kept: dict[str, dict[Lease, Claimed]] = {"one": {}, "two": {}}
        self.attempts = self.triggered = 0
        # Cursors that were moved back manually, until they fire.
        self.set_back: set[UUID] = set()
        world.begin(self.overall, self.per_tenant)

    @property
    def now(self) -> datetime:
        return self.world.clock.now

    # Steps of users.

    @initialize(first=FIRST_MANIFEST, second=FIRST_MANIFEST)
    def begin(self, first: Manifest, second: Manifest) -> None:
        for tenant, manifest in zip(TENANTS, (first, second), strict=True):
            self.apply(tenant, manifest)
        self.refresh()

    @rule(tenant=TENANT, manifest=MANIFEST)
    def apply(self, tenant: str, manifest: Manifest) -> None:
        """Schedules are created, changed, disabled, removed and created again."""
        self.world.clock.advance(seconds=1)
        live = {
            name: schedule for name, schedule in self.model.declared.items() if name[0] == tenant
        }
        texts = {name: written(name, *schedule) for name, schedule in manifest.items()}
        ids = self.world.apply(tenant, texts, {schedule.id for schedule in live.values()})
        assert ids.keys() == manifest.keys()
        for name in live.keys() - {(tenant, schedule) for schedule in manifest}:
            del self.model.declared[name]
        for schedule, (timetable, _) in manifest.items():
            name = (tenant, schedule)
            assert name not in live or ids[schedule] == live[name].id
            self.model.apply(name, ids[schedule], timetable, self.now)

    @rule(name=NAME, hours=st.sampled_from((None, 1, 30)))
    def pause(self, name: Name, hours: int | None) -> None:
        until = self.now + timedelta(hours=hours) if hours else None
        self.model.refresh()
        if name not in self.model.declared:
            self.refused(lambda: self.world.pause(name, until), UnknownError)
            return
        self.world.pause(name, until)
        self.cursor(name).paused_until = until or FOREVER

    @rule(name=NAME)
    def resume(self, name: Name) -> None:
        self.model.refresh()
        if name not in self.model.declared:
            self.refused(lambda: self.world.resume(name), UnknownError)
        elif self.cursor(name).paused_until is None:
            self.refused(lambda: self.world.resume(name), OperationError)
        else:
            self.world.resume(name)
            self.model.resume(self.model.declared[name].id, self.now)

    @rule(name=NAME)
    def trigger(self, name: Name) -> None:
        self.world.clock.advance(seconds=1)
        self.model.refresh()
        if name[0] in self.suspended:
            self.refused(lambda: self.world.trigger(name), OperationError)
        elif name not in self.model.declared:
            self.refused(lambda: self.world.trigger(name), UnknownError)
        else:
            self.world.trigger(name)
            self.triggered += 1

    @precondition(lambda self: not self.suspended)
    @rule(tenant=TENANT)
    def suspend(self, tenant: str) -> None:
        self.world.suspend(tenant)
        self.suspended.add(tenant)

    @precondition(lambda self: self.suspended)
    @rule()
    def reinstate(self) -> None:
        self.world.reinstate(self.suspended.pop())

    @rule(overall=st.integers(1, 4), per_tenant=st.integers(1, 3))
    def limit(self, overall: int, per_tenant: int) -> None:
        self.world.limit(overall, per_tenant)
        self.overall, self.per_tenant = overall, per_tenant

    @rule(tenant=TENANT, most=st.sampled_from((None, 1, 4)))
    def limit_tenant(self, tenant: str, most: int | None) -> None:
        self.world.limit_tenant(tenant, most)
        self.own_limits[tenant] = most

    @rule(number=NUMBER, step=st.sampled_from((World.retry, World.cancel)))
    def retry_or_cancel(self, number: int, step: Callable[[World, UUID], None]) -> None:
        for claimed in self.chosen(number):
            with suppress(OperationError):
                step(self.world, claimed.id)
                if step is World.retry:
                    self.model.retry(claimed.id)

    @rule(name=NAME, back=st.integers(0, 3))
    def set_cursor_back(self, name: Name, back: int) -> None:
        """Rows can be edited manually."""
        declared = self.model.declared.get(name)
        fired = self.model.accounted[declared.id][-1 - back :] if declared else []
        if declared and fired and declared.id in self.model.cursors and self.cursor(name).next:
            self.world.set_back(declared.id, fired[0])
            self.set_back.add(declared.id)

    # Steps of time.

    @precondition(lambda self: self.now < LATEST)
    @rule(span=st.sampled_from(SPANS))
    def time_passes(self, span: timedelta) -> None:
        self.world.clock.now += span

    @precondition(lambda self: self.now < LATEST and self.nexts())
    @rule()
    def time_passes_up_to_the_next_occurrence(self) -> None:
        self.world.clock.now = max(self.now, min(self.nexts()))

    # Steps of replicas.

    @rule()
    def refresh(self) -> None:
        self.world.refresh()
        self.model.refresh()

    @rule(fire=st.sampled_from((World.fire, World.fire_together, World.fire_again)))
    def fire(self, fire: Callable[[World], None]) -> None:
        fire(self.world)
        self.model.fire(self.now)
        self.set_back.clear()

    @rule(replica=REPLICA)
    def claim(self, replica: str) -> None:
        started = self.world.claim(replica)
        self.claimed += started
        for execution in started:
            self.model.leases[execution.lease] = self.now + LEASE
            self.kept[replica][execution.lease] = execution
        rows = self.world.rows()
        self.check_started(started, rows)
        self.check_isolated(replica, started, rows)
        self.check_waiting(replica, rows)

    @precondition(lambda self: self.now < LATEST and self.nexts())
    @rule(replica=REPLICA)
    def work(self, replica: str) -> None:
        """The usual case: an occurrence is due, is fired and starts."""
        self.time_passes_up_to_the_next_occurrence()
        self.fire(World.fire)
        self.claim(replica)

    @precondition(lambda self: self.now < LATEST and self.nexts())
    @rule(replica=REPLICA, outcome=OUTCOME)
    def work_to_the_end(self, replica: str, outcome: AttemptOutcome) -> None:
        self.work(replica)
        self.finish(0, outcome)

    @rule(replica=REPLICA)
    def take_over(self, replica: str) -> None:
        """Executions with expired leases start again on another replica."""
        self.time_passes(LEASE + timedelta(seconds=1))
        self.recover()
        self.claim(replica)

    @rule(number=NUMBER, outcome=OUTCOME)
    def finish(self, number: int, outcome: AttemptOutcome) -> None:
        """A result may arrive twice, or after its lease has expired."""
        for claimed in self.chosen(number):
            if self.model.end(claimed.lease):
                self.end(claimed, outcome)
            else:
                refused = self.unchanged(partial(self.world.finish, claimed, outcome))
                assert refused == {claimed.lease}

    def end(self, claimed: Claimed, outcome: AttemptOutcome) -> None:
        self.attempts += 1
        if outcome is AttemptOutcome.LOST:
            self.model.lose(claimed.id)
        else:
            self.model.come_back(claimed.id)
        assert not self.world.finish(claimed, outcome)
        (row,) = (row for row in self.world.rows() if row["id"] == claimed.id)
        assert row["state"] == self.state_after(claimed, outcome, row)

    @rule(number=NUMBER)
    def release(self, number: int) -> None:
        """A stopping replica releases what it has claimed."""
        for claimed in self.chosen(number):
            if self.model.end(claimed.lease):
                self.world.release(claimed)
            else:
                self.unchanged(partial(self.world.release, claimed))

    @rule(replica=REPLICA)
    def heartbeat(self, replica: str) -> None:
        held = self.world.heartbeat(list(self.kept[replica].values()))
        assert held == self.kept[replica].keys() & self.model.leases.keys()
        self.model.leases |= dict.fromkeys(held, self.now + LEASE)

    @rule(replica=REPLICA)
    def crash(self, replica: str) -> None:
        """The replica renews no leases any more, but its results may still arrive."""
        self.kept[replica].clear()

    @rule(step=st.sampled_from(sorted(STEPS)))
    def crash_before_the_commit(self, step: str) -> None:
        self.unchanged(lambda: self.world.die_amid(step))

    @rule()
    def recover(self) -> None:
        expired = self.model.expired(self.now)
        before = {row["id"]: row for row in self.world.rows()}
        assert self.world.recover() == len(expired)
        self.attempts += len(expired)
        after = {row["id"]: row for row in self.world.rows()}
        for lease in expired:
            self.model.end(lease)
            self.check_lost(before[lease[0]], after[lease[0]])

    def check_lost(self, before: Row, after: Row) -> None:
        """A lost execution keeps its attempts, unless it is cancelled or blamed."""
        execution = UUID(str(before["id"]))
        if before["cancel_requested_at"] is not None:
            self.model.come_back(execution)
            assert after["state"] == "CANCELLED"
            return
        self.model.lose(execution)
        assert after["state"] == ("DEAD" if self.model.is_killer(execution) else "RETRYING")
        left = [int(str(row["attempts_allowed"])) - row["losses"] for row in (before, after)]
        assert left[0] == left[1]
        assert after["not_before"] == before["not_before"]

    # Invariants after each step.

    @invariant()
    def the_database_agrees(self) -> None:
        executions, attempts, cursors = self.world.everything()
        self.check_occurrences([row for row in executions if row["actor_source"] != "manual"])
        self.check_cursors({row["schedule_id"]: row for row in cursors})
        self.check_leases([row for row in executions if row["state"] == "RUNNING"])
        for row in executions:
            assert row["losses"] == self.model.losses[row["id"]]
            assert row["suspicion"] == self.model.suspicion[row["id"]]
        assert sum(row["actor_source"] == "manual" for row in executions) == self.triggered
        # A success has no attempt row.
        succeeded = sum(row["state"] == "SUCCEEDED" for row in executions)
        assert len(attempts) + succeeded == self.attempts

    def check_occurrences(self, rows: list[Row]) -> None:
        """One row covers each occurrence: none is lost, duplicated or in the future."""
        for schedule in {*self.model.accounted, *(row["schedule_id"] for row in rows)}:
            come = self.model.accounted.get(schedule, [])
            own = (row for row in rows if row["schedule_id"] == schedule)
            assert [time for row in own for time in self.cover(row, come)] == come

    def check_cursors(self, rows: dict[object, Row]) -> None:
        """Cursors are between the last and the next occurrence."""
        assert rows.keys() == self.model.cursors.keys()
        for schedule, cursor in self.model.cursors.items():
            come = self.model.accounted[schedule]
            row = rows[schedule]
            assert row["fault"] is None
            assert row["last_run_at"] == (come[-1] if come else None)
            assert row["next_run_at"] == cursor.next or schedule in self.set_back

    def check_leases(self, running: list[Row]) -> None:
        """Only running executions hold leases, one per schedule unless overlap is allowed."""
        held = {(row["id"], row["lease_token"]): row["lease_until"] for row in running}
        assert held == self.model.leases
        alone = [row["schedule_id"] for row in running if row["overlap"] != "allow"]
        assert len(alone) == len(set(alone))

    def cover(self, row: Row, come: list[datetime]) -> list[datetime]:
        """Return the occurrences that a row covers, and check the row's own count."""
        first, last = row["covers_from"] or row["scheduled_for"], row["scheduled_for"]
        covered = come[bisect_left(come, first) : bisect_right(come, last)]
        assert covered
        assert (covered[0], covered[-1], len(covered) - 1) == (first, last, row["missed_count"])
        return covered

    def check_started(self, started: list[Claimed], rows: list[Row]) -> None:
        running = Counter(row["tenant_id"] for row in rows if row["state"] == "RUNNING")
        assert not started or running.total() <= self.overall
        for execution in started:
            assert execution.tenant_id not in self.suspended
            assert running[execution.tenant_id] <= self.most(execution.tenant_id)
            assert execution.schedule_id in self.model.cursors
            if execution.actor.source != "manual":
                assert self.model.cursors[execution.schedule_id].timetable is not None

    def check_isolated(self, replica: str, started: list[Claimed], rows: list[Row]) -> None:
        """A started execution respects the limit of suspects on its replica."""
        running = [row["id"] for row in rows if row["worker_id"] == replica and is_running(row)]
        for execution in started:
            assert execution.suspicion == self.model.suspicion[execution.id]
            assert self.model.has_room(
                (other for other in running if other != execution.id), execution.id
            )

    def check_waiting(self, replica: str, rows: list[Row]) -> None:
        """A pending execution has a reason to wait: limits, overlap or other suspects."""
        here = [row["id"] for row in rows if row["worker_id"] == replica and is_running(row)]
        running = Counter(row["tenant_id"] for row in rows if row["state"] == "RUNNING")
        started = ("RUNNING", "RETRYING")
        begun = Counter(row["schedule_id"] for row in rows if row["state"] in started)
        for row in rows:
            if row["state"] not in ("PENDING", "RETRYING") or row["not_before"] > self.now:
                continue
            assert row["tenant_id"] not in self.suspended
            is_full = running[row["tenant_id"]] >= self.most(row["tenant_id"])
            is_second = begun[row["schedule_id"]] > (row["state"] == "RETRYING")
            is_isolated = not self.model.has_room(here, row["id"])
            kept = min(self.overall // 4, len(TENANTS) - len(running))
            free = self.overall - running.total() - (kept if running[row["tenant_id"]] else 0)
            assert is_full or is_second or is_isolated or free <= 0

    def state_after(self, claimed: Claimed, outcome: AttemptOutcome, row: Row) -> str:
        """Return the state of an execution after an attempt."""
        if outcome is AttemptOutcome.SUCCEEDED:
            return "SUCCEEDED"
        is_over = claimed.attempt >= claimed.attempts_allowed
        if self.model.is_killer(claimed.id) if outcome is AttemptOutcome.LOST else is_over:
            return "DEAD"
        return "RETRYING" if row["cancel_requested_at"] is None else "CANCELLED"

    def chosen(self, number: int) -> list[Claimed]:
        """Return a started execution, the latest for 0; None if there is none."""
        return [self.claimed[-1 - number % len(self.claimed)]] if self.claimed else []

    def most(self, tenant: str) -> int:
        return self.own_limits.get(tenant) or self.per_tenant

    def cursor(self, name: Name) -> Cursor:
        return self.model.cursors[self.model.declared[name].id]

    def nexts(self) -> list[datetime]:
        return [cursor.next for cursor in self.model.cursors.values() if cursor.next]

    def refused(self, step: Callable[[], object], error: type[TenantcronError]) -> None:
        with pytest.raises(error):
            step()

    def unchanged(self, step: Callable[[], object]) -> object:
        before = self.world.everything()
        answer = step()
        assert self.world.everything() == before
        return answer


@pytest.fixture
def world(database_url: str, tmp_path: Path) -> Iterator[World]:
    """A database with two tenants, for all examples."""
    with opened_world(database_url, tmp_path) as opened:
        yield opened


def test_the_database_always_agrees_with_the_model(world: World) -> None:
    chosen = OTHER_STEPS if EXAMPLES in os.environ else SAME_STEPS
    run_state_machine_as_test(
        lambda: Scheduler(world),  # type: ignore[arg-type] # any factory will do
        settings=settings(
            chosen,
            stateful_step_count=STEPS_AN_EXAMPLE,
            # A step takes several round trips to a real database, so its duration means nothing.
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
