"""Real schedulers that are killed while they publish to a real NATS server."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from support.fleet import Shell
from support.nats_server import NatsServer, Stored, stored
from support.processes import Fleet, query, until

TENANTS = ("acme", "beta", "gamma")
EVENTS = 300
WRITE = """
INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)
SELECT t, 'dev.tenantcron.tenant.changed', g.n::text, now(), '{}'
FROM generate_series(1, %s) AS g (n), unnest(%s::text[]) AS t
ORDER BY g.n
"""

LEASED = "SELECT 1 FROM tenantcron.event_bus WHERE lease_token IS NOT NULL"
_HOLD = """
CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(4222); RETURN NULL; END $$;
CREATE TRIGGER hold BEFORE DELETE ON tenantcron.bus_event EXECUTE FUNCTION public.hold()
"""
_WAITING = """
SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
"""


@contextmanager
def progress_not_recorded(url: str) -> Iterator[None]:
    """Let publishers send their events, and wait when they record that.

    Otherwise a lease can come and go between two looks of a test on a busy machine.
    """
    query(url, _HOLD)
    with psycopg.connect(url, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(4222)")
        yield
        # PostgreSQL notices a killed client when its statement has ended.
        query(url, _WAITING)
    query(url, "DROP FUNCTION public.hold CASCADE")


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, nats: NatsServer) -> Iterator[Fleet]:
    url = f"{nats.url}/FLEET?prefix=fleet"
    fleet = Fleet(Shell(tmp_path, database_url), database_url, TENANTCRON_EVENT_BUS=url)
    try:
        yield fleet
    finally:
        fleet.close()


def test_events_are_in_the_stream_once_and_in_order_while_schedulers_are_killed(
    fleet: Fleet, nats: NatsServer
) -> None:
    first = fleet.start()
    until(lambda: bool(query(fleet.url, "SELECT 1 FROM tenantcron.event_bus")))
    with progress_not_recorded(fleet.url):
        query(fleet.url, WRITE, EVENTS, list(TENANTS))
        until(lambda: bool(query(fleet.url, LEASED)))
        fleet.kill(first)
    assert query(fleet.url, LEASED)
    # Expire its lease at once, instead of waiting for it.
    query(fleet.url, "UPDATE tenantcron.event_bus SET due_at = now()")
    fleet.start()
    pending = "SELECT 1 FROM tenantcron.outbox UNION ALL SELECT 1 FROM tenantcron.bus_event LIMIT 1"
    until(lambda: not query(fleet.url, pending))

    messages: list[Stored] = asyncio.run(stored(nats, "FLEET"))
    assert len({message.id for message in messages}) == len(messages) == EVENTS * len(TENANTS)
    for tenant in TENANTS:
        own = [message for message in messages if message.event["tenant"] == tenant]
        assert [message.event["subject"] for message in own] == [
            str(number) for number in range(1, EVENTS + 1)
        ]


def test_run_once_publishes_its_events(fleet: Fleet, nats: NatsServer) -> None:
    variables = fleet.variables | {"TENANTCRON_LOG_LEVEL": "error"}
    assert fleet.shell("run", "--once", **variables).code == 0
    query(fleet.url, WRITE, 1, ["once"])
    done = fleet.shell("run", "--once", **variables)
    assert done.code == 0, done
    messages = asyncio.run(stored(nats, "FLEET"))
    assert [message.subject for message in messages if "once" in message.subject] == [
        "fleet.once.tenant.changed"
    ]
