"""A model of how tenants and priorities share slots: the rules of `store/steps/sharing.py`."""

from dataclasses import dataclass, field
from math import ceil

LEAST_CHARGE = 0.125
SCARCE_FOR = 60.0
ROUND = 12
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
        if self.since is not None:
            took = self.now - max(run.started_at, self.since)
            run.tenant.charged += max(took - LEAST_CHARGE, 0.0)

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
        least = min(map(self._used, waiting), default=0.0)
        started = self._start(waiting)
        self.runs += started
        if waiting and len(self.runs) == self.slots:
            self._note_scarcity(least if started else 0.0)
        elif self.since is None:
            for tenant in waiting:
                tenant.passes, tenant.virtual_time = before[tenant], 0.0
        return started

    def _start(self, waiting: list[SharingTenant]) -> list[Run]:
        """Start executions by round, virtual time and share."""
        number = self._considered(waiting)
        queues = {t: tuple(q[: number * t.weight] for q in t.pending) for t in waiting}
        moved = {tenant: list(tenant.passes) for tenant in waiting}
        used = {tenant: self._used(tenant) for tenant in waiting}
        started: list[Run] = []

        def order(tenant: SharingTenant) -> tuple[object, ...]:
            priority = _next_priority(queues[tenant], moved[tenant])
            age = queues[tenant][priority][0]
            return tenant.running // tenant.weight, used[tenant], priority, age

        while len(started) + len(self.runs) < self.slots:
            able = [tenant for tenant in waiting if any(queues[tenant])]
            if not able:
                break
            tenant = min(able, key=order)
            priority = _next_priority(queues[tenant], moved[tenant])
            started.append(self._run(tenant, priority, queues[tenant][priority].pop(0)))
            moved[tenant][priority] += STRIDES[priority]
            used[tenant] += LEAST_CHARGE / tenant.weight
            tenant.virtual_time, tenant.charged = used[tenant], 0.0
        for tenant in {run.tenant for run in started}:
            _advance(
                tenant, {run.priority for run in started if run.tenant is tenant}, moved[tenant]
            )
        return started

    def _used(self, tenant: SharingTenant) -> float:
        """Return the virtual time of a tenant, if it starts an execution now."""
        used = tenant.virtual_time + tenant.charged / tenant.weight
        return max(used, self.virtual_time)

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
