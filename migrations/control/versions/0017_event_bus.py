"""Events can also be published to an event bus, which has one position in a log of events.

Replicas of the release before delete placed events from `outbox` and know no bus. So a trigger on
`outbox` copies deleted events to the log of the buses, whichever release deletes them. Without a
bus it copies nothing, and the triggers on executions are created only for a subscriber, as before.

Locks: SHARE ROW EXCLUSIVE on `outbox`, for a moment: no row is read or written.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0017_event_bus"
down_revision = "0016_tightened"

_CREATED = ("event_bus/tables", "event_bus/placing", "event_bus/subscribers", "event_bus/api_role")
# As they were before.
_RESTORED = (
    "rights/telling",
    "reason_codes/execution_events",
    "event_bus/undo",
    "rights/functions",
)


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the tables, and let the triggers of events consider buses."""
    for name in _CREATED:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them with all events that are pending for a bus."""
    for name in _RESTORED:
        run_script(op.get_bind(), _script(name))


def _script(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
