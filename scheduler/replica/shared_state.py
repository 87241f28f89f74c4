"""The state that the steps of one replica share."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import uuid4

from tenantcron.actor.model import Actor, scheduler_actor
from tenantcron.core.clock import Clock, database_clock
from tenantcron.core.names import TenantId
from tenantcron.core.quotas import DeclaredQuotas
from tenantcron.core.rates import Rate
from tenantcron.core.settings import Settings
from tenantcron.events.delivery import EventDelivery
from tenantcron.scheduler.metrics.counts import Counts
from tenantcron.scheduler.replica.progress import Progress
from tenantcron.scheduler.steps.definitions import Definitions
from tenantcron.scheduler.steps.idempotency_retention import Retention
from tenantcron.scheduler.steps.recent_attempts import RecentAttempts
from tenantcron.scheduler.steps.slot_shortage import Demand, SlotShortage
from tenantcron.store.connection.engine import Database
from tenantcron.targets.capabilities import ANYTHING, Capabilities
from tenantcron.targets.tracing import Tracing


def new_worker_id() -> str:
    """Return a unique name for a replica, with its host and process id."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class Replica:
    """One scheduler process: its database, its name, its clock and its random generator."""

    database: Database
    settings: Settings
    worker_id: str = field(default_factory=new_worker_id)
    capabilities: Capabilities = ANYTHING
    definitions: Definitions = field(default_factory=Definitions)
    clock: Clock = database_clock
    random: Random = field(default_factory=Random)
    retention: Retention = field(default_factory=Retention)
    counts: Counts = field(default_factory=Counts)
    # None: spans are not exported.
    tracing: Tracing | None = None
    progress: Progress = field(default_factory=Progress)
    recent: RecentAttempts = field(default_factory=RecentAttempts)
    slot_shortage: SlotShortage = field(default_factory=SlotShortage)
    # How often hosts may be called, as the policy says; `definitions` knows the hosts.
    rate_limits: Mapping[str, Rate] = field(default_factory=dict)
    # The quotas of the policy, which the replica declares when it starts; None: it has no policy.
    quotas: DeclaredQuotas | None = None
    # The weights of the policy by tenant, declared as the quotas are.
    weights: Mapping[TenantId, int] | None = None
    # Kinds of targets that the policy allows, declared as the quotas are.
    target_kinds: Sequence[str] | None = None
    demand: Demand = field(default_factory=Demand)

    @property
    def actor(self) -> Actor:
        """The actor of everything that the scheduler does."""
        return scheduler_actor(self.settings.service)

    @property
    def event_delivery(self) -> EventDelivery:
        """The parts that deliver events."""
        return EventDelivery(self.database, self.actor, self.clock, self.random, self.counts.events)
