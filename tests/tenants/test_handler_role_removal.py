"""The roles of handlers go with their tenant or with tenantcron, and take nothing along."""

from pathlib import Path

import psycopg
import pytest
from support.fleet import Shell

OWNED = """
CREATE TABLE {schema}.made_by_a_handler AS SELECT 1 AS id;
ALTER TABLE {schema}.made_by_a_handler OWNER TO {role};
"""


class Roles:
    """The roles of handlers in one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.group = str(self.query("SELECT tenantcron.handler_role()")[0][0])

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def make(self, *tenants: str) -> None:
        for tenant in tenants:
            self.query(f"SELECT tenantcron.ensure_handler_role('{tenant}')")

    def of(self, tenant: str) -> str:
        return f"{self.group}_{tenant}"

    def found(self) -> list[object]:
        like = f"rolname LIKE '{self.group}%'"
        found = self.query(f"SELECT rolname FROM pg_roles WHERE {like} ORDER BY 1")  # noqa: S608 -- our own
        return [name for (name,) in found]


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    shell = Shell(tmp_path, database_url)
    for tenant in ("acme", "umbra"):
        assert shell("tenant", "create", tenant).code == 0
    return shell


@pytest.fixture
def roles(shell: Shell) -> Roles:
    roles = Roles(str(shell.url))
    roles.make("acme", "umbra")
    return roles


def deprovision(shell: Shell, *options: str) -> str:
    done = shell("tenant", "deprovision", "acme", "--reason", "x", *options)
    assert done.code == 0, done
    return done.err


DROP = ("--drop-schema", "--confirm", "acme")


def test_a_tenant_that_loses_its_tables_loses_its_role(shell: Shell, roles: Roles) -> None:
    roles.query("CREATE TABLE tenant_acme.ledger (id int)")
    roles.make("acme")

    deprovision(shell)
    assert roles.of("acme") in roles.found()
    deprovision(shell, *DROP)

    assert roles.found() == [roles.group, roles.of("umbra")]
    assert roles.query("SELECT count(*) FROM tenant_acme.ledger") == [(0,)]


def test_a_role_that_owns_a_table_is_kept_and_so_is_the_table(shell: Shell, roles: Roles) -> None:
    role = roles.of("acme")
    roles.query(OWNED.format(schema="tenant_acme", role=role))

    output = deprovision(shell, *DROP)

    assert f"role `{role}` is kept: it owns objects" in output
    assert f'DROP ROLE "{role}"' in output
    assert roles.query("SELECT id FROM tenant_acme.made_by_a_handler") == [(1,)]
    kept = roles.query(f"SELECT rolcanlogin, rolpassword FROM pg_authid WHERE rolname = '{role}'")  # noqa: S608 -- a test's own words
    assert kept == [(False, None)]


def test_uninstall_drops_all_roles(shell: Shell, roles: Roles) -> None:
    shown = shell("uninstall")
    done = shell("uninstall", "--yes", "--with-tenants")

    assert "drops the handler roles of 2 tenants" in shown.out
    assert done.code == 0, done
    assert roles.found() == []


def test_what_a_role_grants_by_default_does_not_keep_it(shell: Shell, roles: Roles) -> None:
    for role in (roles.of("acme"), roles.group):
        roles.query(f"ALTER DEFAULT PRIVILEGES FOR ROLE {role} GRANT SELECT ON TABLES TO PUBLIC")

    assert shell("uninstall", "--yes", "--with-tenants").code == 0

    assert roles.found() == []


def test_uninstall_names_the_roles_that_it_keeps(shell: Shell, roles: Roles) -> None:
    role = roles.of("acme")
    roles.query(OWNED.format(schema="public", role=role))

    done = shell("uninstall", "--yes", "--with-tenants")

    assert done.code == 0, done
    assert f"the role `{role}` is kept: it owns objects" in done.out
    assert roles.found() == [role]
    assert roles.query("SELECT id FROM public.made_by_a_handler") == [(1,)]
    roles.query(f"DROP TABLE public.made_by_a_handler; DROP ROLE {role}")
