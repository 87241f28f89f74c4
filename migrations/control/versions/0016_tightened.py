"""Functions check for themselves what only their callers checked, and records show fewer secrets.

Each subject is a script in `tightened/`. The release before calls them as it did: it drops months
that are old enough, and its handlers keep their roles.
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0016_tightened"
down_revision = "0015_reason_codes"

_SCRIPTS = ("tightened/handler_roles", "tightened/months", "tightened/records")
# The functions of the roles go back to their first text; these two as 0011_rights left them.
_UNDO = """
CREATE OR REPLACE FUNCTION tenantcron.drop_month(first_day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $function$
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
CREATE OR REPLACE TRIGGER webhook_recorded
    AFTER INSERT OR DELETE
        OR UPDATE OF url, event_types, tenant_ids, secret_ref, in_batches, disabled_at
    ON tenantcron.webhook
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_secret('webhook', 'name', 'url');
CREATE OR REPLACE FUNCTION tenantcron.record_secret() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - TG_ARGV[2] END;
    becomes jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - TG_ARGV[2] END;
BEGIN
    PERFORM tenantcron.put_on_record(
        TG_ARGV[0],
        coalesce(becomes, was) ->> TG_ARGV[1],
        CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
        was,
        becomes
    );
    RETURN NULL;
END
$function$;
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Replace the functions."""
    for name in _SCRIPTS:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Bring back the functions as they were."""
    run_script(op.get_bind(), _UNDO)
    for name in ("handler_roles/ensure", "handler_roles/drop"):
        created, replaced = "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
        run_script(op.get_bind(), _script(name).replace(created, replaced))


def _script(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
