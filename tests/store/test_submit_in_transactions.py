"""Tasks in the caller's own transaction: psycopg and SQLAlchemy, sync and async."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from support.processes import query

import tenantcron
from tenantcron.tasks import (
    AnyConnection,
    OtherTarget,
    RetryPolicy,
    TaskRequest,
    TasksRejectedError,
    submit_many,
    submit_many_async,
)

Open = Callable[[str], AbstractContextManager[AnyConnection]]


def engine_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


@contextmanager
def with_psycopg(url: str) -> Iterator[psycopg.Connection[object]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        # The session of an application can have any settings.
        connection.execute("SET DateStyle TO 'SQL, DMY'")
        connection.execute("SET TimeZone TO 'Asia/Tokyo'")
        yield connection


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    engine = create_engine(engine_url(url))
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def with_engine(url: str) -> Iterator[AnyConnection]:
    with engine_of(url) as engine, engine.begin() as connection:
        yield connection


@contextmanager
def with_session(url: str) -> Iterator[Session]:
    with engine_of(url) as engine, Session(engine) as session, session.begin():
        yield session


@pytest.fixture
def tenant_url(database_url: str) -> str:
    query(
        database_url,
        "INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at)"
        " VALUES ('acme', 'tenant_acme', now(), now())",
    )
    return database_url


def tasks(url: str) -> list[dict[str, object]]:
    return query(url, "SELECT * FROM tenantcron.task ORDER BY id")


OPENERS = pytest.mark.parametrize("opened", [with_psycopg, with_engine, with_session])


@OPENERS
def test_a_task_exists_if_the_transaction_commits(tenant_url: str, opened: Open) -> None:
    with opened(tenant_url) as connection:
        submitted = tenantcron.submit(
            connection,
            tenant="acme",
            saga="invoice",
            payload={"number": 7},
            delay=timedelta(hours=1),
            priority="high",
            retry=RetryPolicy(5),
            idempotency_key="invoice-7",
        )
        assert tasks(tenant_url) == []

    (row,) = tasks(tenant_url)
    assert (row["id"], row["execute_at"]) == (submitted.id, submitted.execute_at)
    assert (row["payload"], row["priority"]) == ({"number": 7}, 1)
    assert submitted.state == "WAITING"


@OPENERS
def test_a_target_is_enough(tenant_url: str, opened: Open) -> None:
    with opened(tenant_url) as connection:
        target = OtherTarget("celery", {"task": "billing.close"})
        tenantcron.submit(connection, tenant="acme", target=target)

    (row,) = tasks(tenant_url)
    assert (row["saga_name"], row["requires"]) == ("celery", "celery")


@OPENERS
def test_it_does_not_exist_if_the_transaction_fails(tenant_url: str, opened: Open) -> None:
    def fail_after_submitting() -> None:
        with opened(tenant_url) as connection:
            tenantcron.submit(connection, tenant="acme", saga="invoice")
            raise LookupError

    with pytest.raises(LookupError):
        fail_after_submitting()

    assert tasks(tenant_url) == []
    assert query(tenant_url, "SELECT * FROM tenantcron.execution") == []


@OPENERS
def test_a_rejected_batch_has_all_problems(tenant_url: str, opened: Open) -> None:
    requests = [TaskRequest("Bad"), TaskRequest("good"), TaskRequest("x", delay=-timedelta(1))]

    with pytest.raises(TasksRejectedError) as raised, opened(tenant_url) as connection:
        submit_many(connection, "acme", requests)

    codes = [(problem.index, problem.code) for problem in raised.value.problems]
    assert codes == [(0, "invalid_saga"), (2, "invalid_delay")]


async def test_async_connections_submit_as_well(tenant_url: str) -> None:
    engine = create_async_engine(engine_url(tenant_url))
    async with engine.begin() as connection:
        await tenantcron.submit_async(connection, tenant="acme", saga="a")
    async with AsyncSession(engine) as session, session.begin():
        await tenantcron.submit_async(session, tenant="acme", saga="b")
    async with await psycopg.AsyncConnection.connect(tenant_url) as driver:
        await tenantcron.submit_async(driver, tenant="acme", saga="c")
    async with AsyncSession(engine) as session:
        await tenantcron.submit_async(session, tenant="acme", saga="rolled-back")
    with pytest.raises(TasksRejectedError):
        async with engine.begin() as connection:
            await submit_many_async(connection, "initech", [TaskRequest("d")])
    await engine.dispose()

    assert [row["saga_name"] for row in tasks(tenant_url)] == ["a", "b", "c"]
