"""Drop the index that only claims of the release before use.

It costs fire, claim and finish 9 % of their processor time. So it goes at once if no replica of it
was seen for an hour, as in a new database; else the housekeeping of this release drops it
later, by the same function with the rights of its owner. If a replica of that release is started
again afterwards, its claims are right, and slow where much is pending.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0010_drop_waiting_index"
down_revision = "0009_requirements"

# A worker of the release before declares no capabilities.
_CREATE = """
CREATE FUNCTION tenantcron.drop_waiting_index() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $function$
BEGIN
    IF to_regclass('tenantcron.execution_waiting_idx') IS NULL OR EXISTS (
        SELECT FROM tenantcron.worker
        WHERE capabilities IS NULL AND seen_at > statement_timestamp() - interval '1 hour'
    ) THEN
        RETURN false;
    END IF;
    DROP INDEX tenantcron.execution_waiting_idx;
    RETURN true;
END
$function$;
REVOKE ALL ON FUNCTION tenantcron.drop_waiting_index() FROM PUBLIC;
DO $$ BEGIN PERFORM tenantcron.drop_waiting_index(); END $$;
"""
_DROP = """
DROP FUNCTION tenantcron.drop_waiting_index();
CREATE INDEX IF NOT EXISTS execution_waiting_idx
    ON tenantcron.execution_live (tenant_id, priority, not_before)
    WITH (deduplicate_items = off)
    WHERE state IN ('PENDING', 'FAILED');
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the function, and drop the index if it is not needed any more."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Make the index again."""
    run_script(op.get_bind(), _DROP)
