"""Attribution in user tables: the mixin and the settings for triggers, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import URL, Connection, Engine, event, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tenantcron.actor.context import acting_as, acting_for_user, correlation
from tenantcron.actor.model import Actor, ActorType, AuthenticatedActor, scheduler_actor
from tenantcron.actor.tables import Attributed, set_actor, set_actor_async
from tenantcron.actor.witness import WITNESS

SCHEMA = Path(__file__).resolve().parents[2] / "examples" / "audit" / "schema.sql"
HISTORY = "audit_example_history.invoice"
ADA = Actor("ada", ActorType.HUMAN, "test")
GRACE = Actor("grace", ActorType.HUMAN, "test")
FIRST, SECOND = UUID(int=1), UUID(int=2)

SETTINGS = text(
    "select current_setting('tenantcron.actor', true), "
    "current_setting('tenantcron.correlation_id', true)"
)


class Base(DeclarativeBase):
    """The tables of these tests."""


class Meter(Attributed, Base):
    """A user table."""

    __tablename__ = "meter"

    id: Mapped[int] = mapped_column(primary_key=True)
    reading: Mapped[int]


@pytest.fixture
def meters(engine: Engine) -> Engine:
    """An engine whose database has the table, with one row by ada."""
    Base.metadata.create_all(engine)
    with by_ada(), engine.begin() as connection:
        connection.execute(insert(Meter).values(id=1, reading=10))
    return engine


@contextmanager
def by_ada() -> Iterator[None]:
    with acting_as(ADA), correlation(FIRST):
        yield


@contextmanager
def by_grace() -> Iterator[None]:
    with acting_as(GRACE), correlation(SECOND):
        yield


def attributed(engine: Engine) -> list[tuple[int, str, UUID | None]]:
    """Return the last actor of each row."""
    with engine.connect() as connection:
        columns = select(Meter.id, Meter.changed_by, Meter.correlation_id).order_by(Meter.id)
        rows = connection.execute(columns)
        return [(row.id, row.changed_by, row.correlation_id) for row in rows]


def flush_of_a_changed_object(session: Session) -> None:
    session.get_one(Meter, 1).reading = 11


def orm_update(session: Session) -> None:
    session.execute(update(Meter).where(Meter.id == 1).values(reading=11))


def orm_update_by_primary_key(session: Session) -> None:
    session.execute(update(Meter), [{"id": 1, "reading": 11}])


def core_update(session: Session) -> None:
    session.execute(update(Meter.__table__).values(reading=11))  # type: ignore[arg-type] # it is a table


def upsert_that_takes_over_the_columns(session: Session) -> None:
    statement = upsert(Meter).values(id=1, reading=11)
    new = statement.excluded
    taken = {"reading": new.reading, "changed_by": new.changed_by}
    session.execute(
        statement.on_conflict_do_update(
            index_elements=[Meter.id], set_={**taken, "correlation_id": new.correlation_id}
        )
    )


UPDATES = [
    flush_of_a_changed_object,
    orm_update,
    orm_update_by_primary_key,
    core_update,
    upsert_that_takes_over_the_columns,
]


@pytest.mark.parametrize("change", UPDATES)
def test_an_update_records_the_last_actor(
    meters: Engine, change: Callable[[Session], None]
) -> None:
    with by_grace(), Session(meters) as session, session.begin():
        change(session)
    assert attributed(meters) == [(1, "grace", SECOND)]


@pytest.mark.parametrize("change", UPDATES)
def test_an_update_without_an_actor_clears_the_previous_one(
    meters: Engine, change: Callable[[Session], None]
) -> None:
    with Session(meters) as session, session.begin():
        change(session)
    assert attributed(meters) == [(1, "system", None)]


def flush_of_new_objects(session: Session) -> None:
    session.add_all([Meter(id=2, reading=1), Meter(id=3, reading=1)])


def insert_of_many(session: Session) -> None:
    session.execute(insert(Meter), [{"id": 2, "reading": 1}, {"id": 3, "reading": 1}])


def insert_of_many_values(session: Session) -> None:
    session.execute(insert(Meter).values([{"id": 2, "reading": 1}, {"id": 3, "reading": 1}]))


def insert_from_a_select(session: Session) -> None:
    for number in (2, 3):
        row = select(number + 0 * Meter.id, Meter.reading).where(Meter.id == 1)
        session.execute(insert(Meter).from_select(["id", "reading"], row))


@pytest.mark.parametrize(
    "add",
    [flush_of_new_objects, insert_of_many, insert_of_many_values, insert_from_a_select],
)
def test_every_inserted_row_has_its_actor(meters: Engine, add: Callable[[Session], None]) -> None:
    with acting_for_user("u-1"), correlation(SECOND), Session(meters) as session, session.begin():
        add(session)
    assert attributed(meters) == [(1, "ada", FIRST), (2, "u-1", SECOND), (3, "u-1", SECOND)]


def test_a_flush_is_attributed_to_the_actor_at_that_time(meters: Engine) -> None:
    with Session(meters) as session:
        with by_ada():
            session.get_one(Meter, 1).reading = 11
        with by_grace():
            session.commit()
    assert attributed(meters) == [(1, "grace", SECOND)]


def test_a_flush_without_a_change_keeps_the_attribution(meters: Engine) -> None:
    with by_grace(), Session(meters) as session:
        session.get_one(Meter, 1).reading = 10
        session.commit()
    assert attributed(meters) == [(1, "ada", FIRST)]


def test_the_columns_come_after_those_of_the_table() -> None:
    assert [column.name for column in Meter.__table__.columns] == [
        "id",
        "reading",
        "changed_by",
        "correlation_id",
    ]


@asynccontextmanager
async def async_session(url: URL) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(url, pool_size=4)
    try:
        async with AsyncSession(engine) as session:
            yield session
    finally:
        await engine.dispose()


def test_concurrent_async_executions_are_attributed_separately(meters: Engine, url: URL) -> None:
    async def run() -> None:
        engine = create_async_engine(url, pool_size=4, max_overflow=0)
        async with asyncio.TaskGroup() as group:
            for number in range(2, 42):
                group.create_task(execute(number, AsyncSession(engine)))
        await engine.dispose()

    async def execute(number: int, session: AsyncSession) -> None:
        with acting_as(scheduler_actor(f"s{number}")), correlation(UUID(int=number)):
            async with session, session.begin():
                session.add(Meter(id=number, reading=1))

    asyncio.run(run())
    assert attributed(meters)[1:] == [
        (number, f"system:scheduler:s{number}", UUID(int=number)) for number in range(2, 42)
    ]


@pytest.fixture
def invoices(engine: Engine) -> Engine:
    """An engine whose database has the tables and the trigger of the example."""
    with engine.begin() as connection:
        connection.exec_driver_sql(SCHEMA.read_text(encoding="utf-8"))
    return engine


def add_invoice(connection: Connection) -> None:
    connection.execute(text("insert into invoice (customer, amount) values ('Acme', 1)"))


def history(engine: Engine) -> list[tuple[str, str, UUID | None]]:
    columns = f"select operation, changed_by, correlation_id from {HISTORY} order by id"  # noqa: S608 -- the example's table
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(columns))]


def test_a_trigger_records_the_actor_of_plain_sql(invoices: Engine) -> None:
    with by_ada(), invoices.begin() as connection:
        set_actor(connection)
        add_invoice(connection)
        connection.execute(text("update invoice set amount = 2"))
        connection.execute(text("delete from invoice"))
    assert history(invoices) == [
        ("insert", "ada", FIRST),
        ("update", "ada", FIRST),
        ("delete", "ada", FIRST),
    ]


def test_a_trigger_records_the_row_before_and_after(invoices: Engine) -> None:
    with invoices.begin() as connection:
        add_invoice(connection)
        connection.execute(text("update invoice set amount = 2"))
        connection.execute(text("delete from invoice"))
        amounts = f"select before -> 'amount', after -> 'amount' from {HISTORY} order by id"  # noqa: S608 -- the example's table
        assert [tuple(row) for row in connection.execute(text(amounts))] == [
            (None, 1),
            (1, 2),
            (2, None),
        ]


def test_a_trigger_writes_to_its_schema_whatever_the_search_path(
    invoices: Engine,
) -> None:
    with by_ada(), invoices.begin() as connection:
        schema = connection.scalar(text("select current_schema()"))
        set_actor(connection)
        connection.execute(text("set local search_path = pg_catalog"))
        connection.execute(
            text(f"insert into {schema}.invoice (customer, amount) values ('Acme', 1)")  # noqa: S608 -- the test's own schema
        )
    assert history(invoices) == [("insert", "ada", FIRST)]


def commit(connection: Connection) -> None:
    connection.commit()


def roll_back(connection: Connection) -> None:
    connection.rollback()


@pytest.mark.parametrize("end", [commit, roll_back])
def test_the_actor_does_not_leak_to_the_next_transaction(
    invoices: Engine, end: Callable[[Connection], None]
) -> None:
    with by_ada(), invoices.connect() as connection:
        set_actor(connection)
        before = connection.scalar(text("select pg_backend_pid()"))
        assert tuple(connection.execute(SETTINGS).one()) == ("ada", str(FIRST))
        end(connection)
    with invoices.begin() as connection:
        assert connection.scalar(text("select pg_backend_pid()")) == before
        assert [value or None for value in connection.execute(SETTINGS).one()] == [None, None]
        add_invoice(connection)
    assert history(invoices) == [("insert", "postgres", None)]


def test_without_an_actor_the_database_role_is_recorded(invoices: Engine) -> None:
    with by_ada(), invoices.begin() as connection:
        add_invoice(connection)
    assert history(invoices) == [("insert", "postgres", None)]


def test_a_second_actor_replaces_all_values_of_the_first(engine: Engine) -> None:
    authenticated_actor = AuthenticatedActor("ada", ActorType.HUMAN, "token", WITNESS)
    authenticated = text("select current_setting('tenantcron.authenticated')")
    with engine.begin() as connection:
        with acting_as(authenticated_actor), correlation(FIRST):
            set_actor(connection)
            assert connection.scalar(authenticated) == "true"
        with acting_as(GRACE):
            set_actor(connection)
        assert tuple(connection.execute(SETTINGS).one()) == ("grace", "")
        assert connection.scalar(authenticated) == "false"


def test_ids_are_values_not_sql(engine: Engine) -> None:
    odd = Actor("o'hara\"; drop table invoice; -- %s :x \\", ActorType.HUMAN, "test")
    with acting_as(odd), engine.begin() as connection:
        set_actor(connection)
        assert connection.execute(SETTINGS).one()[0] == odd.id


def test_set_actor_accepts_a_session(invoices: Engine) -> None:
    with by_ada(), Session(invoices) as session:
        set_actor(session)
        add_invoice(session.connection())
        session.commit()
    assert history(invoices) == [("insert", "ada", FIRST)]


def test_an_event_can_set_the_actor_of_every_transaction(invoices: Engine) -> None:
    event.listen(invoices, "begin", set_actor)
    for context in (by_ada, by_grace):
        with context(), invoices.begin() as connection:
            add_invoice(connection)
    assert history(invoices) == [("insert", "ada", FIRST), ("insert", "grace", SECOND)]


async def set_on_connection(session: AsyncSession) -> None:
    connection: AsyncConnection = await session.connection()
    await set_actor_async(connection)


async def set_by_event(session: AsyncSession) -> None:
    event.listen((await session.connection()).sync_engine, "begin", set_actor)
    await session.rollback()


@pytest.mark.parametrize("set_on", [set_actor_async, set_on_connection, set_by_event])
def test_set_actor_async_accepts_connections_and_sessions(
    invoices: Engine, url: URL, set_on: Callable[[AsyncSession], Awaitable[None]]
) -> None:
    async def run() -> None:
        with by_ada():
            async with async_session(url) as session:
                await set_on(session)
                await (await session.connection()).run_sync(add_invoice)
                await session.commit()

    asyncio.run(run())
    assert history(invoices) == [("insert", "ada", FIRST)]
