"""A model of how tenants and priorities share slots: the rules of `store/steps/sharing.py`."""

from collections import Counter
from dataclasses import dataclass, field
from math import ceil

LEAST_CHARGE = 0.125
SCARCE_FOR = 60.0
ROUND = 12
# One slot of so many is reserved for tenants that run nothing.
RESERVED = 4
SHARES = (4, 3, 2, 1)
STRIDES = tuple(ROUND // share for share in SHARES)


@dataclass(slots=True, eq=False)
class Run:
    """A running execution."""

    tenant: "SharingTenant"
    name: str
    priority: int
    started_at: float


@dataclass(slots=True, eq=False)
class SharingTenant:
    """A tenant: what it has pending, by priority and age, and what it has used."""

    name: str
    weight: int = 1
    pending: tuple[list[str], ...] = field(default_factory=lambda: ([], [], [], []))
    running: int = 0
    passes: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    virtual_time: float = 0.0
    # Charged at the end of attempts, and not yet part of the virtual time.
    charged: float = 0.0

    @property
    def waits(self) -> bool:
        return any(self.pending)


@dataclass(slots=True)
class SharingModel:
    """A cluster with a number of slots; its claims start one execution after the other."""

    slots: int
    tenants: dict[str, SharingTenant] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    now: float = 0.0
    # The period of scarcity, and when executions were last left pending in it.
    since: float | None = None
    waited_at: float = 0.0
    virtual_time: float = 0.0

    def tenant(self, name: str, weight: int = 1) -> SharingTenant:
        return self.tenants.setdefault(name, SharingTenant(name, weight))

    def finish(self, run: Run) -> None:
        self.runs.remove(run)
        run.tenant.running -= 1
        self._end_period()
        run.tenant.charged += self._charge(run)

    def claim_all(self) -> list[Run]:
        """Claim until nothing starts, as the loop does."""
        started: list[Run] = []
        while batch := self._claim():
            started += batch
        return started

    def _end_period(self) -> None:
        if self.since is not None and self.now - self.waited_at >= SCARCE_FOR:
            self.since, self.virtual_time = None, 0.0
            for tenant in self.tenants.values():
                tenant.virtual_time = tenant.charged = 0.0

    def _claim(self) -> list[Run]:
        self._end_period()
        waiting = [tenant for tenant in self.tenants.values() if tenant.waits]
        before = {tenant: list(tenant.passes) for tenant in waiting}
        free = self.slots - len(self.runs)
        least = min(map(self._used, waiting), default=0.0) if free else 0.0
        started, is_reserved = self._start(waiting)
        self.runs += started
        if waiting and (is_reserved or len(self.runs) == self.slots):
            self._note_scarcity(least)
        elif self.since is None:
            for tenant in waiting:
                tenant.passes, tenant.virtual_time = before[tenant], 0.0
        return started

    def _start(self, waiting: list[SharingTenant]) -> tuple[list[Run], bool]:
        """Start executions by round, virtual time and share.

        Also return whether the rest is left pending because the other slots are reserved.
        """
        reserved = self._reserved(waiting)
        number = self._considered(waiting)
        queues = {t: tuple(q[: number * t.weight] for q in t.pending) for t in waiting}
        moved = {tenant: list(tenant.passes) for tenant in waiting}
        used = {tenant: self._used(tenant) for tenant in waiting}
        started: list[Run] = []
        is_reserved = False
        number_of = Counter[SharingTenant]()

        def charged(tenant: SharingTenant) -> float:
            # In the order of operations of the statement, so that the numbers are the same.
            return used[tenant] + number_of[tenant] * LEAST_CHARGE / tenant.weight

        def order(tenant: SharingTenant) -> tuple[object, ...]:
            priority = _next_priority(queues[tenant], moved[tenant])
            age = queues[tenant][priority][0]
            return tenant.running // tenant.weight, charged(tenant), priority, age

        while len(started) + len(self.runs) < self.slots:
            able = [tenant for tenant in waiting if any(queues[tenant])]
            if not able:
                break
            tenant = min(able, key=order)
            free = self.slots - len(self.runs) - len(started)
            if free <= reserved and tenant.running >= tenant.weight:
                is_reserved = True
                break
            priority = _next_priority(queues[tenant], moved[tenant])
            started.append(self._run(tenant, priority, queues[tenant][priority].pop(0)))
            moved[tenant][priority] += STRIDES[priority]
            number_of[tenant] += 1
        for tenant in number_of:
            in_flight = self._in_flight(tenant) / tenant.weight
            tenant.virtual_time, tenant.charged = charged(tenant) - in_flight, 0.0
        for tenant in {run.tenant for run in started}:
            _advance(
                tenant, {run.priority for run in started if run.tenant is tenant}, moved[tenant]
            )
        return started, is_reserved

    def _reserved(self, waiting: list[SharingTenant]) -> int:
        """Return the slots that are reserved for tenants without executions."""
        free, most = self.slots - len(self.runs), self.slots // RESERVED
        first = sum(not tenant.running for tenant in waiting)
        if first >= free:
            return 0
        busy = sum(bool(tenant.running) for tenant in self.tenants.values())
        return max(min(most, len(self.tenants) - busy - first), 0)

    def _used(self, tenant: SharingTenant) -> float:
        """Return the virtual time of a tenant, if it starts an execution now."""
        seconds = tenant.charged + self._in_flight(tenant)
        return max(tenant.virtual_time + seconds / tenant.weight, self.virtual_time)

    def _in_flight(self, tenant: SharingTenant) -> float:
        """Return what would be charged if all running executions of a tenant ended now."""
        return sum(self._charge(run) for run in self.runs if run.tenant is tenant)

    def _charge(self, run: Run) -> float:
        if self.since is None:
            return 0.0
        return max(self.now - max(run.started_at, self.since) - LEAST_CHARGE, 0.0)

    def _considered(self, waiting: list[SharingTenant]) -> int:
        return ceil((self.slots - len(self.runs)) / max(len(waiting), 1))

    def _run(self, tenant: SharingTenant, priority: int, name: str) -> Run:
        tenant.pending[priority].remove(name)
        tenant.running += 1
        return Run(tenant, name, priority, self.now)

    def _note_scarcity(self, least: float) -> None:
        if self.since is None:
            self.since, self.waited_at, self.virtual_time = self.now, self.now, 0.0
        elif self.now - self.waited_at > SCARCE_FOR / 10 or self.virtual_time < least:
            self.waited_at = self.now
            self.virtual_time = max(self.virtual_time, least)


def _next_priority(queues: tuple[list[str], ...], passes: list[int]) -> int:
    return min((passes[p] + STRIDES[p], p) for p, queue in enumerate(queues) if queue)[1]


def _advance(tenant: SharingTenant, started: set[int], moved: list[int]) -> None:
    """Store how far each priority is. One that is not pending saves up nothing."""
    pending = {p for p, queue in enumerate(tenant.pending) if queue} | started
    if len(pending) > 1:
        reached = max(moved[p] - STRIDES[p] for p in pending)
        after = [moved[p] if p in pending else max(moved[p], reached) for p in range(4)]
        tenant.passes = [min(position - min(after), ROUND) for position in after]
