"""The small faults: each is a class that knows what it breaks and how to heal it.

Faults that take down a server, a disk or a network for a while are in `outages`.

Faults of a single scheduler are part of its injections, which are drawn when it starts. Faults of
what schedulers share strike all of them repeatedly, at times drawn from the seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import NamedTuple

from faults.fault import FaultContext, InstantFault, Part, RecurringFault
from faults.injection import KILL, STOP, Injections, Point
from faults.journal import Outage, Span, now
from faults.testbed import LEASE
from faults.workload import LIMIT, Schedule

PER_REPLICA = (
    *("kill", "kill at a point", "stop", "stop at a point"),
    *("clock", "notifications lost", "network", "small batches", "poison"),
)
# Faults that kill or stop schedulers from outside.
FROM_OUTSIDE = frozenset(PER_REPLICA[:4])
_STOP_POINTS = (Point.TAKEN, Point.CLAIMED, Point.BEFORE_EFFECT, Point.BEFORE_EFFECT)
# Seconds within which a process reaches the point where it is killed, or is killed anyway.
_REACHES_POINT_WITHIN = 2.5
_BATCHES = (1, 8, 24, 60)
_OLD_MONTHS = 24
SUSPENDED = ("suspended0", "suspended1")
# Seconds: hours, and slightly ahead, so that executions fired too early are soon visible.
_CLOCK_OFFSETS = (-108_000.0, -18_000.0, -3600.0, 40.0, 120.0, 3600.0, 93_600.0)


class ReplicaPlan(NamedTuple):
    """Injections of a scheduler and signals from outside; times are seconds after its start."""

    injections: Injections
    network: str | None = None
    kill_after: float | None = None
    stop_after: float | None = None


class ReplicaPlans:
    """Draws the plan of each scheduler."""

    def __init__(self, random: Random, faults: frozenset[str], lifetime: float) -> None:
        self._random, self._faults, self._lifetime = random, faults, lifetime

    def victim(self) -> ReplicaPlan:
        """Draw the plan of a scheduler that is killed or stopped soon."""
        injections, random = self._circumstances(), self._random
        through = "near" if self._has("network") and random.random() < 0.3 else None
        ways = [way for way in PER_REPLICA[:4] for _ in range(_WEIGHTS[way]) if self._has(way)]
        way = random.choice(ways) if ways else None
        lifetime = random.uniform(0.05, 2 * self._lifetime)
        if way == "kill at a point":
            injections |= {"point": random.choice(list(Point)), "nth": random.randint(1, 3)}
            injections |= {"signal": KILL}
            return ReplicaPlan(injections, through, kill_after=_REACHES_POINT_WITHIN)
        if way == "stop at a point":
            injections |= {"point": random.choice(_STOP_POINTS), "nth": random.randint(1, 4)}
            injections |= {"signal": STOP}
            return ReplicaPlan(injections, through, kill_after=LEASE * 4)
        if way == "stop":
            return ReplicaPlan(injections, through, kill_after=LEASE * 4, stop_after=lifetime + 0.5)
        return ReplicaPlan(injections, through, kill_after=lifetime if way else None)

    def supervised(self) -> ReplicaPlan:
        """Draw the plan of a supervised scheduler: clock, notifications and batches only."""
        return ReplicaPlan(self._circumstances())

    def _circumstances(self) -> Injections:
        injections = Injections()
        if self._has("clock") and self._random.random() < 0.3:
            injections["clock"] = self._random.choice(_CLOCK_OFFSETS)
        if self._has("notifications lost") and self._random.random() < 0.3:
            injections["ignores_notifications"] = True
        if self._has("small batches") and self._random.random() < 0.7:
            injections["batch"] = self._random.choice(_BATCHES)
        return injections

    def _has(self, name: str) -> bool:
        return name in self._faults


_WEIGHTS = {"kill": 24, "kill at a point": 8, "stop": 1, "stop at a point": 1}


class ServerStop:
    """Postgres is stopped as in a crash, and started again."""

    once, breaks = False, frozenset({Part.SERVERS})

    name, pause = "server stop", (12.0, 25.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, context: FaultContext) -> float | None:
        self._since = now()
        context.journal.note(self.name, "immediate stop")
        context.journal.bad_for(12.0 + LEASE)
        context.testbed.servers.primary.stop("immediate")
        return context.random.uniform(0.1, 1.5)

    def heal(self, context: FaultContext) -> None:
        context.testbed.servers.primary.start()
        context.journal.outages.append(Outage(self.name, self._since, now()))
        # The full time that it was down, however long the restart took.
        context.journal.bad_since(self._since, 10.0 + LEASE)


class NetworkCut(InstantFault):
    """All connections through the network are reset."""

    name, pause = "connections cut", (3.0, 9.0)

    def strike(self, context: FaultContext) -> float | None:
        context.journal.note(self.name, "all connections")
        context.testbed.services.order("near", "cut")
        return None


class NetworkSlow(RecurringFault):
    """Every chunk through the network is delayed."""

    name, pause = "connections slow", (8.0, 16.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, context: FaultContext) -> float | None:
        self._since = now()
        delay = context.random.choice((0.02, 0.2, 0.6))
        context.journal.note(self.name, f"{delay} s per chunk")
        context.journal.bad_for(4.0 + 2 * LEASE)
        context.testbed.services.order("near", "slow", delay)
        return 3.0

    def heal(self, context: FaultContext) -> None:
        context.testbed.services.order("near", "heal")
        # Other faults may delay the healing.
        context.journal.bad_since(self._since, 1.0 + 2 * LEASE)


class NetworkHalfOpen(NetworkSlow):
    """Connections through the network stay open but pass nothing, for longer than a lease."""

    name, pause = "connections half-open", (15.0, 30.0)

    def strike(self, context: FaultContext) -> float | None:
        self._since = now()
        context.journal.note(self.name, "nothing passes")
        context.journal.bad_for(12.0 + 3 * LEASE)
        context.testbed.services.order("near", "half_open")
        return context.random.uniform(2.0, LEASE + 3.0)


class Suspension(RecurringFault):
    """A tenant is suspended for a while."""

    name, pause = "tenant suspended", (6.0, 10.0)

    def __init__(self) -> None:
        self._tenant, self._since = "", now()

    def strike(self, context: FaultContext) -> float | None:
        self._tenant = context.random.choice(SUSPENDED)
        if context.testbed.run("tenant", "suspend", self._tenant, "--reason", "a fault"):
            return None
        # Executions claimed before the change was visible started before this moment.
        self._since = now()
        context.journal.note(self.name, self._tenant)
        return context.random.uniform(2.0, 4.0)

    def heal(self, context: FaultContext) -> None:
        context.journal.suspended.append(Span(self._tenant, self._since, now()))
        context.testbed.run("tenant", "resume", self._tenant)


class LimitsChanged(RecurringFault):
    """The cluster limit and the limit of one tenant are lowered for a while."""

    name, pause = "limits changed", (5.0, 9.0)

    def strike(self, context: FaultContext) -> float | None:
        overall = context.random.randint(4, 30)
        self._set(context, overall, context.random.randint(1, 3))
        context.journal.note(self.name, f"{overall} overall")
        return context.random.uniform(1.0, 2.5)

    def heal(self, context: FaultContext) -> None:
        self._set(context, LIMIT, 4)

    def _set(self, context: FaultContext, overall: int, of_tenant: int) -> None:
        change = context.journal.limits.begin(None, overall)
        if not context.testbed.run(
            "limits", "--max-concurrent", str(overall), "--reason", "a fault"
        ):
            change.done = now()
        change = context.journal.limits.begin("limited", of_tenant)
        if not context.testbed.run("tenant", "set", "limited", "--max-concurrent", str(of_tenant)):
            change.done = now()


class SchemaDropped(InstantFault):
    """The schema of a tenant is dropped manually, without deprovisioning."""

    name, pause, once = "schema dropped", (5.0, 15.0), True

    def strike(self, context: FaultContext) -> float | None:
        context.testbed.query("DROP SCHEMA tenant_dropped CASCADE")
        context.journal.note(self.name, "tenant_dropped")
        return None


@dataclass(slots=True)
class ApplyDuringFire(InstantFault):
    """A manifest is applied while its schedules fire."""

    name: str = "apply races with fire"
    pause: tuple[float, float] = (1.5, 4.0)
    number: int = 0

    def strike(self, context: FaultContext) -> float | None:
        self.number += 1
        file = _write(context, "edited", f"edit {self.number}")
        context.testbed.command("apply-manifest", file)
        context.journal.note(self.name, file)
        return None


@dataclass(slots=True)
class ConcurrentApplies(InstantFault):
    """Two manifests of one tenant are applied at the same moment."""

    name: str = "two applies race"
    pause: tuple[float, float] = (2.0, 5.0)
    number: int = 0

    def strike(self, context: FaultContext) -> float | None:
        self.number += 1
        files = [
            _write(context, "contested", f"{side} {self.number}") for side in ("left", "right")
        ]
        for file in files:
            context.testbed.command("apply-manifest", file)
        context.journal.note(self.name, ", ".join(files))
        return None


class CursorsRewound(InstantFault):
    """Cursors are set back to occurrences that were already fired, as by an old backup."""

    name, pause = "cursors set back", (0.8, 2.0)

    def strike(self, context: FaultContext) -> float | None:
        back = timedelta(seconds=2 * context.random.randint(0, 5))
        rows = context.testbed.query(
            "UPDATE tenantcron.schedule_cursor AS c"
            " SET next_run_at = last_run_at - %s::interval, last_run_at = NULL"
            " WHERE tenant_id LIKE 'restored%%' AND next_run_at > now() AND last_run_at IS NOT NULL"
            " AND last_run_at - %s::interval > effective_from RETURNING schedule_name",
            back,
            back,
        )
        if rows:
            context.journal.note(self.name, f"{len(rows)} by {back}")
        return None


@dataclass(slots=True)
class Backlog(InstantFault):
    """A schedule has weeks of missed occurrences, with a DST change among them."""

    name: str = "backlog"
    pause: tuple[float, float] = (0.5, 1.5)
    left: list[Schedule] | None = None

    def strike(self, context: FaultContext) -> float | None:
        if self.left is None:
            schedules = context.workload.schedules
            self.left = [schedule for schedule in schedules if schedule.since]
            context.random.shuffle(self.left)
        if self.left:
            schedule = self.left.pop()
            rewind(context, schedule)
            context.journal.note(self.name, "/".join(schedule.key))
        return None


class OldHistory(InstantFault):
    """There are years of history past the retention."""

    name, pause, once = "old history", (0.0, 2.0), True

    def strike(self, context: FaultContext) -> float | None:
        # In one statement: the schedulers drop the partitions that they find.
        context.testbed.query("; ".join(_old_months(_OLD_MONTHS)))
        context.journal.note(self.name, f"{_OLD_MONTHS} months")
        return None


def _old_months(number: int) -> Iterator[str]:
    for place in range(number):
        year, month = 2020 + place // 12, place % 12 + 1
        following = f"{year + month // 12}-{month % 12 + 1:02}-01Z"
        for table in ("execution_past", "execution_attempt"):
            name = f"tenantcron.{table}_{year}_{month:02}"
            bounds = f"FROM ('{year}-{month:02}-01Z') TO ('{following}')"
            yield f"CREATE TABLE {name} PARTITION OF tenantcron.{table} FOR VALUES {bounds}"
        yield (
            f"INSERT INTO tenantcron.execution_past_{year}_{month:02} (id, tenant_id, schedule_id,"  # noqa: S608 -- a year and a month
            " schedule_name, saga_name, definition_id, scheduled_for, state, overlap, priority,"
            " not_before, attempts_allowed, actor_id, actor_type, actor_source, created_at)"
            " SELECT gen_random_uuid(), 'steady00', gen_random_uuid(), 'ancient', 'work0',"
            f" gen_random_uuid(), t, 'SUCCEEDED', 'skip', 2, t, 1, 'old', 'scheduler', 'old', t"
            f" FROM generate_series('{year}-{month:02}-01Z'::timestamptz,"
            f" '{year}-{month:02}-20Z'::timestamptz, '10 minutes') AS t"
        )


def rewind(context: FaultContext, schedule: Schedule) -> None:
    """Set a schedule's cursor back to where it counts from."""
    if schedule.since is None:
        return
    first = next(iter(schedule.timetable.occurrences(schedule.since, now())))
    rows = context.testbed.query(
        "UPDATE tenantcron.schedule_cursor SET next_run_at = %s"
        " WHERE tenant_id = %s AND schedule_name = %s AND last_run_at IS NULL RETURNING 1",
        first,
        *schedule.key,
    )
    if rows:
        context.journal.rewound.add(schedule.key)


def _write(context: FaultContext, tenant: str, note: str) -> str:
    name = f"{tenant} {note}.json".replace(" ", "_")
    (context.testbed.folder / name).write_text(
        context.workload.manifest(tenant, note), encoding="utf-8"
    )
    return name
