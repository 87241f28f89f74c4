"""Housekeeping by any replica: history partitions, unused rows and undelivered events."""

from datetime import datetime

import structlog
from sqlalchemy.exc import OperationalError

from tenantcron.actor.attribution import Attribution
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection import times
from tenantcron.store.rows import (
    audit_records,
    event_buses,
    failovers,
    history_months,
    live_logs,
    outbox,
    schedule_definitions,
    tasks,
    workers,
)
from tenantcron.store.steps import rate_limits, requirements

log = structlog.get_logger(__name__)


async def prepare_history(replica: Replica) -> None:
    """Create the history partitions of the current and the coming months."""
    async with replica.database.transaction() as connection:
        now = await times.moment(connection, replica.clock())
        made = await history_months.prepare(connection, now, replica.settings.retention)
    if made:
        log.info("history_prepared", months=[str(month) for month in made])


async def clean_up(replica: Replica) -> None:
    """Drop history, unused rows and events that are older than their retention."""
    retention = replica.settings.retention
    try:
        async with replica.database.transaction() as connection:
            now = await times.moment(connection, replica.clock())
            dropped = await history_months.drop_old(connection, now, retention)
    except OperationalError as error:  # a lock timeout; the next run tries again
        log.info("history_in_use", error=str(error.orig))
        return
    if dropped:
        log.info("history_dropped", months=[str(month) for month in dropped])
    async with replica.database.transaction() as connection:
        # This reads all definitions and cursors, so only one replica does it.
        if await workers.is_oldest(connection, replica.worker_id):
            await schedule_definitions.forget_unused(connection, now, retention)
        await workers.forget_old(connection)
        await requirements.forget_old(connection)
        await rate_limits.forget_old(connection)
        await failovers.forget_old(connection, now, retention)
        await live_logs.forget_leftovers(connection)
    await forget_tasks(replica, now)
    await _drop_events(replica)
    await _drop_bus_events(replica)
    await _drop_waiting_index(replica)


async def forget_tasks(replica: Replica, now: datetime) -> None:
    """Delete old tasks in batches, each in its own transaction."""
    forgotten = tasks.MOST_FORGOTTEN
    while forgotten == tasks.MOST_FORGOTTEN:
        async with replica.database.transaction() as connection:
            forgotten = await tasks.forget_old(connection, now, replica.settings.retention)


async def _drop_waiting_index(replica: Replica) -> None:
    """Drop the index that only the previous release uses, at the end of a rolling upgrade."""
    try:
        async with replica.database.transaction() as connection:
            is_dropped = await requirements.drop_waiting_index(connection)
    except OperationalError as error:  # a lock timeout; the next run tries again
        log.info("waiting_index_in_use", error=str(error.orig))
        return
    if is_dropped:
        log.info("waiting_index_dropped")


async def _drop_events(replica: Replica) -> None:
    async with replica.database.transaction() as connection:
        kept = replica.settings.outbox_retention
        dropped = await outbox.drop_old(connection, kept, replica.clock())
    for webhook, number in dropped.items():
        log.error("webhook_events_dropped", webhook=webhook, events=number)


async def _drop_bus_events(replica: Replica) -> None:
    kept, at = replica.settings.outbox_retention, replica.clock()
    async with replica.database.transaction() as connection:
        await audit_records.act(connection, Attribution(replica.actor))
        forgotten = await event_buses.forget(connection, kept, at)
        dropped = await event_buses.drop_old(connection, kept, at)
    for bus in forgotten:
        log.warning("event_bus_forgotten", bus=bus)
    for bus, number in dropped.items():
        log.error("event_bus_events_dropped", bus=bus, events=number)
