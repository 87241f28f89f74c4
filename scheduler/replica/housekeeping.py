"""Housekeeping, by any replica: months of history, what nothing names, events nobody took."""

import structlog
from sqlalchemy.exc import OperationalError

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection import times
from tenantcron.store.rows import failovers, history, outbox, schedule_definitions, workers
from tenantcron.store.steps import requirements

log = structlog.get_logger(__name__)


async def prepare_history(replica: Replica) -> None:
    """Make sure that executions of now and of the time to come have a partition to go to."""
    async with replica.database.transaction() as connection:
        now = await times.moment(connection, replica.clock())
        made = await history.prepare(connection, now, replica.settings.retention)
    if made:
        log.info("history_prepared", months=[str(month) for month in made])


async def clean_up(replica: Replica) -> None:
    """Drop what has passed out of the retention."""
    retention = replica.settings.retention
    try:
        async with replica.database.transaction() as connection:
            now = await times.moment(connection, replica.clock())
            dropped = await history.drop_old(connection, now, retention)
    except OperationalError as error:  # in use for longer than we wait; next time, then
        log.info("history_in_use", error=str(error.orig))
        return
    if dropped:
        log.info("history_dropped", months=[str(month) for month in dropped])
    async with replica.database.transaction() as connection:
        # It reads all definitions and cursors, and once for all replicas is often enough.
        if await workers.is_oldest(connection, replica.worker_id):
            await schedule_definitions.forget_unused(connection, now, retention)
        await workers.forget_old(connection)
        await requirements.forget_old(connection)
        await failovers.forget_old(connection, now, retention)
    await _drop_events(replica)
    await _drop_waiting_index(replica)


async def _drop_waiting_index(replica: Replica) -> None:
    """End a rolling upgrade: the index of the release before costs, and is not used any more."""
    try:
        async with replica.database.transaction() as connection:
            is_dropped = await requirements.drop_waiting_index(connection)
    except OperationalError as error:  # in use for longer than we wait; next time, then
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
