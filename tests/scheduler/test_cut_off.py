"""A replica that cannot reach the database stops its attempts before their leases expire."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta

from structlog.testing import capture_logs
from support.attempts import SETTINGS, HandClock, claimed
from support.handlers import NoDatabase, handler
from support.patience import PATIENCE
from support.replicas import Works, due, made
from support.scheduling import Scheduling

from tenantcron.scheduler.metrics.counts import Counts
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.leases import LeaseWatch
from tenantcron.targets.execution import Execution
from tenantcron.targets.python.registry import Handlers

LEASE = timedelta(seconds=60)


@dataclass
class Silence:
    """The seconds since the last successful heartbeat."""

    seconds: float

    def __call__(self) -> float:
        return self.seconds


class Hanging:
    """A handler that never ends."""

    def __init__(self) -> None:
        self.started = asyncio.Event()

    async def run(self, _: Execution) -> None:
        self.started.set()
        await asyncio.Event().wait()


async def test_without_a_heartbeat_for_nearly_a_lease_running_attempts_are_lost() -> None:
    hanging, clock, silence = Hanging(), HandClock(), Silence(2.0)
    executor = Executor(Handlers.of([handler(hanging.run)]), lambda _: NoDatabase())
    counts = Counts()
    running = asyncio.create_task(executor.run(claimed(), SETTINGS))
    await hanging.started.wait()
    LeaseWatch(executor, LEASE, silence, clock, counts).start()

    (alarm,) = clock.pending
    assert alarm.seconds == 52.0, "before the lease ends, counted from when the heartbeat was sent"
    silence.seconds = 54.0
    with capture_logs() as logs:
        alarm.go_off()

    assert (await running).outcome is AttemptOutcome.LOST
    assert [(line["event"], line["running"]) for line in logs] == [("cut_off", 1)]
    assert counts.leases_lost == 1


async def test_a_late_timer_does_not_stop_attempts_with_a_renewed_lease() -> None:
    """As after a block of the loop, during which the thread continued to send heartbeats."""
    hanging, clock, silence = Hanging(), HandClock(), Silence(0.0)
    executor = Executor(Handlers.of([handler(hanging.run)]), lambda _: NoDatabase())
    running = asyncio.create_task(executor.run(claimed(), SETTINGS))
    await hanging.started.wait()
    watch = LeaseWatch(executor, LEASE, silence, clock, Counts())
    watch.start()

    (alarm,) = clock.pending
    silence.seconds = 15.0
    alarm.go_off()

    assert (executor.load, clock.timers[-1].seconds) == (1, 39.0)
    watch.end()
    assert clock.timers[-1].cancelled
    executor.interrupt_all()
    await running


async def test_attempts_claimed_after_a_cut_off_are_watched() -> None:
    executor, clock = Executor(Handlers.of([]), lambda _: NoDatabase()), HandClock()
    LeaseWatch(executor, LEASE, Silence(60.0), clock, Counts()).start()

    with capture_logs() as logs:
        clock.timers[-1].go_off()

    assert [timer.seconds for timer in clock.timers] == [54.0, 54.0]
    assert logs == [], "nothing ran, so nothing is worth a line"


async def test_a_replica_whose_heartbeats_hang_stops_its_handlers(
    real: Scheduling,
) -> None:
    works, stopped = Works(), asyncio.Event()
    slow = works.slow

    async def until_stopped(execution: Execution) -> None:
        try:
            await slow(execution)
        except asyncio.CancelledError:
            stopped.set()
            raise

    works.slow = until_stopped  # type: ignore[method-assign] # it reports when it is stopped
    await due(real, "slow", start_within="1m")
    settings = replace(real.settings, lease=timedelta(seconds=3))
    async with made(real, works, settings) as run:
        running = asyncio.create_task(run.run())
        async with asyncio.timeout(PATIENCE):
            await works.called.wait()
            async with real.database.transaction() as connection:
                # The heartbeat waits for this lock, as on a network that drops all packets.
                await connection.exec_driver_sql("LOCK TABLE tenantcron.worker IN EXCLUSIVE MODE")
                await stopped.wait()
            run.stop()
            works.go.set()
            await running

    attempts = await real.rows("execution_attempt", "attempt")
    assert [attempt["outcome"] for attempt in attempts][:1] == ["LOST"]
