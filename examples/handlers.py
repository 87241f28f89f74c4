"""Handlers for the sagas of the example manifests. Each is short and shows one feature.

Load them with `--handlers handlers` in this folder. None of them needs a table.
"""

import asyncio
import random
import time
from datetime import timedelta

import structlog
from sqlalchemy import text

from tenantcron import Execution, Fail, Retry, saga

log = structlog.get_logger()


@saga("reconcile")
async def reconcile(execution: Execution) -> None:
    """Read the actor from the database: it is set inside `connection()`, also for triggers."""
    async with execution.connection() as connection:
        who = await connection.scalar(text("select current_setting('tenantcron.actor')"))
        schema = await connection.scalar(text("select current_schema()"))
    log.info("reconciled", schema=schema, on_behalf_of=who)


@saga("rollup")
def rollup(execution: Execution) -> None:
    """A synchronous handler: it runs in a thread, takes a few seconds, and can be cancelled."""
    for _ in range(6):
        execution.raise_if_cancelled()
        time.sleep(0.5)
    log.info("rolled_up", hour=execution.scheduled_for.hour)


@saga("poll_prices")
async def poll_prices(execution: Execution) -> None:
    """The exchange is flaky: the first attempt always fails, the second one succeeds."""
    if execution.attempt == 1:
        raise ConnectionError("the exchange closed the connection")
    log.info("prices_polled", attempt=execution.attempt)


@saga("refresh_forecast")
async def refresh_forecast(execution: Execution) -> None:
    """A handler can override the backoff: retry in five seconds."""
    if execution.attempt < 3:
        raise Retry("the weather model is still running", after=timedelta(seconds=5))
    log.info("forecast_refreshed", attempts=execution.attempt)


@saga("retire_legacy_tariff")
async def retire_legacy_tariff(execution: Execution) -> None:
    """A permanent failure: there is no second attempt."""
    raise Fail(f"{execution.tenant_id} has no tariff of that name")


@saga("import_meter_readings")
async def import_meter_readings(execution: Execution) -> None:
    """The duration is random, but the same for every attempt of an execution."""
    meters = random.Random(execution.id.int).randint(50, 500)  # noqa: S311 -- only a demo
    await asyncio.sleep(meters / 250)
    log.info("readings_imported", meters=meters, until=execution.deadline.isoformat())


@saga("collect_readings")
async def collect_readings(execution: Execution) -> None:
    """Log events include tenant, schedule, saga, execution and attempt automatically."""
    log.info("readings_collected", planned_for=execution.scheduled_for.isoformat())


@saga("sync_customers")
async def sync_customers(execution: Execution) -> None:
    """The id is the same for every attempt: use it as the idempotency key."""
    log.info("customers_synced", idempotency_key=str(execution.id))


@saga("hand_over_dispatch")
async def hand_over_dispatch(execution: Execution) -> None:
    """The notes come from the manifest's payload, with placeholders filled in."""
    log.info("dispatch_handed_over", notes=execution.payload.get("notes", "all quiet"))


@saga("balance_reservoirs")
async def balance_reservoirs(execution: Execution) -> None:
    """Fails at night: at 2 and 3 o'clock the sensor does not respond."""
    if execution.scheduled_for.hour in (2, 3):
        raise Fail("the sensor of reservoir 4 does not respond")
    await asyncio.sleep(0.2)
    log.info("reservoirs_balanced")


@saga("publish_levels")
@saga("settle_imbalance")
@saga("close_month")
@saga("pay_suppliers")
@saga("board_report")
@saga("archive_readings")
@saga("validate_readings")
@saga("publish_tariffs")
@saga("bill_households")
@saga("close_ledger")
@saga("reconcile_accounts")
@saga("send_reminders")
@saga("refresh_tariffs")
@saga("issue_invoices")
@saga("inspect_turbines")
@saga("backfill_weather")
async def pretend(execution: Execution) -> None:
    """One handler may run several sagas; `saga_name` has the current one."""
    await asyncio.sleep(0.1)
    log.info("pretended", work=execution.saga_name.replace("_", " "))
