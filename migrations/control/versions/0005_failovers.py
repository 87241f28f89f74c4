"""Failovers: the timelines of the database, and attempts that were lost with an old primary.

The release before this one neither reads nor writes the two tables.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0005_failovers"
down_revision = "0004_dead_of_tenant"

_CREATE = """
CREATE TABLE tenantcron.failover (
    timeline integer NOT NULL,
    noticed_at timestamptz NOT NULL,
    worker_id varchar(128) NOT NULL,
    CONSTRAINT failover_pkey PRIMARY KEY (timeline)
);
CREATE TABLE tenantcron.failover_loss (
    execution_id uuid NOT NULL,
    attempt integer NOT NULL,
    timeline integer NOT NULL,
    scheduled_for timestamptz NOT NULL,
    tenant_id varchar(48) NOT NULL,
    schedule_name varchar(128) NOT NULL,
    lost varchar(8) NOT NULL,
    worker_id varchar(128) NOT NULL,
    noticed_at timestamptz NOT NULL,
    CONSTRAINT failover_loss_pkey PRIMARY KEY (execution_id, attempt, timeline),
    CONSTRAINT failover_loss_lost_check CHECK (lost IN ('claim', 'result'))
);
CREATE INDEX failover_loss_noticed_idx ON tenantcron.failover_loss (noticed_at);
ALTER TABLE tenantcron.failover_loss ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON tenantcron.failover_loss USING (tenantcron.sees(tenant_id));
-- As before, with one more table.
CREATE OR REPLACE FUNCTION tenantcron.ensure_api_role() RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenantcron_api') THEN
        BEGIN
            CREATE ROLE tenantcron_api NOLOGIN NOINHERIT;
        EXCEPTION
            WHEN insufficient_privilege THEN RETURN false;
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'tenantcron_api', 'MEMBER') THEN
        BEGIN
            GRANT tenantcron_api TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN NULL;
        END;
    END IF;
    GRANT USAGE ON SCHEMA tenantcron TO tenantcron_api;
    GRANT SELECT ON tenantcron.tenant, tenantcron.manifest_version, tenantcron.schedule_cursor,
        tenantcron.schedule_definition, tenantcron.execution, tenantcron.execution_attempt,
        tenantcron.audit_record, tenantcron.limits, tenantcron.worker, tenantcron.failover_loss
        TO tenantcron_api;
    -- The state of webhooks, but neither their addresses nor what is sent to them.
    GRANT SELECT (name, disabled_at, disabled_reason, dropped, dropped_at)
        ON tenantcron.webhook TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, place, placed_at)
        ON tenantcron.webhook_event TO tenantcron_api;
    GRANT SELECT (webhook_name, tenant_id, last_placed, last_delivered, failures, last_error)
        ON tenantcron.webhook_lane TO tenantcron_api;
    RETURN true;
END
$function$;
SELECT tenantcron.ensure_api_role();
"""
_DROP = "DROP TABLE tenantcron.failover_loss, tenantcron.failover"


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the tables, and let the API read them."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them."""
    run_script(op.get_bind(), _DROP)
