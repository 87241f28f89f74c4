"""Thousands of tenants: output is streamed, and memory does not grow with the fleet."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, event
from support.fleet import Shell, call, manifest, numbered
from support.patience import PATIENCE

from tenantcron.cli.clusters.database import schedules, tenants
from tenantcron.manifests.files import Policies, read_files
from tenantcron.reconciler.sources import source_checksums

# They have no schema, so they cost a row each.
GONE = """
INSERT INTO tenantcron.tenant (id, schema_name, status, status_reason, created_at, updated_at)
SELECT 'm' || n, 'tenant_m' || n, 'deprovisioned', 'contract ended', now(), now()
FROM generate_series(1, %s) AS n
"""
# Tenants that were applied: their schedules are those of one model, which costs no tables.
APPLIED = """
INSERT INTO tenantcron.tenant (id, schema_name, created_at, updated_at)
SELECT id, 'tenant_' || id, now(), now() FROM unnest(%(ids)s::text[]) AS id;
"""
VERSIONS = """
INSERT INTO tenantcron.manifest_version (
    id, tenant_id, version, checksum, source_checksum, document, applied_by, applied_at
)
SELECT gen_random_uuid(), new.id, 1, v.checksum, new.source_checksum, v.document, 'x', now()
FROM tenantcron.manifest_version AS v,
    unnest(%(ids)s::text[], %(checksums)s::text[]) AS new (id, source_checksum)
WHERE v.tenant_id = 'model'
"""
SCHEMAS = """
DO $$ DECLARE made text; BEGIN
    FOR made IN SELECT schema_name FROM tenantcron.tenant
        WHERE NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = schema_name) LOOP
        EXECUTE format('CREATE SCHEMA %I', made);
        EXECUTE format(
            'CREATE VIEW %I.tenant_schedule AS SELECT * FROM tenant_model.tenant_schedule', made);
    END LOOP;
