"""The life cycle of a tenant from `migrate` to `deprovision`, through the commands and the API.

It runs on any server with any settings, and inspects the database through a separate connection.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from psycopg.rows import DictRow
from support.fleet import Called, Shell, manifest
from support.lifecycle_handlers import SAGAS
from support.patience import PATIENCE
from support.processes import query, until
from support.serving import api_on

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import open_database

HANDLERS = "support.lifecycle_handlers"
SCHEDULES = dict.fromkeys(
    SAGAS,
    'cron: "0 * * * *", catch_up: all, catch_up_window: 3h, overlap: allow, description: 日本',
)
EFFECTS = (
    "CREATE TABLE tenant_acme.effect (id uuid PRIMARY KEY, at timestamptz DEFAULT now(),"
    " late interval DEFAULT '1 day 2 hours')"
)
# So that one or two occurrences are due.
COUNT_FROM_EARLIER = (
    "UPDATE tenant_acme.tenant_schedule SET effective_from = now() - interval '70 minutes'"
)
EXECUTIONS = "SELECT id, schedule_name AS schedule, state FROM tenantcron.execution ORDER BY id"
WITHOUT_EFFECT = (
    "SELECT e.id FROM tenantcron.execution AS e WHERE NOT EXISTS"
    " (SELECT FROM tenant_acme.effect AS f WHERE f.id = e.id)"
)


def live(folder: Path, url: str, by_hand: str) -> None:
    """Run the life cycle on an empty database; `by_hand` is a URL to it with plain settings."""
    shell = Shell(folder, url)
    have_one_success_each(shell, by_hand)
    assert all_have_succeeded(asyncio.run(read_by_api(shell, new_token(shell))))
    succeed(shell, "audit")
    deprovision = ("--reason", "over", "--drop-schema", "--confirm", "acme")
    query(by_hand, "DROP TABLE tenant_acme.effect")
    succeed(shell, "tenant", "deprovision", "acme", *deprovision)
    assert query(by_hand, "SELECT 1 FROM pg_namespace WHERE nspname = 'tenant_acme'") == []


def have_one_success_each(shell: Shell, by_hand: str) -> None:
    """Migrate, apply, and run due executions: one or two per schedule."""
    succeed(shell, "migrate")
    apply(shell)
    query(by_hand, EFFECTS)
    query(by_hand, COUNT_FROM_EARLIER)
    succeed(shell, "run", "--handlers", HANDLERS, "--once")
    assert all_have_succeeded(executions(by_hand))
    assert query(by_hand, WITHOUT_EFFECT) == []


@contextmanager
def scheduler(shell: Shell) -> Iterator[None]:
    """Run a scheduler as a separate process; it is running when the block begins."""
    process = shell.start("run", "--handlers", HANDLERS, PYTHONPATH=str(Path(__file__).parents[1]))
    try:
        until(lambda: _is_up(shell, process))
        yield
    finally:
        process.kill()
        process.communicate()


def _is_up(shell: Shell, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, process.communicate()
    pid = f"%:{process.pid}:%"
    return bool(query(str(shell.url), "SELECT 1 FROM tenantcron.worker WHERE id LIKE %s", pid))


def executions(url: str) -> list[DictRow]:
    """Return all executions ordered by id."""
    return query(url, EXECUTIONS)


def succeed(shell: Shell, *arguments: str) -> Called:
    """Call a command that must succeed."""
    called = shell(*arguments)
    assert called.code == 0, (arguments, called)
    return called


def apply(shell: Shell) -> None:
    """Apply a manifest with one schedule for each handler."""
    (shell.folder / "acme.yaml").write_text(manifest("acme", SCHEDULES), encoding="utf-8")
    succeed(shell, "apply-manifest", "acme.yaml", "--create-tenants")


def all_have_succeeded(rows: Sequence[Mapping[str, object]]) -> bool:
    """Whether each schedule has run, and all executions succeeded."""
    return {(row["schedule"], row["state"]) for row in rows} == {
        (saga, "SUCCEEDED") for saga in SAGAS
    }


def new_token(shell: Shell) -> str:
    """Create a viewer token."""
    made = succeed(shell, "token", "create", "ci", "--role", "viewer", "--format", "json")
    return str(json.loads(made.out)["token"])


async def read_by_api(shell: Shell, token: str) -> list[dict[str, object]]:
    """Read the executions as the role with row-level security."""
    headers = {"Authorization": f"Bearer {token}"}
    settings = Settings(database_url=shell.url, folder=shell.folder)
    async with (
        open_database(settings) as database,
        api_on(database, shell.folder) as api,
        httpx.AsyncClient(base_url=api.url, headers=headers, timeout=PATIENCE) as client,
    ):
        got = await client.get("/v1/executions")
        assert got.status_code == 200, got.text
        rows: list[dict[str, object]] = got.json()["executions"]
        return rows
