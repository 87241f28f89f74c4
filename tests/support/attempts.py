"""A claimed execution, the settings of its schedule, and a manual clock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from tenantcron.actor.model import Actor, scheduler_actor
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject
from tenantcron.schedules.settings import CatchUp, Overlap, Priority, RetryPolicy, ScheduleSettings
from tenantcron.store.steps.claiming import Claimed

SCHEDULED_FOR = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)
STARTED_AT = datetime(2026, 11, 16, 2, 0, 3, tzinfo=UTC)
SCHEDULER = scheduler_actor("billing")

SETTINGS = ScheduleSettings(
    description="",
    enabled=True,
    spread=timedelta(0),
    overlap=Overlap.SKIP,
    catch_up=CatchUp.ONCE,
    catch_up_window=timedelta(hours=1),
    start_within=timedelta(0),
    timeout=timedelta(minutes=5),
    retry=RetryPolicy(3, timedelta(seconds=1), timedelta(seconds=60)),
    auto_pause_after=10,
    priority=Priority.MEDIUM,
    payload={},
)


def with_payload(payload: JsonObject) -> ScheduleSettings:
    """Return the settings with a payload."""
    return SETTINGS._replace(payload=payload)


def claimed(
    saga: str = "reconcile",
    *,
    tenant: str = "acme",
    attempt: int = 1,
    attempts_allowed: int = 3,
    losses: int = 0,
    suspicion: int = 0,
    execution_id: UUID | None = None,
    actor: Actor = SCHEDULER,
) -> Claimed:
    """Return an execution as a replica claims it."""
    return Claimed(
        id=execution_id or uuid4(),
        scheduled_for=SCHEDULED_FOR,
        tenant_id=TenantId(tenant),
        schema_name=f"tenant_{tenant}",
        schedule_id=UUID(int=2),
        schedule_name="nightly",
        saga_name=saga,
        definition_id=UUID(int=3),
        attempt=attempt,
        attempts_allowed=attempts_allowed,
        losses=losses,
        suspicion=suspicion,
        lease_token=uuid4(),
        started_at=STARTED_AT,
        actor=actor,
    )


@dataclass(eq=False)
class HandTimer:
    """A timer that fires when the test says so."""

    seconds: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        """Cancel it."""
        self.cancelled = True

    def go_off(self) -> None:
        """Run the callback; a cancelled timer must not fire."""
        assert not self.cancelled, "the timer was cancelled"
        self.callback()


@dataclass(eq=False)
class HandClock:
    """A replacement for `loop.call_later` that collects timers."""

    timers: list[HandTimer] = field(default_factory=list)

    def __call__(self, seconds: float, callback: Callable[[], None]) -> HandTimer:
        """Add a timer."""
        timer = HandTimer(seconds, callback)
        self.timers.append(timer)
        return timer

    @property
    def pending(self) -> list[HandTimer]:
        """The timers that are not cancelled."""
        return [timer for timer in self.timers if not timer.cancelled]
