"""A database role for the handlers of each tenant; who acts is proven by the lease.

Each subject is a script in `handler_roles/`; docs/decisions/0033 has the design. The release before
goes on meanwhile: its handlers use the scheduler's login, and `acting` believes that as before.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0012_handler_roles"
down_revision = "0011_rights"

# In this order: what comes later names what came before.
_SCRIPTS = ("login", "ensure", "drop", "acting")


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the functions, and let `acting` look up the lease of a handler."""
    for name in _SCRIPTS:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them; the roles are dropped by `uninstall`."""
    run_script(op.get_bind(), _script("undo"))


def _script(name: str) -> str:
    return (Path(__file__).parent / "handler_roles" / f"{name}.sql").read_text(encoding="utf-8")
