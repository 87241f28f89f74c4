"""Two tenants with tables of the platform, and handlers that run SQL as one of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection
from support.attempts import claimed
from support.tenants import add_current

from tenantcron.core.names import TenantId
from tenantcron.scheduler.steps.handler_connections import HandlerConnections
from tenantcron.scheduler.steps.handler_logins import HandlerLogins
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.handler_transactions import HandlerTransactions
from tenantcron.store.connection.scripts import for_schema, run_script
from tenantcron.store.schema.handler_roles import Login
from tenantcron.store.steps.claiming import Claimed

Row = tuple[object, ...]
TENANTS = ("acme", "night-owl")
# As a platform writes them: its trigger asks who acts.
TABLES = """
CREATE TABLE {schema}.ledger (id serial PRIMARY KEY, note text);
CREATE TABLE {schema}.history (
    note text, changed_by text, actor_type text, actor_source text, authenticated boolean,
    correlation_id uuid
);
CREATE VIEW {schema}.schedules AS SELECT * FROM {schema}.tenant_schedule;
CREATE FUNCTION {schema}.remember() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {schema}.history
    SELECT new.note, who.changed_by, who.actor_type, who.actor_source, who.authenticated,
        who.correlation_id
    FROM tenantcron.acting() AS who;
    RETURN NULL;
END $$;
CREATE TRIGGER remembered AFTER INSERT ON {schema}.ledger
    FOR EACH ROW EXECUTE FUNCTION {schema}.remember();
INSERT INTO {schema}.ledger (note) VALUES ('secret');
"""


@dataclass(frozen=True, slots=True)
class HandlerSessions:
    """A database with two tenants, and the connections of their handlers."""

    database: Database
    transactions: HandlerTransactions

    def of(self, of: Claimed | str) -> AbstractAsyncContextManager[AsyncConnection]:
        """One transaction of a handler."""
        execution = claimed(tenant=of) if isinstance(of, str) else of
        return HandlerConnections(self.transactions)(execution).begin()

    async def run(self, of: Claimed | str, *statements: str) -> list[Row]:
        """Run statements in one transaction of a handler; return what the last one finds."""
        async with self.of(of) as connection:
            return await connection.run_sync(_run, statements)

    async def run_plain(self, of: Claimed | str, *statements: str) -> list[Row]:
        """Do so in a thread, as a plain handler."""
        execution = claimed(tenant=of) if isinstance(of, str) else of
        begin = HandlerConnections(self.transactions)(execution).begin_plain

        def work() -> list[Row]:
            with begin() as connection:
                return _run(connection, statements)

        return await asyncio.to_thread(work)

    async def login(self, tenant: str) -> Login:
        """Return how a tenant's handlers log in; the role is there then."""
        assert self.transactions.logins is not None
        return await self.transactions.logins.get(TenantId(tenant))

    async def role(self, tenant: str | None) -> str:
        """Return the name of a tenant's role."""
        [[name]] = await self.admin("SELECT tenantcron.handler_role(:tenant)", tenant=tenant)
        return str(name)

    async def admin(self, statement: str, **values: object) -> list[Row]:
        """Run a statement as the owner of everything."""
        async with self.database.transaction() as connection:
            found = await connection.execute(text(statement), values)
            return [tuple(row) for row in found] if found.returns_rows else []


def _run(connection: Connection, statements: tuple[str, ...]) -> list[Row]:
    found = [connection.exec_driver_sql(statement) for statement in statements]
    return [tuple(row) for row in found[-1]] if found[-1].returns_rows else []


@asynccontextmanager
async def handler_sessions(database: Database, size: int = 20) -> AsyncIterator[HandlerSessions]:
    """Add the tenants and their tables; close the connections at the end."""
    async with database.transaction() as connection:
        for tenant in TENANTS:
            schema = await add_current(connection, tenant)
            await connection.run_sync(run_script, for_schema(TABLES, schema))
    transactions = HandlerTransactions(database.target, HandlerLogins(database), size)
    try:
        yield HandlerSessions(database, transactions)
    finally:
        await transactions.close()
