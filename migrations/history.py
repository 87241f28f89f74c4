"""One of the two histories, and how it is run on a connection.

There is no env.py and no alembic.ini: the scripts are loaded once per process, and every run gets
its connection and schema here. Migrations take what they need as arguments,

    def upgrade(op: Operations, schema: str) -> None

because Alembic's global `op` belongs to one run at a time, and we run several at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, cast

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.runtime.migration import RevisionStep
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

from tenantcron.store.schema.tables import TENANT_SCHEMA
from tenantcron.store.schema.versions import VERSION_TABLE

BASE = "base"


@dataclass(frozen=True, slots=True)
class History:
    """The migrations of one kind of schema, oldest first."""

    scripts: ScriptDirectory = field(repr=False)

    @property
    def newest(self) -> str:
        """The version after all migrations."""
        head = self.scripts.get_current_head()
        if head is None:
            raise RuntimeError(f"there are no migrations in {self.scripts.dir}")
        return head

    def upgrade(self, connection: Connection, schema: str) -> None:
        """Run missing migrations, in the connection's transaction."""
        self._run(connection, schema, "up")

    def downgrade(self, connection: Connection, schema: str) -> None:
        """Revert everything, in the connection's transaction. The empty version table stays."""
        self._run(connection, schema, "down")

    def scripts_from(self, version: str | None, schema: str) -> list[str]:
        """Return the migrations after a version as scripts, without running anything."""
        missing = list(self.scripts.iterate_revisions("head", version or BASE))
        return [_script(revision, schema) for revision in reversed(missing)]

    def _run(self, connection: Connection, schema: str, direction: Literal["up", "down"]) -> None:
        def steps(heads: tuple[str, ...], _: MigrationContext) -> Iterable[RevisionStep]:
            current = heads[0] if heads else BASE
            if direction == "up":
                return self.scripts._upgrade_revs("head", current)
            return self.scripts._downgrade_revs(BASE, current)

        connection.execution_options(schema_translate_map={TENANT_SCHEMA: schema})
        context = MigrationContext.configure(
            connection,
            opts={"version_table": VERSION_TABLE, "version_table_schema": schema, "fn": steps},
        )
        context.run_migrations(op=Operations(context), schema=schema)


class _Writer:
    """Replaces a connection and collects the scripts that are executed."""

    def __init__(self) -> None:
        self.scripts: list[str] = []

    def exec_driver_sql(self, statement: str, **_: object) -> None:
        self.scripts.append(statement)


class _WritingOperations(Operations):
    """Operations of a migration that is not run; only plain SQL is supported."""

    def __init__(self, writer: _Writer) -> None:
        super().__init__(MigrationContext.configure(dialect_name="postgresql"))
        self.writer = writer

    def get_bind(self) -> Connection:
        return cast(Connection, self.writer)

    def execute(self, sqltext: object, **_: object) -> None:
        if not isinstance(sqltext, str):
            raise TypeError("a migration that is printed can execute text only")
        self.writer.scripts.append(sqltext)


def _script(revision: Script, schema: str) -> str:
    writer = _Writer()
    revision.module.upgrade(op=_WritingOperations(writer), schema=schema)
    return ";\n".join(script.strip().rstrip(";") for script in writer.scripts)


@cache
def history(name: Literal["control", "tenant"]) -> History:
    """Return a history, loaded once per process."""
    loaded = History(ScriptDirectory(Path(__file__).parent / name))
    loaded.scripts.get_heads()
    return loaded
