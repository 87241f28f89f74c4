"""tenantcron is installed in a platform's existing database, used, and removed again.

The platform has roles, a registry of its tenants and a hundred schemas with data and own names.
Afterwards nothing in the catalogs or in its tables differs.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from support.builds import chosen_build
from support.database import own_server
from support.fleet import Called, Shell, manifest
from support.lifecycle import new_token, read_by_api
from support.processes import query
from support.traces import everything

TENANTS = [f"customer-{number:03}" for number in range(100)]
PATTERN = "Org {tenant}"
# The platform's registry of tenants and their schemas.
SETTINGS = """
[settings]
schema_pattern = "Org {tenant}"
tenant_source = '''
SELECT id, schema_name, 'active' AS status, jsonb_build_object('plan', plan) AS labels
FROM public.tenants
'''
"""
SCHEDULES = {"report": 'cron: "0 * * * *", catch_up: all, catch_up_window: 3h'}
HANDLERS = """
from sqlalchemy import text
from tenantcron import saga

@saga("report")
async def report(execution):
    async with execution.connection() as connection:
        assert await connection.scalar(text("SELECT note FROM invoice")) == execution.tenant_id
"""
ROLES = """
CREATE ROLE platform LOGIN CREATEROLE;
CREATE ROLE reporting;
"""
REGISTRY = """
CREATE TYPE public.plan AS ENUM ('free', 'paid');
CREATE TABLE public.tenants (id text PRIMARY KEY, schema_name text UNIQUE, plan public.plan);
CREATE FUNCTION public.tenant_count() RETURNS bigint LANGUAGE sql
    AS 'SELECT count(*) FROM public.tenants';
ALTER DEFAULT PRIVILEGES FOR ROLE platform IN SCHEMA public GRANT SELECT ON TABLES TO reporting;
"""
SCHEMA = """
CREATE SCHEMA "{schema}";
GRANT USAGE ON SCHEMA "{schema}" TO reporting;
CREATE TABLE "{schema}".invoice (id int PRIMARY KEY, note text);
INSERT INTO "{schema}".invoice VALUES (1, '{tenant}');
CREATE VIEW "{schema}".notes AS SELECT note FROM "{schema}".invoice;
GRANT SELECT ON "{schema}".notes TO reporting;
INSERT INTO public.tenants VALUES ('{tenant}', '{schema}', 'paid');
"""
MAKE_DUE = (
    "UPDATE tenantcron.schedule_cursor SET next_run_at = date_trunc('hour', now()),"
    " effective_from = now() - interval '1 day'"
)


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform's database, and a folder to run commands as its role."""

    url: str
    shell: Shell

    def call(self, *arguments: str) -> Called:
        return self.shell(*arguments, PYTHONPATH=str(self.shell.folder))

    def succeed(self, *arguments: str) -> Called:
        called = self.call(*arguments)
        assert called.code == 0, (arguments, called)
        return called


@pytest.fixture
def platform(run_folder: Path, tmp_path: Path) -> Iterator[Platform]:
    with own_server(run_folder, {}, chosen_build()) as server:
        query(server.url("postgres"), ROLES)
        server.execute("CREATE DATABASE {} OWNER {}", "product", "platform")
        url = server.url("product")
        own = urlunsplit(urlsplit(url)._replace(netloc="platform@"))
        query(url, "GRANT CREATE ON SCHEMA public TO platform")
        schemas = (
            SCHEMA.format(tenant=tenant, schema=PATTERN.format(tenant=tenant)) for tenant in TENANTS
        )
        query(own, REGISTRY + "".join(schemas))
        for tenant in TENANTS:
            (tmp_path / f"{tenant}.yaml").write_text(manifest(tenant, SCHEDULES), encoding="utf-8")
        (tmp_path / "tenantcron.toml").write_text(SETTINGS, encoding="utf-8")
        (tmp_path / "platform_work.py").write_text(HANDLERS, encoding="utf-8")
        yield Platform(url, Shell(tmp_path, own))


def use(platform: Platform) -> None:
    """Install tenantcron, adopt all tenants, run executions, and read the result with the API."""
    platform.succeed("migrate")
    platform.succeed("tenant", "refresh")
    adopted = query(platform.url, "SELECT schema_name FROM tenantcron.tenant WHERE schema_adopted")
    assert len(adopted) == len(TENANTS)
    platform.succeed("apply-manifest", ".")
    platform.succeed("tenant", "create", "of-our-own")
    platform.succeed("run", "--once")
    query(platform.url, MAKE_DUE)
    platform.succeed("run", "--handlers", "platform_work", "--once")
    platform.succeed("migrate", "--check")
    ended = query(platform.url, "SELECT DISTINCT state FROM tenantcron.execution")
    assert ended == [{"state": "SUCCEEDED"}]
    rows = asyncio.run(read_by_api(platform.shell, new_token(platform.shell)))
    assert {row["state"] for row in rows} == {"SUCCEEDED"}


def test_uninstalling_leaves_no_trace_on_an_existing_platform(
    platform: Platform,
) -> None:
    before = everything(platform.url)
    use(platform)
    installed = everything(platform.url)

    shown = platform.call("uninstall")
    refused = platform.call("uninstall", "--yes")
    unchanged = everything(platform.url)
    removed = platform.succeed("uninstall", "--yes", "--with-tenants")

    assert shown.code == refused.code == 1
    assert "drops 3 tables in each of 101 schemas: `Org customer-000`" in shown.out
    created = "drops the schemas that it created, if they are empty then: `Org of-our-own`"
    assert created in shown.out
    assert "nothing was dropped: add --yes" in shown.err
    assert "tenants have tables here: 101" in refused.err
    assert unchanged == installed
    assert "tenantcron is removed from this database" in removed.out
    after = everything(platform.url)
    assert after.keys() == before.keys()
    for name in before:
        assert after[name] == before[name], name
    assert platform.succeed("uninstall").out == "tenantcron is not installed in this database\n"
