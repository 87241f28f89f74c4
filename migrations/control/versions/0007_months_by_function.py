"""Months of history are made and dropped by functions, with the rights of their owner.

So a scheduler needs no right to create or drop tables. The release before this one goes on to do it
by statements of its own, for which it has to own the tables.
"""

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0007_months_by_function"
down_revision = "0006_adopted_schemas"

# A partition is made as a table of its own and then attached: that waits for no other session.
_CREATE = """
CREATE FUNCTION tenantcron.make_month(of_table text, first_day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog SET datestyle = 'ISO' SET timezone = 'UTC' AS $function$
DECLARE
    name text := of_table || to_char(first_day, '_YYYY_MM');
BEGIN
    IF of_table NOT IN ('execution_past', 'execution_attempt')
        OR first_day <> date_trunc('month', first_day)
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('%s has no month that begins with %s', of_table, first_day);
    END IF;
    EXECUTE format(
        'CREATE TABLE tenantcron.%I'
        ' (LIKE tenantcron.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
        name, of_table
    );
    EXECUTE format(
        'ALTER TABLE tenantcron.%I ATTACH PARTITION tenantcron.%I FOR VALUES FROM (%L) TO (%L)',
        of_table, name, first_day::timestamptz, (first_day + interval '1 month')::timestamptz
    );
END
$function$;
-- The caller has made sure that nothing will end in that month yet; see store/rows/history.py.
CREATE FUNCTION tenantcron.drop_month(first_day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog SET datestyle = 'ISO' SET timezone = 'UTC' AS $function$
DECLARE
    of_table text;
BEGIN
    FOREACH of_table IN ARRAY ARRAY['execution_past', 'execution_attempt'] LOOP
        EXECUTE format(
            'DROP TABLE IF EXISTS tenantcron.%I', of_table || to_char(first_day, '_YYYY_MM')
        );
    END LOOP;
END
$function$;
REVOKE ALL ON FUNCTION tenantcron.make_month(text, date), tenantcron.drop_month(date) FROM PUBLIC;
"""
_DROP = "DROP FUNCTION tenantcron.make_month(text, date), tenantcron.drop_month(date)"


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the functions."""
    run_script(op.get_bind(), _CREATE)


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Drop them."""
    run_script(op.get_bind(), _DROP)