END $$
"""


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def run(url: str, statement: str, *parameters: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, parameters or None)


def add_tenant(shell: Shell, tenant: str) -> None:
    file = shell.folder / f"{tenant}.yaml"
    file.write_text(manifest(tenant, numbered(2)), encoding="utf-8")
    assert shell("apply-manifest", file.name, "--create-tenants").code == 0
    file.unlink()


@contextmanager
def lines_before_each_page(out: StringIO) -> Iterator[list[int]]:
    """Collect the number of lines printed before each page of tenants is read."""
    printed: list[int] = []

    def collect(_: object, __: object, statement: str, *___: object) -> None:
        if "FROM tenantcron.tenant" in statement and "LIMIT" in statement:
            printed.append(out.getvalue().count("\n"))

    event.listen(Engine, "before_cursor_execute", collect)
    try:
        yield printed
    finally:
        event.remove(Engine, "before_cursor_execute", collect)


def test_a_list_of_tenants_prints_a_page_before_it_reads_the_next(
    shell: Shell, database_url: str
) -> None:
    page = tenants.TENANTS_A_PAGE
    run(database_url, GONE, 2 * page + 1)
    out, environment = StringIO(), dict(os.environ, TENANTCRON_DATABASE_URL=database_url)

    with lines_before_each_page(out) as printed:
        assert call(["tenant", "list"], shell.folder, environment, out, StringIO()) == 0

    assert printed == [0, page + 1, 2 * page + 1]
    assert out.getvalue().count("\n") == 2 * page + 2
    as_json = json.loads(shell("tenant", "list", "--format", "json").out)["tenants"]
    assert len({tenant["tenant"] for tenant in as_json}) == 2 * page + 1


def test_a_list_of_schedules_starts_before_the_last_page_is_read(
    shell: Shell, database_url: str
) -> None:
    add_tenant(shell, "aaa")
    add_tenant(shell, "zzz")
    run(database_url, GONE, 2 * schedules.TENANTS_A_PAGE)
    with psycopg.connect(database_url) as blocking:
        blocking.execute("LOCK TABLE tenant_zzz.tenant_schedule")
        listing = shell.start("schedule", "list")
        assert listing.stdout is not None
        first = listing.stdout.readline()
        blocking.rollback()
    rest, err = listing.communicate(timeout=PATIENCE)

    assert (first, err, listing.returncode) == ("aaa\n", "", 0)
    assert rest.splitlines()[-4] == "zzz"


def left_after_a_line(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Read a line and close the pipe, as head does; return the exit code and the errors."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as out:
        assert out.readline()
    with process.stderr as errors:
        err = errors.read()
    return process.wait(PATIENCE), err


@pytest.mark.parametrize(
    "command",
    [
        ["schedule", "list"],
        ["schedule", "list", "--format", "json"],
        ["tenant", "list"],
        ["tenant", "list", "--format", "json"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_ends_a_list_quietly(
    shell: Shell, database_url: str, command: list[str]
) -> None:
    add_tenant(shell, "aaa")
    # More than fits into a pipe.
    run(database_url, GONE, 5_000)
    # Without a buffer, the very first write may find that the reader is gone.
    listing = shell.start(*command, PYTHONUNBUFFERED="1")
    code, err = left_after_a_line(listing)

    assert (code, err) == (0, "")


def test_an_apply_finishes_after_its_reader_has_closed_the_pipe(
    shell: Shell, database_url: str
) -> None:
    for number in range(21):
        text = manifest(f"t{number:02}", numbered(20))
        (shell.folder / f"t{number:02}.yaml").write_text(text, encoding="utf-8")
    apply = shell.start("apply-manifest", ".", "--create-tenants", "--format", "json")
    code, err = left_after_a_line(apply)

    assert (code, err) == (0, "")
    with psycopg.connect(database_url) as connection:
        applied = connection.execute("SELECT count(*) FROM tenantcron.manifest_version").fetchone()
    assert applied == (21,)


def write_fleet(shell: Shell, tenants: int) -> list[Path]:
    """Write manifests as JSON, which is checked quickly."""
    folder = shell.folder / "fleet"
    folder.mkdir(exist_ok=True)
    sagas = [
        {"name": f"s{n}", "trigger": {"scheduled": {"cron": f"{n} 2 * * *"}}} for n in range(10)
    ]
    files = [folder / f"t{number:04}.json" for number in range(tenants)]
    for file in files:
        document = {"version": "1.0", "tenant": file.stem, "sagas": sagas}
        file.write_text(json.dumps(document), encoding="utf-8")
    return files


def apply_fleet(shell: Shell, url: str, files: list[Path]) -> None:
    """Store the result of applying these manifests in the database."""
    model = shell.folder / "model.json"
    model.write_text(files[0].read_text(encoding="utf-8").replace(files[0].stem, "model"))
    assert shell("apply-manifest", model.name, "--create-tenants").code == 0
    parameters = {
        "ids": [file.stem for file in files],
        "checksums": source_checksums(read_files(files, Policies(None), None)),
    }
    with psycopg.connect(url) as connection:
        connection.execute(APPLIED, parameters)
        connection.execute(VERSIONS, parameters)
        connection.execute(SCHEMAS)


def peak(shell: Shell, *arguments: str) -> tuple[int, str]:
    """Run a command; return its peak memory in bytes and its last line."""
    environment = dict(os.environ, TENANTCRON_DATABASE_URL=str(shell.url))
    process = subprocess.Popen(
        [sys.executable, "-m", "tenantcron", *arguments],
        cwd=shell.folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as stream:
        last = ""
        for line in stream:
            last = line.strip()
    # Its own memory: the processes that check manifests are waited for by itself.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss * 1024, last


def test_memory_of_a_plan_does_not_grow_with_the_fleet(shell: Shell, database_url: str) -> None:
    """Half of the tenants are unchanged, half are new. Keeping them would take 45 KB each."""
    files = write_fleet(shell, 2_600)
    apply_fleet(shell, database_url, files[::2])
    few = [str(file.relative_to(shell.folder)) for file in files[:1_000]]

    small, last = peak(shell, "plan", *few, "--create-tenants")
    assert last.startswith("1000 tenants: 5000 to create, 0 to change, 0 to delete, 5000 unchanged")
    large, last = peak(shell, "plan", "fleet", "--create-tenants", "--out", "reviewed.plan")

    assert last.startswith("2600 tenants: 13000 to create")
    assert (large - small) / 1_600 < 6 * 1024, (small, large)
    saved = json.loads((shell.folder / "reviewed.plan").read_text(encoding="utf-8"))
    assert len(saved["plan"]["tenants"]) == 2_600
