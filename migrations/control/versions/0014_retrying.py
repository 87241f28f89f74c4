"""The state RETRYING: an execution that waits for its next attempt. It used to be FAILED.

Replicas of the release before still write and read FAILED. This release reads both as RETRYING
and writes RETRYING only. An old replica neither starts nor counts executions that are RETRYING, so
replicas of this release retry them; an old replica may start the next occurrence of such a schedule
before the retry. Two executions of a schedule never run at once for that: both releases count those
that are RUNNING alike. Rows that are FAILED stay as they are until their next attempt.

Locks: the transaction takes ACCESS EXCLUSIVE on `execution` and its partitions, so all steps of the
scheduler wait for it. It reads `execution_live` only, which has the executions that have not ended.
It does not read the history, because the check of the states is dropped and not replaced. The lists
of the partitions say the same: Postgres refuses a row whose state is in none of them. If a long
query holds the tables, the migration gives up after 10 s and changes nothing.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0014_retrying"
down_revision = "0013_record_retention"

# The lock comes first: taken later, it could wait for a transaction that waits for the partition.
_LOCK = "LOCK TABLE tenantcron.execution IN ACCESS EXCLUSIVE MODE;"
_METERING = """
CREATE OR REPLACE VIEW tenantcron.metering AS
SELECT
    e.tenant_id,
    date_trunc('month', e.scheduled_for AT TIME ZONE 'UTC')::date AS month,
    count(*) FILTER (WHERE e.state = 'SUCCEEDED') AS succeeded,
    count(*) FILTER (WHERE e.state = 'DEAD') AS dead,
    count(*) FILTER (WHERE e.state = 'CANCELLED') AS cancelled,
    count(*) FILTER (WHERE e.state = 'SKIPPED') AS skipped,
    count(*) FILTER (WHERE e.state = 'MISSED') AS missed,
    count(*) FILTER (WHERE e.state IN ({unfinished})) AS unfinished,
    sum(coalesce(a.attempts, 0) + coalesce(own.attempts, 0))::bigint AS attempts,
    sum(coalesce(a.seconds, 0) + coalesce(own.seconds, 0))::float8 AS run_seconds
FROM tenantcron.execution AS e
LEFT JOIN (
    SELECT
        execution_id, scheduled_for, count(*) AS attempts, max(attempt) AS last,
        sum(extract(epoch FROM finished_at - started_at)) AS seconds
    FROM tenantcron.execution_attempt
    WHERE outcome <> 'REFUSED'
    GROUP BY execution_id, scheduled_for
) AS a ON a.execution_id = e.id AND a.scheduled_for = e.scheduled_for
LEFT JOIN LATERAL (
    SELECT 1 AS attempts, extract(epoch FROM e.finished_at - e.started_at) AS seconds
    WHERE e.state = 'SUCCEEDED' AND e.attempt IS DISTINCT FROM a.last
) AS own ON true
GROUP BY 1, 2;
"""
# An index whose predicate has more states also serves the statements of the release before.
_WIDEN = """
ALTER TABLE tenantcron.execution DROP CONSTRAINT execution_state_check;
ALTER TABLE tenantcron.execution DETACH PARTITION tenantcron.execution_live;
ALTER TABLE tenantcron.execution ATTACH PARTITION tenantcron.execution_live
    FOR VALUES IN ('PENDING', 'RUNNING', 'RETRYING', 'FAILED');
DROP INDEX tenantcron.execution_active_idx;
CREATE INDEX execution_active_idx
    ON tenantcron.execution_live (state, schedule_id)
    WITH (deduplicate_items = off)
    WHERE state IN ('RUNNING', 'RETRYING', 'FAILED');
"""
_NARROW = """
UPDATE tenantcron.execution_live SET state = 'FAILED' WHERE state = 'RETRYING';
DROP INDEX tenantcron.execution_active_idx;
CREATE INDEX execution_active_idx
    ON tenantcron.execution_live (state, schedule_id)
    WITH (deduplicate_items = off)
    WHERE state IN ('RUNNING', 'FAILED');
ALTER TABLE tenantcron.execution DETACH PARTITION tenantcron.execution_live;
ALTER TABLE tenantcron.execution ATTACH PARTITION tenantcron.execution_live
    FOR VALUES IN ('PENDING', 'RUNNING', 'FAILED');
ALTER TABLE tenantcron.execution ADD CONSTRAINT execution_state_check CHECK (
    state IN (
        'PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'DEAD', 'SKIPPED', 'MISSED', 'CANCELLED'
    )
);
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Admit the state."""
    metering = _METERING.format(unfinished="'PENDING', 'RUNNING', 'RETRYING', 'FAILED'")
    run_script(op.get_bind(), _LOCK + _WIDEN + metering)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Call it FAILED again."""
    metering = _METERING.format(unfinished="'PENDING', 'RUNNING', 'FAILED'")
    run_script(op.get_bind(), _LOCK + _NARROW + metering)
