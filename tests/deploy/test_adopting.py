"""The shell blocks of docs/adopting.md install tenantcron on a platform and remove it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.builds import chosen_build
from support.database import Server, own_server

from tenantcron.store.embedded import binaries

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adopting.md"
BLOCKS = re.findall(
    r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
CUSTOMERS = """
CREATE TABLE public.customers (id text PRIMARY KEY, plan text NOT NULL, paid boolean NOT NULL);
INSERT INTO public.customers SELECT
    'c' || lpad(n::text, 3, '0'), CASE WHEN n % 2 = 0 THEN 'gold' ELSE 'basic' END, n <> 7
FROM generate_series(1, 8) AS n;
DO $$
DECLARE customer text;
BEGIN
    FOR customer IN SELECT id FROM public.customers LOOP
        EXECUTE format('CREATE SCHEMA %I', 'org_' || customer);
        EXECUTE format('CREATE TABLE %I.invoice (id int PRIMARY KEY)', 'org_' || customer);
    END LOOP;
END $$;
"""
# Everything that an installation could leave behind.
CATALOG = """
SELECT 'role ' || rolname FROM pg_roles
UNION ALL SELECT 'member ' || roleid::regrole || ' ' || member::regrole FROM pg_auth_members
UNION ALL SELECT 'schema ' || nspname || coalesce(nspacl, acldefault('n', nspowner))::text
    FROM pg_namespace
    WHERE nspname NOT LIKE 'pg\\_toast%' AND nspname NOT LIKE 'pg\\_temp%'
UNION ALL SELECT 'relation ' || oid::regclass || coalesce(relacl, acldefault('r', relowner))::text
    FROM pg_class
    WHERE relnamespace::regnamespace::text NOT IN ('pg_catalog', 'pg_toast', 'information_schema')
UNION ALL SELECT 'function ' || oid::regprocedure FROM pg_proc
    WHERE pronamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
UNION ALL SELECT 'default ' || oid FROM pg_default_acl
UNION ALL SELECT 'database ' || datname || coalesce(datacl, acldefault('d', datdba))::text
    FROM pg_database
UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal
ORDER BY 1
"""


@pytest.fixture(scope="module")
def server(run_folder: Path) -> Iterator[Server]:
    with own_server(run_folder, {}, chosen_build()) as running:
        running.execute("CREATE ROLE {} LOGIN CREATEROLE", "platform")
        running.execute("CREATE DATABASE {} OWNER {}", "product", "platform")
        yield running


def as_platform(server: Server, statement: str) -> list[tuple[object, ...]]:
    url = server.url("product").replace("postgres@", "platform@")
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def in_shell(block: str, server: Server, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block as a user would, with the test's server instead of the one on the page."""
    build = chosen_build()
    programs = build.programs() if build else binaries.programs(Path("/nowhere"))
    _, _, host = server.url("product").partition("?")
    script = block.replace("@db.staging/product", f"@/product?{host}")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "TENANTCRON"))
    }
    path = f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=kept | {"PATH": path, "PSQLRC": "/nowhere", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_following_the_page_installs_and_removes_tenantcron_without_a_trace(
    server: Server, tmp_path: Path
) -> None:
    as_platform(server, CUSTOMERS)
    before = as_platform(server, CATALOG)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    outputs = []
    # Later blocks see the exports of earlier ones.
    exported = ""
    for block in BLOCKS:
        done = in_shell(exported + block, server, tmp_path)
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        outputs.append(done.stdout)
        exported += "".join(line + "\n" for line in block.splitlines() if line.startswith("export"))

    listed = next(text for text in outputs if "registered" in text)
    assert re.search(r"^c002 .*plan=gold", listed, re.MULTILINE)
    assert "7 registered, 1 changed" in listed
    assert any(re.search(r"c001/send_invoices .* SUCCEEDED", text) for text in outputs)
    assert as_platform(server, CATALOG) == before
