"""Migrations as a script, for a DBA or another tool: `tenantcron migrate --sql`.

The script has one transaction for the control schema and one for each outdated tenant, like
`migrate` itself. Each transaction

1. pins the settings that the statements depend on, so those of the role have no effect;
2. takes the same lock as `migrate`, so that the two cannot run at once;
3. raises an error unless the schema is at the version for which the script was written: a script
   that is run twice, or too late, changes nothing;
4. runs the statements of the migrations, and records the new version.

It contains no psql commands, so any client can run it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from psycopg.sql import SQL, Composable, Composed, Identifier
from psycopg.sql import Literal as Quoted

from tenantcron.migrations.history import history
from tenantcron.store.connection.locks import MigrationLock, key_of
from tenantcron.store.connection.scripts import for_schema
from tenantcron.store.schema.tenant_tables import CLOSE_FUNCTIONS, VERSION_SCRIPT, tenant_script
from tenantcron.store.schema.versions import CONTROL_VERSION, TENANT_VERSION

_BEGIN: Final = """\
BEGIN;
SET LOCAL client_encoding TO 'UTF8';
SET LOCAL standard_conforming_strings TO on;
SET LOCAL search_path TO pg_catalog;
SET LOCAL lock_timeout TO '10s';
"""
# The body of DO is quoted as a literal, because a name in it may contain any character.
_DO: Final = SQL("DO {body};\n")
_LOCK: Final = SQL("BEGIN PERFORM pg_catalog.pg_advisory_xact_lock({what}, {which}); END")
_REQUIRE: Final = SQL("""\
BEGIN
    IF (SELECT max(version_num) FROM {schema}.schema_version) IS DISTINCT FROM {version} THEN
        RAISE EXCEPTION USING
            MESSAGE = {problem},
            HINT = 'Print the script again with `tenantcron migrate --sql`.';
    END IF;
END""")
_STAMP: Final = SQL(
    "DELETE FROM {schema}.schema_version;\n"
    "INSERT INTO {schema}.schema_version (version_num) VALUES ({version});\n"
)


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The current state of a schema."""

    name: str
    is_there: bool = True
    has_versions: bool = True
    # None: before the first migration.
    version: str | None = None


def control_script(state: SchemaState) -> str:
    """Return the script that brings the control schema up to date."""
    lock = _locked(MigrationLock.CONTROL, "")
    body = _migrated("control", state) + CLOSE_FUNCTIONS
    return _transaction("control schema", state, CONTROL_VERSION, lock, body)


def tenant_upgrade(tenant: str, state: SchemaState) -> str:
    """Return the script that brings a tenant's schema up to date, or creates it."""
    lock = _locked(MigrationLock.TENANT, state.name)
    body = _migrated("tenant", state) if state.has_versions else _fresh(state)
    return _transaction(f"tenant {tenant}", state, TENANT_VERSION, lock, body)


def _transaction(title: str, state: SchemaState, target: str, lock: str, body: str) -> str:
    heading = f"-- {title}, schema {state.name}: {state.version or 'new'} -> {target}\n"
    return f"{heading}{_BEGIN}{lock}{body}COMMIT;\n"


def _locked(what: MigrationLock, name: str) -> str:
    first, second = key_of(what, name)
    return _do(_LOCK.format(what=Quoted(first), which=Quoted(second)))


def _at_version(state: SchemaState) -> str:
    problem = f"this script is for schema {state.name} at version {state.version or 'none'}"
    values: dict[str, Composable] = {"problem": Quoted(problem), **_values(state, state.version)}
    return _do(_REQUIRE.format(**values))


def _do(body: Composed) -> str:
    return _DO.format(body=Quoted(body.as_string())).as_string()


def _fresh(state: SchemaState) -> str:
    creation = "" if state.is_there else for_schema("CREATE SCHEMA {schema};\n", state.name)
    return creation + for_schema(tenant_script(), state.name).strip() + "\n"


def _migrated(kind: Literal["control", "tenant"], state: SchemaState) -> str:
    scripts = history(kind).scripts_from(state.version, state.name)
    newest = CONTROL_VERSION if kind == "control" else TENANT_VERSION
    parts = [*_prepared(state), *(f"{script.strip().rstrip(';')};\n" for script in scripts)]
    return "".join(parts) + _STAMP.format(**_values(state, newest)).as_string()


def _prepared(state: SchemaState) -> Iterator[str]:
    if not state.is_there:
        yield for_schema("CREATE SCHEMA {schema};\n", state.name)
    if state.has_versions:
        yield _at_version(state)
    else:
        yield for_schema(VERSION_SCRIPT, state.name).lstrip()


def _values(state: SchemaState, version: str | None) -> dict[str, Composable]:
    return {"schema": Identifier(state.name), "version": Quoted(version)}
