"""A tenant's schema is dumped and restored into another database, as documented."""

import json
from pathlib import Path

import pytest
from support.database import TEMPLATE, Server
from support.fleet import Shell, audit_of, manifest, numbered, query
from support.programs import client, run_script

SCHEMA = "Org-Acme"


def schedule_names(shell: Shell) -> list[str]:
    called = shell("schedule", "list", "acme", "--format", "json")
    assert called.code == 0, called
    return [schedule["name"] for schedule in json.loads(called.out)["schedules"]]


@pytest.mark.parametrize("options", [(), ("--no-privileges",)])
def test_a_dump_of_an_adopted_schema_moves_the_tenant_to_another_database(
    server: Server, database_url: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    old = Shell(tmp_path, database_url)
    query(database_url, "CREATE SCHEMA {}", SCHEMA)
    query(database_url, "CREATE TABLE {}.invoice AS SELECT 1 AS id", SCHEMA)
    assert old("tenant", "create", "acme", "--schema", SCHEMA).code == 0
    (tmp_path / "acme.yaml").write_text(manifest("acme", numbered(2)), encoding="utf-8")
    assert old("apply-manifest", "acme.yaml").code == 0
    if options:
        query(database_url, "SELECT tenantcron.ensure_handler_role('acme')")
    dump = client("pg_dump", *options, "--schema", f'"{SCHEMA}"', "--dbname", database_url)
    assert dump.returncode == 0, dump.stderr
    assert "tc_" not in dump.stdout

    with server.database(TEMPLATE) as url:
        # Written by a pg_dump that is newer than the server, if a build has no pg_dump.
        restored = run_script(url, dump.stdout.replace("SET transaction_timeout = 0;\n", ""))
        assert (restored.returncode, restored.stderr) == (0, "")
        new = Shell(tmp_path, url)
        assert new("tenant", "create", "acme", "--schema", SCHEMA).code == 0

        assert schedule_names(new) == schedule_names(old) == list(numbered(2))
        assert audit_of(url, SCHEMA) == audit_of(database_url, SCHEMA)
        assert query(url, "SELECT id FROM {}.invoice", SCHEMA) == [{"id": 1}]
        assert new("migrate").code == 0
        assert new("migrate", "--check").code == 0
        assert new("run", "--once").code == 0
        [followed] = query(url, "SELECT count(*) AS number FROM tenantcron.schedule_cursor")
        assert followed == {"number": 2}
        assert new("apply-manifest", "acme.yaml").code == 0
        assert schedule_names(new) == list(numbered(2))
