"""The control schema as it began; each subject is a script in `initial/`."""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0001_initial"
down_revision = None

# In this order: what comes later names what came before.
_SCRIPTS = (
    "tables",
    "append_only",
    "recording",
    "operating",
    "identities",
    "signing_keys",
    "api_tables",
    "api_sight",
    "metering",
    "webhooks",
    "telling",
    "api_role",
)


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the tables, and what writes the audit and keeps it append only."""
    for name in _SCRIPTS:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop everything; refused while tenants' audit tables still depend on it."""
    run_script(op.get_bind(), _script("undo"))


def _script(name: str) -> str:
    return (Path(__file__).parent / "initial" / f"{name}.sql").read_text(encoding="utf-8")
