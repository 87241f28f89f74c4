"""Glances: the queries of an idle replica, each in one statement and one round trip.

An idle replica checks every few seconds whether there is work. A transaction for each check, with
all its pinned settings, would be most of the load of an idle cluster. So a glance runs without a
transaction (`Database.glance`), and only decides whether to run a step. If it is briefly wrong, it
costs an unnecessary step or a few seconds: the step decides with its own rows and locks.

No settings are pinned for a glance. So its statement qualifies all operators and functions, and
returns times as microseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenantcron.store.connection.engine import Database
from tenantcron.store.steps.claiming import WORK
from tenantcron.store.steps.statements import statement

_MICROSECONDS = 1_000_000


async def seconds_to_next_due(
    database: Database, at: datetime | None, ahead: timedelta = timedelta(0)
) -> float | None:
    """Return the seconds until the next cursor is due, or a task; None if there is none.

    Tasks are fired so long ahead of their times.
    """
    return await _seconds(database, "next_due", {"at": at, "ahead": ahead})


async def seconds_to_next_waiting(
    database: Database, requires: Sequence[str], since: datetime, at: datetime | None
) -> float | None:
    """Return the seconds until a pending execution may start, or may not wait any longer.

    Executions since the last claim count, too: no claim has considered them yet. Only executions
    with one of these requirements count.
    """
    parameters = {"requires": list(requires), "since": since, "at": at}
    return await _seconds(database, "next_waiting", parameters)


async def anything_waits(database: Database, requires: Sequence[str]) -> bool:
    """Whether any execution with one of these requirements is pending."""
    return await _is_so(database, "anything_waits", {"requires": list(requires)})


async def notify_work(database: Database, what: str) -> None:
    """Notify the schedulers that listen for work, outside any transaction."""
    parameters = {"channel": WORK, "what": what}
    await database.glance("SELECT pg_catalog.pg_notify(%(channel)s, %(what)s)::text", parameters)


async def anything_expired(database: Database, at: datetime | None) -> bool:
    """Whether any lease was not renewed in time."""
    return await _is_so(database, "anything_expired", {"at": at})


async def anything_moved(database: Database) -> bool:
    """Whether any tenant has schedules that are not synced yet, or cannot be synced."""
    return await _is_so(database, "anything_moved", {})


async def anything_provided(database: Database, provider: str) -> bool:
    """Whether any cursor belongs to a provider."""
    return await _is_so(database, "anything_provided", {"provider": provider})


@dataclass(frozen=True, slots=True)
class OutboxGlance:
    """The pending work for webhooks and buses."""

    has_events: bool
    has_receivers: bool
    has_due_lanes: bool


async def outbox(database: Database, at: datetime | None) -> OutboxGlance:
    """Check whether events have to be placed or delivered."""
    ((events, receivers, lanes),) = await database.glance(statement("outbox_glance"), {"at": at})
    return OutboxGlance(bool(events), bool(receivers), bool(lanes))


async def _seconds(database: Database, name: str, parameters: dict[str, object]) -> float | None:
    match await database.glance(statement(name), parameters):
        case [(int(microseconds),)]:
            return microseconds / _MICROSECONDS
        case _:
            return None


async def _is_so(database: Database, name: str, parameters: dict[str, object]) -> bool:
    ((is_so,),) = await database.glance(statement(name), parameters)
    return bool(is_so)
