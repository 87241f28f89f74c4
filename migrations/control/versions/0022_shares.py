"""Shares of slots: the state of tenants and priorities while slots are scarce.

The release before neither reads nor writes the tables. Its starts and ends are not counted, so the
shares are exact only when all replicas have this release.

Locks: none on existing tables.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0022_shares"
down_revision = "0021_tasks"

# Rows are updated often and never change an indexed column: the free space of their pages keeps
# these updates out of the index.
_CREATE = """
CREATE TABLE tenantcron.share_period (
    only_row boolean NOT NULL DEFAULT true,
    since timestamptz NOT NULL,
    waited_at timestamptz NOT NULL,
    virtual_time float8 NOT NULL,
    CONSTRAINT share_period_pkey PRIMARY KEY (only_row),
    CONSTRAINT share_period_only_row_check CHECK (only_row)
) WITH (fillfactor = 10);
CREATE TABLE tenantcron.tenant_share (
    tenant_id varchar(48) NOT NULL,
    passes smallint[] NOT NULL,
    since timestamptz NOT NULL,
    virtual_time float8 NOT NULL,
    counted float8 NOT NULL,
    CONSTRAINT tenant_share_pkey PRIMARY KEY (tenant_id)
) WITH (fillfactor = 50);
CREATE TABLE tenantcron.tenant_usage (
    tenant_id varchar(48) NOT NULL,
    since timestamptz NOT NULL,
    seconds float8 NOT NULL,
    CONSTRAINT tenant_usage_pkey PRIMARY KEY (tenant_id)
) WITH (fillfactor = 50);
-- A role that ends attempts may write these as well, before grants.sql is run again.
DO $$
DECLARE
    named text;
BEGIN
    FOR named IN
        SELECT DISTINCT r.rolname
        FROM pg_catalog.pg_class AS c
        CROSS JOIN pg_catalog.aclexplode(c.relacl) AS a
        JOIN pg_catalog.pg_roles AS r ON r.oid = a.grantee
        WHERE
            c.oid = 'tenantcron.execution_attempt'::regclass AND a.privilege_type = 'INSERT'
            AND a.grantee <> c.relowner
    LOOP
        EXECUTE format(
            'GRANT SELECT, INSERT, UPDATE ON tenantcron.share_period, tenantcron.tenant_share,'
            ' tenantcron.tenant_usage TO %I', named
        );
    END LOOP;
END $$;
"""
_DROP = """
DROP TABLE tenantcron.tenant_usage;
DROP TABLE tenantcron.tenant_share;
DROP TABLE tenantcron.share_period;
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the tables."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them: shares begin again after the next upgrade."""
    run_script(op.get_bind(), _DROP)
