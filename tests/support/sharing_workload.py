"""Random workloads on a model of shares, and the bounds of `docs/scheduler.md` at every moment.

Tenants become busy and idle, with executions of random lengths and priorities. Processing time is
measured as it passes, not as it is charged. Between two tenants a bound applies from the moment
when both have pending executions until one of them has none; between two priorities of a tenant in
the same way, after one round of starts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import combinations
from random import Random

from support.sharing import LEAST_CHARGE, SHARES, Run, SharingModel, SharingTenant

# The starts after which a priority that was not pending before has caught up.
ROUND_OF_STARTS = sum(SHARES)


@dataclass(frozen=True, slots=True)
class Load:
    """What a tenant submits: a weight, its longest execution, and how often it is idle."""

    weight: int
    longest: float
    # The time between bursts as a multiple of what a burst takes with all slots.
    idling: float
    most_in_a_burst: int


@dataclass(slots=True)
class _Pending:
    """Two pending priorities of a tenant: their starts since that began, in total and counted."""

    skipped: int = 0
    starts: Counter[int] = field(default_factory=Counter)


class Workload:
    """A run of a model with a load for each tenant."""

    def __init__(self, slots: int, loads: Iterable[Load], random: Random) -> None:
        self.model = SharingModel(slots)
        self._random = random
        self._loads: dict[SharingTenant, Load] = {}
        self._events: list[tuple[float, int, Run | SharingTenant]] = []
        self._number = 0
        self._used: defaultdict[str, float] = defaultdict(float)
        self._most: Counter[str] = Counter()
        # Two tenants with pending executions, and what both had used when that began.
        self._together: dict[tuple[str, str], tuple[float, float]] = {}
        self._pending: dict[tuple[str, int, int], _Pending] = {}
        # How close both bounds came: 1 is reached, more is broken.
        self.closest = 0.0
        self.closest_of_priorities = 0.0
        self.checked = 0
        for number, load in enumerate(loads):
            tenant = self.model.tenant(f"t{number}", load.weight)
            self._loads[tenant] = load
            self._at(self._until_next(load, load.most_in_a_burst) * self._random.random(), tenant)

    def step(self) -> None:
        """Advance to the next event, claim, and check the bounds."""
        at, _, event = heappop(self._events)
        self._advance(at)
        self._check_tenants()
        if isinstance(event, Run):
            self.model.finish(event)
        else:
            self._submit(event)
        started = self.model.claim_all()
        for run in started:
            load = self._loads[run.tenant]
            length = load.longest * self._random.choice((0.1, 0.5, 1.0))
            self._at(at + max(length, LEAST_CHARGE), run)
        self._note_tenants()
        self._check_priorities(started)

    def _at(self, at: float, event: Run | SharingTenant) -> None:
        self._number += 1
        heappush(self._events, (at, self._number, event))

    def _advance(self, at: float) -> None:
        passed = at - self.model.now
        for tenant in self.model.tenants.values():
            self._used[tenant.name] += tenant.running * passed
        self.model.now = at
        if any(tenant.waits for tenant in self.model.tenants.values()):
            # Replicas that are short of slots claim every few seconds.
            self.model.waited_at = at

    def _submit(self, tenant: SharingTenant) -> None:
        """Add a burst, and plan the next one."""
        load, random = self._loads[tenant], self._random
        number = random.randint(1, load.most_in_a_burst)
        priorities = random.sample(range(4), random.randint(1, 4))
        for _ in range(number):
            self._number += 1
            tenant.pending[random.choice(priorities)].append(f"{self._number:08}")
        self._at(self.model.now + self._until_next(load, number), tenant)

    def _until_next(self, load: Load, number: int) -> float:
        takes = number * load.longest / 2 / self.model.slots
        return takes * load.idling * self._random.uniform(0.2, 2)

    def _check_tenants(self) -> None:
        """Compare the processing time of tenants that were pending together until now."""
        for names, used in self._together.items():
            both = [self.model.tenants[name] for name in names]
            first, second = (
                (self._used[t.name] - since) / t.weight for t, since in zip(both, used, strict=True)
            )
            bound = sum((self._most[t.name] + 1) * self._loads[t].longest / t.weight for t in both)
            self.checked += 1
            self.closest = max(self.closest, abs(first - second) / bound)

    def _note_tenants(self) -> None:
        for tenant in self.model.tenants.values():
            self._most[tenant.name] = max(self._most[tenant.name], tenant.running)
        for pair in combinations(self.model.tenants.values(), 2):
            names = (pair[0].name, pair[1].name)
            if all(tenant.waits for tenant in pair):
                self._together.setdefault(names, (self._used[names[0]], self._used[names[1]]))
            else:
                self._together.pop(names, None)

    def _check_priorities(self, started: list[Run]) -> None:
        for tenant in self.model.tenants.values():
            own = [run.priority for run in started if run.tenant is tenant]
            for first, second in combinations(range(4), 2):
                key = (tenant.name, first, second)
                if not (tenant.pending[first] and tenant.pending[second]):
                    self._pending.pop(key, None)
                elif key in self._pending:
                    self._compare(self._pending[key], own, (first, second))
                else:
                    self._pending[key] = _Pending()

    def _compare(self, pending: _Pending, own: list[int], pair: tuple[int, int]) -> None:
        """Count starts after a round, and compare the two priorities after each."""
        for priority in own:
            if pending.skipped < ROUND_OF_STARTS + self.model.slots:
                pending.skipped += 1
                continue
            pending.starts[priority] += 1
            first, second = (pending.starts[p] / SHARES[p] for p in pair)
            bound = sum(1 / SHARES[p] for p in pair)
            self.closest_of_priorities = max(
                self.closest_of_priorities, abs(first - second) / bound
            )
