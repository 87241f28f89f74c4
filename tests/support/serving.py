"""A real API on loopback for tests: a server, tokens, and a client for each caller."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from sqlalchemy import text
from support.fleet import manifest
from support.patience import PATIENCE

from tenantcron.actor.api_tokens import make_token
from tenantcron.actor.attribution import Attribution
from tenantcron.actor.grants import Grant, Role
from tenantcron.actor.model import Actor, ActorType
from tenantcron.api.connections import ConnectionLimits
from tenantcron.api.serving import Address, open_service, server_config
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.service.work import Service
from tenantcron.store.connection.engine import Database
from tenantcron.store.connection.times import database_time
from tenantcron.store.rows import api_tokens, audit_records, history_months
from tenantcron.tenants.registry import Registry
from tenantcron.web.app import create_app

ADA = Attribution(Actor("ada", ActorType.HUMAN, "cli"))

YAML = {"Content-Type": "application/yaml"}
Json = dict[str, Any]


@asynccontextmanager
async def served(service: Service, bounds: ConnectionLimits | None = None) -> AsyncIterator[str]:
    """Serve on a free port; yield the URL."""
    address = Address("127.0.0.1", 0)
    config = server_config(create_app(service), service, address, bounds)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined] # signals are for the test runner
    task = asyncio.create_task(server.serve())
    with service.checking:
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await task


async def minute(database: Database) -> datetime:
    """Return the minute in which the database counts requests."""
    async with database.transaction() as connection:
        return (await database_time(connection)).replace(second=0, microsecond=0)


async def new_token(
    database: Database,
    role: str,
    tenant: str | None = None,
    *,
    name: str | None = None,
    lives: timedelta = timedelta(days=1),
) -> str:
    """Create a token as the command does."""
    new = make_token()
    async with database.transaction() as connection:
        await audit_records.act(connection, ADA)
        await api_tokens.add(
            connection,
            new,
            name=name or f"{role}-{new.id}",
            grant=Grant(Role(role), TenantId(tenant) if tenant else None),
            created_by="ada",
            lives=lives,
        )
    return new.text


@dataclass(frozen=True, slots=True)
class Api:
    """A server, and the database behind it."""

    database: Database
    url: str
    service: Service

    async def client(self, role: str, tenant: str | None = None) -> httpx.AsyncClient:
        """Return a client with a token of that role."""
        return self.with_token(await new_token(self.database, role, tenant))

    def with_token(self, token: str | None) -> httpx.AsyncClient:
        """Return a client with a token, or without."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE)

    async def tenants(self, *ids: str) -> None:
        """Create tenants."""
        for tenant in ids:
            await Registry(self.database, ADA).create(TenantId(tenant), {})


async def apply(api: Api, tenant: str, schedules: Mapping[str, str]) -> None:
    """Apply a manifest."""
    async with await api.client("deployer") as deployer:
        path, body = f"/v1/tenants/{tenant}/manifest:apply", manifest(tenant, schedules)
        done = await deployer.post(path, content=body, headers=YAML)
    assert done.status_code == 200, done.text


async def pages(
    client: httpx.AsyncClient, path: str, name: str, limit: int = 2, **wanted: str
) -> list[Json]:
    """Read all pages of a list."""
    rows: list[Json] = []
    parameters: dict[str, str | int] = {"limit": limit, **wanted}
    while True:
        page = (await client.get(path, params=parameters)).json()
        assert len(page[name]) <= limit
        rows += page[name]
        if page["next"] is None:
            return rows
        parameters["after"] = page["next"]


_EXECUTIONS = text(
    "INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, schedule_name, saga_name,"
    " definition_id, scheduled_for, state, overlap, priority, not_before, attempts_allowed,"
    " actor_id, actor_type, actor_source, created_at)"
    " SELECT gen_random_uuid(), :tenant, gen_random_uuid(), 'nightly', 'nightly',"
    " gen_random_uuid(), date_trunc('minute', now()) - make_interval(mins => i / 3), :state,"
    " 'skip', 2, now(), 1, 'ada', 'human', 'manual', now()"
    " FROM generate_series(1, :count) AS i"
)


async def executions(api: Api, tenant: str, count: int, state: str = "SUCCEEDED") -> None:
    """Insert executions, several of them at the same time."""
    async with api.database.transaction() as connection:
        await history_months.prepare(connection, await database_time(connection), timedelta(days=1))
        parameters = {"tenant": tenant, "count": count, "state": state}
        await connection.execute(_EXECUTIONS, parameters)


@asynccontextmanager
async def api_on(
    database: Database,
    folder: Path,
    *,
    anonymous: bool = False,
    bounds: ConnectionLimits | None = None,
    **changes: Any,
) -> AsyncIterator[Api]:
    """Serve the API on a database; settings may be changed."""
    settings = replace(Settings(folder=folder, api_rate_limit=100_000), **changes)
    service = await open_service(database, settings, anonymous=anonymous)
    async with served(service, bounds) as url:
        yield Api(database, url, service)
