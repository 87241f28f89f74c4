"""Glances: what a replica without work asks, each in one statement and one round trip.

A replica that is idle looks every few seconds whether there is anything to do. A transaction for
each look, with all the settings that it pins, would be most of what an idle cluster asks of the
database. So a glance runs by itself (`Database.glance`), and decides only whether a step is worth
its transaction. If it is wrong for a moment, it costs a step or a few seconds and nothing else:
the step decides by its own rows and locks.

Nothing is pinned for a glance. So its statement names operators and functions in full, and returns
times as microseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tenantcron.store.connection.engine import Database
from tenantcron.store.steps.claiming import WORK
from tenantcron.store.steps.statements import statement

_MICROSECONDS = 1_000_000


async def seconds_to_next_due(database: Database, at: datetime | None) -> float | None:
    """Return how long it is until a cursor comes due, None if none will."""
    return await _seconds(database, "next_due", {"at": at})


async def seconds_to_next_waiting(
    database: Database, requires: Sequence[str], since: datetime, at: datetime | None
) -> float | None:
    """Return how long it is until something that waits may start, or may not wait any longer.

    What has come since the last claim counts, too: no claim has looked at it yet. Only executions
    with one of these requirements count.
    """
    parameters = {"requires": list(requires), "since": since, "at": at}
    return await _seconds(database, "next_waiting", parameters)


async def anything_waits(database: Database, requires: Sequence[str]) -> bool:
    """Whether any execution with one of these requirements waits, for a slot or for its time."""
    return await _is_so(database, "anything_waits", {"requires": list(requires)})


async def tell_work(database: Database, what: str) -> None:
    """Wake the schedulers that listen for work, outside of any transaction."""
    parameters = {"channel": WORK, "what": what}
    await database.glance("SELECT pg_catalog.pg_notify(%(channel)s, %(what)s)::text", parameters)


async def anything_expired(database: Database, at: datetime | None) -> bool:
    """Whether any lease was not renewed in time."""
    return await _is_so(database, "anything_expired", {"at": at})


async def anything_moved(database: Database) -> bool:
    """Whether any tenant has schedules that the cursors do not follow yet, or cannot."""
    return await _is_so(database, "anything_moved", {})


async def anything_provided(database: Database, provider: str) -> bool:
    """Whether any cursor is of a provider."""
    return await _is_so(database, "anything_provided", {"provider": provider})


@dataclass(frozen=True, slots=True)
class OutboxGlance:
    """What there is to do for webhooks."""

    has_events: bool
    has_webhooks: bool
    has_due_lanes: bool


async def outbox(database: Database, at: datetime | None) -> OutboxGlance:
    """Look whether events wait for their place or for delivery."""
    ((events, webhooks, lanes),) = await database.glance(statement("outbox_glance"), {"at": at})
    return OutboxGlance(bool(events), bool(webhooks), bool(lanes))


async def _seconds(database: Database, name: str, parameters: dict[str, object]) -> float | None:
    match await database.glance(statement(name), parameters):
        case [(int(microseconds),)]:
            return microseconds / _MICROSECONDS
        case _:
            return None


async def _is_so(database: Database, name: str, parameters: dict[str, object]) -> bool:
    ((answer,),) = await database.glance(statement(name), parameters)
    return bool(answer)
