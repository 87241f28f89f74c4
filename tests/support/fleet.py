"""Manifests, applied as by the commands, and the resulting rows."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from uuid import UUID

import psycopg
import structlog
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL, Identifier
from sqlalchemy import event

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.cli.main import main
from tenantcron.core.standard_logging import forget_standard_logging
from tenantcron.manifests.files import Policies, find_files, read_files
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.checking import Checking
from tenantcron.reconciler.fleet import apply_all, plan_all, prepare_all
from tenantcron.reconciler.outcome import ReconcileOutcome
from tenantcron.reconciler.plan import Rules
from tenantcron.reconciler.sources import Prepared
from tenantcron.store.connection.engine import Database
from tenantcron.tenants.creation import create_tenant

CORRELATION = UUID("00000000-0000-4000-8000-000000000001")
DEPLOYER = Attribution(
    Actor("github:octocat", ActorType.PIPELINE, "github-actions"), correlation_id=CORRELATION
)
NIGHTLY = 'cron: "0 2 * * *"'
CREATING = Rules(create_tenants=True)
RAISED_CAP = "[policy]\nmax_schedules_per_tenant = 1000\n"

_PIPELINE_VARIABLES = ("GITHUB_", "GITLAB_", "CI", "TENANTCRON_", "COLUMNS")


def manifest(tenant: str, schedules: Mapping[str, str]) -> str:
    """Return a manifest: each schedule by name, with the content of `scheduled:`."""
    head = f'version: "1.0"\ntenant: {tenant}\n'
    if not schedules:
        return f"{head}sagas: []\n"
    sagas = (
        f"  - name: {name}\n    trigger:\n      scheduled: {{{timetable}}}\n"
        for name, timetable in schedules.items()
    )
    return f"{head}sagas:\n{''.join(sagas)}"


def numbered(count: int, timetable: str = NIGHTLY) -> dict[str, str]:
    """Return that many schedules."""
    return {f"s{number:03}": timetable for number in range(count)}


def _nothing() -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A folder of manifests and their database."""

    database: Database
    folder: Path

    def write(self, tenant: str, schedules: Mapping[str, str]) -> Path:
        """Write or replace a tenant's manifest."""
        file = self.folder / f"{tenant}.yaml"
        file.write_text(manifest(tenant, schedules), encoding="utf-8")
        return file

    async def prepared(self) -> list[Prepared]:
        """Check all manifests."""
        files = list(read_files(find_files([self.folder]), Policies(None), None))
        with Checking() as checking:
            return await prepare_all(self.database, files, _nothing, checking)

    async def plan(self, rules: Rules = CREATING) -> list[ReconcileOutcome]:
        """Plan all manifests."""
        return await plan_all(self.database, await self.prepared(), rules)

    async def apply(self, rules: Rules = CREATING) -> list[ReconcileOutcome]:
        """Apply all manifests."""
        return await apply_all(self.applier(rules), await self.prepared(), _nothing)

    def applier(self, rules: Rules = CREATING) -> Applier:
        """Return an applier that acts as the deployer."""
        return Applier(
            database=self.database,
            rules=rules,
            who=DEPLOYER,
            source_ref="3f2a9c1",
            create_tenant=create_tenant,
        )


def query(url: str, statement: str, *names: str) -> list[DictRow]:
    """Run a statement directly, as a user at a prompt would; `{}` are placeholders for names."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return _query(connection, statement, *names)


def _query(connection: psycopg.Connection[DictRow], statement: str, *names: str) -> list[DictRow]:
    cursor = connection.execute(SQL(statement).format(*map(Identifier, names)))
    return cursor.fetchall() if cursor.description else []


def schedules(url: str, tenant: str) -> list[DictRow]:
    """Return the rows of a tenant's schedules by name."""
    return query(url, "SELECT * FROM {}.tenant_schedule ORDER BY schedule_name", f"tenant_{tenant}")


def names(url: str, tenant: str) -> list[str]:
    """Return the names of a tenant's schedules."""
    return [row["schedule_name"] for row in schedules(url, tenant)]


def audit(url: str, tenant: str) -> list[DictRow]:
    """Return a tenant's audit records in order of creation."""
    return audit_of(url, f"tenant_{tenant}")


def audit_of(url: str, schema: str) -> list[DictRow]:
    """Return the audit records of a schema in order of creation."""
    return query(url, "SELECT * FROM {}.audit_record ORDER BY id", schema)


def versions(url: str, tenant: str) -> list[DictRow]:
    """Return a tenant's manifest versions in order."""
    rows = query(url, "SELECT * FROM tenantcron.manifest_version ORDER BY version")
    return [row for row in rows if row["tenant_id"] == tenant]


def revision(url: str, tenant: str) -> int:
    """Return a tenant's revision."""
    rows = query(url, "SELECT id, schedule_revision FROM tenantcron.tenant")
    return int(next(row["schedule_revision"] for row in rows if row["id"] == tenant))


def footprint(url: str) -> dict[str, list[DictRow]]:
    """Return every row of all our tables with its physical position: equal means no write."""
    statement = "SELECT ctid::text, xmin::text, t::text FROM {}.{} AS t ORDER BY 1"
    with psycopg.connect(url, row_factory=dict_row) as connection:
        tables = _query(
            connection,
            "SELECT schemaname, tablename FROM pg_tables"
            " WHERE schemaname = 'tenantcron' OR schemaname LIKE 'tenant\\_%' ORDER BY 1, 2",
        )
        return {
            f"{table['schemaname']}.{table['tablename']}": _query(
                connection, statement, *table.values()
            )
            for table in tables
        }


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """Collect the statements that are sent to the database."""
    sent: list[str] = []

    def collect(_: object, __: object, statement: str, *___: object) -> None:
        sent.append(statement)

    event.listen(database.engine.sync_engine, "before_cursor_execute", collect)
    yield sent
    event.remove(database.engine.sync_engine, "before_cursor_execute", collect)


@dataclass(frozen=True, slots=True)
class Called:
    """The result of a command."""

    code: int
    out: str
    err: str


def call(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    out: TextIO,
    err: TextIO,
) -> int:
    """Call a command in this process as if it were a separate one; return its exit code."""
    with (
        chdir(folder),
        _environment(environment),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            return main(arguments)
        except SystemExit as stop:  # how argparse ends
            return int(stop.code or 0)
        finally:
            _forget_logs()


def _forget_logs() -> None:
    """Undo the logging set-up of a scheduler, because this is the process of the tests."""
    forget_standard_logging()
    structlog.reset_defaults()
    kind = type(structlog.get_logger())
    for module in tuple(sys.modules.values()):
        log = vars(module).get("log")
        if isinstance(log, kind):
            vars(log).pop("bind", None)  # its cached settings


@dataclass(frozen=True, slots=True)
class Shell:
    """A folder to call commands from, with a database or without."""

    folder: Path
    url: str | None = None

    def __call__(self, *arguments: str, **variables: str) -> Called:
        """Call a command in this process."""
        out, err = io.StringIO(), io.StringIO()
        code = call(arguments, self.folder, self._environment(variables), out, err)
        return Called(code, out.getvalue(), err.getvalue())

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command as a separate process."""
        return subprocess.Popen(
            [sys.executable, "-m", "tenantcron", *arguments],
            cwd=self.folder,
            env=self._environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment without variables of the machine that runs the tests."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_PIPELINE_VARIABLES)
        }
        # An embedded server must not outlive the test.
        database = ("DATABASE_URL", self.url) if self.url else ("EMBEDDED_LINGER", "0s")
        return {**kept, f"TENANTCRON_{database[0]}": database[1], **variables}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
