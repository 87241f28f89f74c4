"""A server of the API for benchmarks: a database with history, tokens, the process, and replies."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
from serving import Workspace
from sqlalchemy import text

from tenantcron.actor.api_tokens import make_token
from tenantcron.actor.grants import Grant, Role
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.migrations.runner import migrate
from tenantcron.scheduler.replica.housekeeping import prepare_history
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import api_tokens, limits

TENANTS = 200
HISTORY = 20_000
_TENANTS = text(
    "INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at)"
    " SELECT 't' || i, 'tenant_t' || i, now(), now() FROM generate_series(1, :tenants) AS i"
)
_EXECUTIONS = text(
    "INSERT INTO tenantcron.execution (id, tenant_id, schedule_id, schedule_name, saga_name,"
    " definition_id, scheduled_for, state, overlap, priority, not_before, attempts_allowed,"
    " actor_id, actor_type, actor_source, created_at)"
    " SELECT gen_random_uuid(), 't' || 1 + i % :tenants, gen_random_uuid(), 'past', 'noop',"
    " gen_random_uuid(), now() - make_interval(secs => i), 'SUCCEEDED', 'skip', 2, now(), 1,"
    " 'bench', 'scheduler', 'cron-scheduler', now() FROM generate_series(1, :number) AS i"
)


async def prepare(database: Database) -> None:
    """Insert tenants and history."""
    await migrate(database)
    async with database.transaction() as connection:
        await connection.execute(_TENANTS, {"tenants": TENANTS})
        await limits.set_by_operator(connection, {"operator": 500, "operator_per_tenant": 100})
    await prepare_history(Replica(database, Settings(folder=Path())))
    async with database.transaction() as connection:
        await connection.execute(_EXECUTIONS, {"tenants": TENANTS, "number": HISTORY})
    async with database.transaction() as connection:
        await connection.execute(text("ANALYZE"))


async def token(database: Database, tenant: str | None) -> str:
    """Create a viewer token."""
    new = make_token()
    async with database.transaction() as connection:
        grant = Grant(Role.VIEWER, TenantId(tenant) if tenant else None)
        names = {"name": f"bench-{new.id}", "created_by": "bench"}
        await api_tokens.add(connection, new, grant=grant, lives=timedelta(days=1), **names)
    return new.text


@contextmanager
def process(place: Workspace, *arguments: str, **secrets: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in the folder of the server, with secrets in its environment."""
    variables = {
        "TENANTCRON_LOG_LEVEL": "warning",
        "TENANTCRON_API_RATE_LIMIT": "100000",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    started = subprocess.Popen(
        [sys.executable, "-m", "tenantcron", *arguments],
        cwd=place.folder,
        env=place.environment | variables | secrets,
    )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(60)


async def wait_until_ready(client: httpx.AsyncClient) -> None:
    """Wait until the API responds."""
    for _ in range(300):
        try:
            if (await client.get("/readyz")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.1)
    raise RuntimeError("the API does not respond")


READS = (
    "/v1/tenants/t7",
    "/v1/executions?tenant=t7&limit=20",
    "/v1/tenants?limit=20",
    "/v1/executions?limit=20",
)


async def read_response(reader: asyncio.StreamReader) -> int:
    """Read one response and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])
