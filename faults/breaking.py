"""The small faults: each is a class with what it breaks and how that heals.

Those that take a server, a disk or a network away for a while are in `outages`.

What strikes a single scheduler is part of its fate, which it has from its first moment. What they
share is broken for all of them, now and then, by the seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import NamedTuple

from faults.cluster import LEASE
from faults.injected import KILL, STOP, Fate, Point
from faults.journal import Outage, Span, now
from faults.scene import Healed, Lasting, Part, Scene
from faults.workload import LIMIT, Schedule

OWN = (
    *("kill", "kill at a point", "stop", "stop at a point"),
    *("clock", "notifications lost", "network", "small batches", "poison"),
)
# What kills or stops schedulers from outside.
STRUCK = frozenset(OWN[:4])
_STOP_POINTS = (Point.TAKEN, Point.CLAIMED, Point.BEFORE_EFFECT, Point.BEFORE_EFFECT)
# Seconds in which a process gets to the point where it is to be killed, or is killed anyway.
_COMES_TO_THE_POINT = 2.5
_BATCHES = (1, 8, 24, 60)
_OLD_MONTHS = 24
SUSPENDED = ("suspended0", "suspended1")
# Seconds: hours, and a little ahead, so that what is fired too early is soon on record.
_SHIFTS = (-108_000.0, -18_000.0, -3600.0, 40.0, 120.0, 3600.0, 93_600.0)


class Born(NamedTuple):
    """A fate with what is done from outside; the times are seconds of life."""

    fate: Fate
    network: str | None = None
    dies_after: float | None = None
    stops_after: float | None = None


class Fates:
    """Draws what is in store for each scheduler."""

    def __init__(self, random: Random, faults: frozenset[str], life: float) -> None:
        self._random, self._faults, self._life = random, faults, life

    def mortal(self) -> Born:
        """Draw for one that will be struck soon."""
        fate, random = self._circumstances(), self._random
        through = "near" if self._has("network") and random.random() < 0.3 else None
        ways = [one for one in OWN[:4] for _ in range(_WEIGHTS[one]) if self._has(one)]
        way = random.choice(ways) if ways else None
        life = random.uniform(0.05, 2 * self._life)
        if way == "kill at a point":
            fate |= {"point": random.choice(list(Point)), "nth": random.randint(1, 3)}
            fate |= {"signal": KILL}
            return Born(fate, through, dies_after=_COMES_TO_THE_POINT)
        if way == "stop at a point":
            fate |= {"point": random.choice(_STOP_POINTS), "nth": random.randint(1, 4)}
            fate |= {"signal": STOP}
            return Born(fate, through, dies_after=LEASE * 4)
        if way == "stop":
            return Born(fate, through, dies_after=LEASE * 4, stops_after=life + 0.5)
        return Born(fate, through, dies_after=life if way else None)

    def keeper(self) -> Born:
        """Draw for one that is left alone, but for its clock and ears."""
        return Born(self._circumstances())

    def _circumstances(self) -> Fate:
        fate = Fate()
        if self._has("clock") and self._random.random() < 0.3:
            fate["clock"] = self._random.choice(_SHIFTS)
        if self._has("notifications lost") and self._random.random() < 0.3:
            fate["deaf"] = True
        if self._has("small batches") and self._random.random() < 0.7:
            fate["batch"] = self._random.choice(_BATCHES)
        return fate

    def _has(self, name: str) -> bool:
        return name in self._faults


_WEIGHTS = {"kill": 24, "kill at a point": 8, "stop": 1, "stop at a point": 1}


class ServerStop:
    """Postgres is stopped as if it had been killed, and started again."""

    once, breaks = False, frozenset({Part.SERVERS})

    name, pause = "server stop", (12.0, 25.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, scene: Scene) -> float | None:
        self._since = now()
        scene.journal.note(self.name, "immediate stop")
        scene.journal.bad_for(12.0 + LEASE)
        scene.world.servers.primary.stop("immediate")
        return scene.random.uniform(0.1, 1.5)

    def heal(self, scene: Scene) -> None:
        scene.world.servers.primary.start()
        scene.journal.outages.append(Outage(self.name, self._since, now()))
        # All the time that it was away, however long it took to come back.
        scene.journal.bad_since(self._since, 10.0 + LEASE)


class NetworkCut(Healed):
    """All connections through the network are reset."""

    name, pause = "connections cut", (3.0, 9.0)

    def strike(self, scene: Scene) -> float | None:
        scene.journal.note(self.name, "all of the network")
        scene.world.services.order("near", "cut")
        return None


class NetworkSlow(Lasting):
    """Every piece through the network is held back."""

    name, pause = "connections slow", (8.0, 16.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, scene: Scene) -> float | None:
        self._since = now()
        delay = scene.random.choice((0.02, 0.2, 0.6))
        scene.journal.note(self.name, f"{delay} s a piece")
        scene.journal.bad_for(4.0 + 2 * LEASE)
        scene.world.services.order("near", "slow", delay)
        return 3.0

    def heal(self, scene: Scene) -> None:
        scene.world.services.order("near", "heal")
        # It heals when its turn comes, which others may delay.
        scene.journal.bad_since(self._since, 1.0 + 2 * LEASE)


class NetworkHalfOpen(NetworkSlow):
    """Connections through the network stay open and pass nothing on, for longer than a lease."""

    name, pause = "connections half-open", (15.0, 30.0)

    def strike(self, scene: Scene) -> float | None:
        self._since = now()
        scene.journal.note(self.name, "nothing passes")
        scene.journal.bad_for(12.0 + 3 * LEASE)
        scene.world.services.order("near", "half_open")
        return scene.random.uniform(2.0, LEASE + 3.0)


class Suspension(Lasting):
    """A tenant is suspended for a while."""

    name, pause = "tenant suspended", (6.0, 10.0)

    def __init__(self) -> None:
        self._tenant, self._since = "", now()

    def strike(self, scene: Scene) -> float | None:
        self._tenant = scene.random.choice(SUSPENDED)
        if scene.world.run("tenant", "suspend", self._tenant, "--reason", "a fault"):
            return None
        # What was claimed before the change was seen started before it was done.
        self._since = now()
        scene.journal.note(self.name, self._tenant)
        return scene.random.uniform(2.0, 4.0)

    def heal(self, scene: Scene) -> None:
        scene.journal.suspended.append(Span(self._tenant, self._since, now()))
        scene.world.run("tenant", "resume", self._tenant)


class LimitsChanged(Lasting):
    """The limit of all is lowered for a while, and with it that of one tenant."""

    name, pause = "limits changed", (5.0, 9.0)

    def strike(self, scene: Scene) -> float | None:
        overall = scene.random.randint(4, 30)
        self._set(scene, overall, scene.random.randint(1, 3))
        scene.journal.note(self.name, f"{overall} overall")
        return scene.random.uniform(1.0, 2.5)

    def heal(self, scene: Scene) -> None:
        self._set(scene, LIMIT, 4)

    def _set(self, scene: Scene, overall: int, of_tenant: int) -> None:
        change = scene.journal.limits.begin(None, overall)
        if not scene.world.run("limits", "--max-concurrent", str(overall), "--reason", "a fault"):
            change.done = now()
        change = scene.journal.limits.begin("limited", of_tenant)
        if not scene.world.run("tenant", "set", "limited", "--max-concurrent", str(of_tenant)):
            change.done = now()


class SchemaDropped(Healed):
    """The schema of a tenant goes away, by hand and without a word."""

    name, pause, once = "schema dropped", (5.0, 15.0), True

    def strike(self, scene: Scene) -> float | None:
        scene.world.query("DROP SCHEMA tenant_dropped CASCADE")
        scene.journal.note(self.name, "tenant_dropped")
        return None


@dataclass(slots=True)
class ApplyRaces(Healed):
    """A manifest is applied while its schedules fire."""

    name: str = "apply races with fire"
    pause: tuple[float, float] = (1.5, 4.0)
    number: int = 0

    def strike(self, scene: Scene) -> float | None:
        self.number += 1
        file = _write(scene, "edited", f"edit {self.number}")
        scene.world.command("apply-manifest", file)
        scene.journal.note(self.name, file)
        return None


@dataclass(slots=True)
class AppliesRace(Healed):
    """Two manifests of one tenant are applied at the same moment."""

    name: str = "two applies race"
    pause: tuple[float, float] = (2.0, 5.0)
    number: int = 0

    def strike(self, scene: Scene) -> float | None:
        self.number += 1
        files = [_write(scene, "contested", f"{side} {self.number}") for side in ("left", "right")]
        for file in files:
            scene.world.command("apply-manifest", file)
        scene.journal.note(self.name, ", ".join(files))
        return None


class CursorsBack(Healed):
    """Cursors are set back to what was fired already, as an old backup would."""

    name, pause = "cursors set back", (0.8, 2.0)

    def strike(self, scene: Scene) -> float | None:
        back = timedelta(seconds=2 * scene.random.randint(0, 5))
        rows = scene.world.query(
            "UPDATE tenantcron.schedule_cursor AS c"
            " SET next_run_at = last_run_at - %s::interval, last_run_at = NULL"
            " WHERE tenant_id LIKE 'restored%%' AND next_run_at > now() AND last_run_at IS NOT NULL"
            " AND last_run_at - %s::interval > effective_from RETURNING schedule_name",
            back,
            back,
        )
        if rows:
            scene.journal.note(self.name, f"{len(rows)} by {back}")
        return None


@dataclass(slots=True)
class Backlog(Healed):
    """A schedule has weeks to make up for, with a change of the clock among them."""

    name: str = "weeks to make up for"
    pause: tuple[float, float] = (0.5, 1.5)
    left: list[Schedule] | None = None

    def strike(self, scene: Scene) -> float | None:
        if self.left is None:
            self.left = [one for one in scene.workload.schedules if one.since]
            scene.random.shuffle(self.left)
        if self.left:
            one = self.left.pop()
            put_back(scene, one)
            scene.journal.note(self.name, "/".join(one.key))
        return None


class OldHistory(Healed):
    """Years of history are there that nobody keeps."""

    name, pause, once = "old history", (0.0, 2.0), True

    def strike(self, scene: Scene) -> float | None:
        # At once: the schedulers drop what they find.
        scene.world.query("; ".join(_old_months(_OLD_MONTHS)))
        scene.journal.note(self.name, f"{_OLD_MONTHS} months")
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


def put_back(scene: Scene, schedule: Schedule) -> None:
    """Let a schedule's cursor begin where it counts from."""
    if schedule.since is None:
        return
    first = next(iter(schedule.timetable.occurrences(schedule.since, now())))
    rows = scene.world.query(
        "UPDATE tenantcron.schedule_cursor SET next_run_at = %s"
        " WHERE tenant_id = %s AND schedule_name = %s AND last_run_at IS NULL RETURNING 1",
        first,
        *schedule.key,
    )
    if rows:
        scene.journal.put_back.add(schedule.key)


def _write(scene: Scene, tenant: str, note: str) -> str:
    name = f"{tenant} {note}.json".replace(" ", "_")
    (scene.world.folder / name).write_text(scene.workload.manifest(tenant, note), encoding="utf-8")
    return name
