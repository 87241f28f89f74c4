"""The explorer itself: it finds orders that break a program, and detects blocking."""

from math import comb

import pytest
from interleavings.conftest import Theatre
from sqlalchemy import text
from support.footprints import REFERENCES, commute, footprint
from support.interleaving import Program, Ran

from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.errors import ConflictError

_FOREIGN_KEYS = """
SELECT c.conrelid::regclass::text, c.confrelid::regclass::text FROM pg_constraint AS c
JOIN pg_class AS t ON t.oid = c.conrelid
WHERE c.contype = 'f' AND t.relname IN ('manifest_version', 'schedule_cursor', 'tenant_schedule',
    'execution', 'execution_attempt', 'limits', 'tenant', 'schedule_definition', 'worker')
"""


@pytest.fixture
async def counters(theatre: Theatre) -> Theatre:
    """Two counters at 0."""
    await theatre.stage.scheduling.execute(
        "CREATE TABLE tenantcron.counter (id int PRIMARY KEY, n int)"
    )
    await theatre.stage.scheduling.execute("INSERT INTO tenantcron.counter VALUES (1, 0), (2, 0)")
    return theatre


def _add_one(read: str) -> Program:
    """Read a counter, then write the value plus 1."""

    async def program(database: Database) -> None:
        async with database.transaction() as connection:
            value = (await connection.execute(text(read))).scalar_one()
            write = "UPDATE tenantcron.counter SET n = :next WHERE id = 1"
            await connection.execute(text(write), {"next": value + 1})

    return program


def _lock(*ids: int) -> Program:
    async def program(database: Database) -> None:
        async with database.transaction() as connection:
            for row in ids:
                statement = "SELECT n FROM tenantcron.counter WHERE id = :id FOR UPDATE"
                await connection.execute(text(statement), {"id": row})

    return program


async def _ends(counters: Theatre, program: Program) -> tuple[set[object], int]:
    """Return the final values of the counter over all orders, and the number of orders."""
    ends = set[object]()

    async def check(_: Ran) -> None:
        query = "SELECT n FROM tenantcron.counter WHERE id = 1"
        ends.add((await counters.stage.scheduling.query(query))[0]["n"])

    orders = await counters.every_order({"a": program, "b": program}, check)
    return ends, orders


async def test_a_lost_update_is_found(counters: Theatre) -> None:
    ends, _ = await _ends(counters, _add_one("SELECT n FROM tenantcron.counter WHERE id = 1"))
    assert ends == {1, 2}


async def test_a_lock_prevents_it_in_every_order(counters: Theatre) -> None:
    read = "SELECT n FROM tenantcron.counter WHERE id = 1 FOR UPDATE"
    ends, orders = await _ends(counters, _add_one(read))
    assert ends == {2}
    # Either session is first. The other one requests the lock before the write, before the COMMIT
    # or after it.
    assert orders == 2 * 3


async def test_steps_that_do_not_commute_are_run_in_every_order(counters: Theatre) -> None:
    async def program(database: Database) -> None:
        async with database.transaction() as connection:
            for _ in range(2):
                # Writes only: each session has its own row, so nothing blocks.
                mine = "UPDATE tenantcron.counter SET n = n WHERE id = 3"
                await connection.execute(text(mine))

    orders = await counters.every_order({"a": program, "b": program}, _any)
    assert orders == comb(6, 3)


async def test_a_deadlock_is_found_and_ends(counters: Theatre) -> None:
    deadlocked = list[bool]()

    async def check(ran: Ran) -> None:
        deadlocked.append(ran.deadlocked)
        conflicts = [end for end in ran.results.values() if isinstance(end, ConflictError)]
        assert len(conflicts) == ran.deadlocked

    programs = {"a": _lock(1, 2), "b": _lock(2, 1)}
    await counters.every_order(programs, check, may_deadlock=True)
    assert set(deadlocked) == {False, True}


async def _any(_: Ran) -> None:
    """Accept every result."""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("SELECT 1 FROM tenantcron.tenant", "SELECT 1 FROM tenantcron.tenant", True),
        ("SELECT 1 FROM tenantcron.tenant", "UPDATE tenantcron.tenant SET id = id", False),
        ("SELECT 1 FROM tenantcron.tenant FOR SHARE", "SELECT 1 FROM tenantcron.tenant", False),
        ("SELECT 1 FROM tenantcron.tenant", "UPDATE tenantcron.worker SET id = id", True),
        ("DELETE FROM tenantcron.execution_live", "SELECT 1 FROM tenantcron.execution", False),
        ("DELETE FROM tenantcron.schedule_cursor", "UPDATE tenantcron.tenant SET id = id", False),
        ("SELECT 1 FROM tenantcron.audit_record", "UPDATE tenantcron.tenant SET id = id", False),
        ("SELECT pg_advisory_xact_lock(1)", "SELECT pg_advisory_xact_lock(1)", False),
        ("SELECT tenantcron.take_lock('claim')", "SELECT tenantcron.take_lock('claim')", False),
        ("SELECT tenantcron.take_lock('claim')", "INSERT INTO tenantcron.worker", False),
        ("SELECT tenantcron.take_lock('claim')", "SELECT pg_advisory_xact_lock(1)", False),
    ],
)
def test_steps_commute_if_neither_can_see_or_block_the_other(
    first: str, second: str, expected: bool
) -> None:
    assert commute(footprint(first), footprint(second)) is expected
    assert commute(footprint(second), footprint(first)) is expected


async def test_the_references_are_those_of_the_database(theatre: Theatre) -> None:
    found = dict[str, set[str]]()
    for row in await theatre.stage.scheduling.query(_FOREIGN_KEYS):
        table, referenced = (_bare(str(value)) for value in row.values())
        found.setdefault(table, set()).add(referenced)
    assert {table: REFERENCES.get(table, set()) & tables for table, tables in found.items()} == (
        found
    )


def _bare(name: str) -> str:
    return name.rpartition(".")[2]
