"""Functions of the schema are closed to PUBLIC, and locks are rows that other logins cannot lock.

Each subject is a script in `rights/`. The release before goes on meanwhile: roles that may use the
schema keep the functions that reading and recording need, and its replicas keep their locks (see
`store/connection/locks.py`).
"""

from pathlib import Path

from alembic.operations import Operations

from tenantcron.store.connection.scripts import run_script

revision = "0011_rights"
down_revision = "0010_drop_waiting_index"

# In this order: what comes later names what came before.
_SCRIPTS = ("locks", "identities", "telling", "tenant_grants", "functions")
# The locks as they were. What is closed stays closed: the owner may call everything.
_UNDO = """
DROP TRIGGER worker_awaits_claims ON tenantcron.worker;
CREATE OR REPLACE FUNCTION tenantcron.follow_tenant() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM pg_advisory_xact_lock_shared(1952672004, 0);
        INSERT INTO tenantcron.identity
            SELECT NEW.id, 'system:scheduler:' || name, 'service', NEW.status, now(), now()
            FROM tenantcron.service;
    ELSE
        UPDATE tenantcron.identity SET status = NEW.status, updated_at = now()
            WHERE tenant_id = NEW.id;
    END IF;
    RETURN NULL;
END
$function$;
CREATE OR REPLACE FUNCTION tenantcron.follow_service() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(1952672004, 0);
    INSERT INTO tenantcron.identity
        SELECT id, 'system:scheduler:' || NEW.name, 'service', status, now(), now()
        FROM tenantcron.tenant;
    PERFORM tenantcron.put_on_record('service', NEW.name, 'create', NULL, to_jsonb(NEW));
    RETURN NULL;
END
$function$;
DROP FUNCTION tenantcron.await_claims(), tenantcron.take_lock(text), tenantcron.try_lock(text),
    tenantcron.has_former_replica();
DROP TABLE tenantcron.lock;
"""


def upgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- the control schema has one name
    """Create the locks, and close the functions."""
    for name in _SCRIPTS:
        run_script(op.get_bind(), _script(name))


def downgrade(op: Operations, schema: str) -> None:  # noqa: ARG001 -- as above
    """Lock by numbers again."""
    run_script(op.get_bind(), _UNDO)


def _script(name: str) -> str:
    return (Path(__file__).parent / "rights" / f"{name}.sql").read_text(encoding="utf-8")
