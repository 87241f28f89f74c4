"""A platform with the roles of deploy/sql. It has its own server: roles belong to a server."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from support.builds import chosen_build
from support.database import own_server
from support.fleet import Called, Shell, manifest
from support.processes import query
from support.programs import run_script

SQL = Path(__file__).parents[2] / "deploy" / "sql"
DEPLOY, RUN, OPERATE, PLAN = (f"tenantcron_{name}" for name in ("deploy", "run", "operate", "plan"))
API = "tenantcron_api"
# Owns the database and may create roles; it is no superuser.
DBA = "dba"
SCHEDULES = {
    "good": 'cron: "0 * * * *", catch_up: all, catch_up_window: 6h',
    "bad": 'cron: "0 * * * *", catch_up: all, catch_up_window: 6h, overlap: allow,'
    " retry: {max_attempts: 1}, auto_pause_after: 3",
}
MASTER_KEY = b64encode(bytes(range(32))).decode()
HANDLERS = """
from pathlib import Path

from sqlalchemy import text
from tenantcron import saga

@saga("good")
async def good(execution):
    async with execution.connection() as connection:
        user = await connection.scalar(text("SELECT session_user"))
        await connection.execute(text("INSERT INTO effect VALUES (:id)"), {"id": execution.id})
    token = await execution.token("https://billing.internal")
    Path("token").write_text(token)
    return {"token": bool(token), "user": user}

@saga("bad")
async def bad(execution):
    raise ValueError("no")
"""
# A schema as a platform has it: another role's, which grants what roles need to adopt it.
PLATFORM = f"""
CREATE ROLE platform;
CREATE SCHEMA org_umbra AUTHORIZATION platform;
GRANT USAGE, CREATE ON SCHEMA org_umbra TO {DEPLOY};
GRANT USAGE ON SCHEMA org_umbra TO {RUN}, {OPERATE}, {PLAN}, {API};
CREATE TABLE org_umbra.effect (id uuid);
ALTER TABLE org_umbra.effect OWNER TO platform;
GRANT USAGE ON SCHEMA org_umbra TO {DEPLOY} WITH GRANT OPTION;
GRANT SELECT, INSERT, UPDATE, DELETE ON org_umbra.effect TO {DEPLOY} WITH GRANT OPTION;
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A database with the roles of deploy/sql."""

    url: str
    folder: Path
    # Which commands have succeeded, and as which role.
    succeeded: set[tuple[str, str]] = field(default_factory=set)

    def url_of(self, role: str) -> str:
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=f"{role}@"))

    def shell(self, role: str) -> Shell:
        return Shell(self.folder, self.url_of(role))

    @contextmanager
    def session(self, role: str) -> Iterator[psycopg.Connection]:
        """Open a session of a role; the one without a login is taken on by operators."""
        login = OPERATE if role == API else role
        with psycopg.connect(self.url_of(login), autocommit=True) as connection:
            if role == API:
                connection.execute("SET ROLE tenantcron_api")
            yield connection

    def call(self, role: str, *arguments: str) -> Called:
        path = str(self.folder)
        return self.shell(role)(*arguments, TENANTCRON_MASTER_KEY=MASTER_KEY, PYTHONPATH=path)

    def succeed(self, role: str, *arguments: str) -> Called:
        done = self.call(role, *arguments)
        assert done.code == 0, (role, arguments, done)
        self.succeeded.add((role, arguments[0]))
        return done

    def refuse(self, role: str, *arguments: str) -> None:
        done = self.call(role, *arguments)
        assert done.code in (1, 2), (role, arguments, done)
        assert "permission denied" in done.out + done.err, (role, arguments, done)

    def run_file(self, role: str, name: str) -> None:
        """Run a file of deploy/sql."""
        done = run_script(self.url_of(role), (SQL / name).read_text(encoding="utf-8"))
        assert (done.returncode, done.stderr) == (0, ""), done


@contextmanager
def site_with_roles(run_folder: Path, folder: Path) -> Iterator[Site]:
    """Go through the steps of the documents, up to the first schedules."""
    with own_server(run_folder, {}, chosen_build()) as server:
        server.execute("CREATE ROLE {} LOGIN CREATEROLE", DBA)
        server.execute("CREATE DATABASE {} OWNER {}", "product", DBA)
        site = Site(server.url("product"), folder)
        for tenant in ("acme", "umbra"):
            (folder / f"{tenant}.yaml").write_text(manifest(tenant, SCHEDULES), encoding="utf-8")
        (folder / "rights_work.py").write_text(HANDLERS, encoding="utf-8")
        policy = '[policy]\nallowed_hosts = ["hooks.internal"]\n'
        (folder / "tenantcron.toml").write_text(policy, encoding="utf-8")
        site.run_file(DBA, "roles.sql")
        query(site.url, PLATFORM)
        site.succeed(DEPLOY, "migrate")
        site.run_file(DEPLOY, "grants.sql")
        site.succeed(DEPLOY, "tenant", "create", "acme")
        site.succeed(DEPLOY, "tenant", "create", "umbra", "--schema", "org_umbra")
        query(site.url_of(DEPLOY), "CREATE TABLE tenant_acme.effect (id uuid)")
        site.succeed(DEPLOY, "apply-manifest", "acme.yaml")
        yield site
