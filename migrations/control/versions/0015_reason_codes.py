"""Reasons of executions get a code; the text beside it is the detail.

The release before neither reads nor writes the codes. It shows the details alone where this release
shows a sentence, and its rows have a text without a code, which this release shows as it is. A stop
that it asks for has no code either, and counts as an operator's.

Locks: ACCESS EXCLUSIVE on `execution` and its partitions, for a moment: no row is read or written.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0015_reason_codes"
down_revision = "0014_retrying"

_EVENTS = (Path(__file__).parent / "reason_codes" / "execution_events.sql").read_text(
    encoding="utf-8"
)
_CODE_IN_EVENTS = "'reason_code', e.reason_code,"
_ADD = """
ALTER TABLE tenantcron.execution
    ADD COLUMN reason_code varchar(32),
    ADD COLUMN cancel_reason_code varchar(32);
"""
_DROP = """
ALTER TABLE tenantcron.execution DROP COLUMN reason_code, DROP COLUMN cancel_reason_code;
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Add the columns, and put the code into events."""
    run_script(op.get_bind(), _ADD + _EVENTS)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them; rows keep their details only."""
    run_script(op.get_bind(), _EVENTS.replace(_CODE_IN_EVENTS, "") + _DROP)
