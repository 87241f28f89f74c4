"""The roles of deploy/sql cannot forge events, stop claims, read secrets or edit audits."""

import json
from contextlib import closing

import psycopg
import pytest
from psycopg.errors import (
    InsufficientPrivilege,
    LockNotAvailable,
    ObjectNotInPrerequisiteState,
)
from support.patience import PATIENCE
from support.processes import query
from support.roles import API, DEPLOY, OPERATE, PLAN, RUN, Site
from support.serve_process import serving

LOGINS = (RUN, OPERATE, PLAN)
# For each trigger function: its table, and the event that fires it.
DEFINERS = {
    "tell_executions": ("execution", "INSERT"),
    "tell_pause": ("schedule_cursor", "UPDATE"),
    "tell_tenant": ("tenant", "INSERT"),
    "follow_webhooks": ("webhook", "INSERT"),
    "place_for_buses": ("outbox", "INSERT"),
    "follow_tenant": ("tenant", "INSERT"),
    "follow_service": ("service", "INSERT"),
    "await_claims": ("worker", "INSERT"),
}
STATEMENT_LEVEL = {"tell_executions", "follow_webhooks", "place_for_buses"}
FAKE_EXECUTION = """
CREATE TEMP TABLE fake (
    id uuid, tenant_id text, schedule_name text, saga_name text, scheduled_for timestamptz,
    state text, reason text, attempt int, started_at timestamptz, finished_at timestamptz,
    covers_from timestamptz, missed_count int, actor_id text, actor_type text, actor_source text
)
"""
FORGE_EXECUTION = (
    "INSERT INTO fake (id, tenant_id, schedule_name, state)"
    " VALUES (gen_random_uuid(), 'acme', 'good', 'DEAD')"
)


@pytest.fixture(scope="module", autouse=True)
def a_webhook_for_all_events(site: Site) -> None:
    site.succeed(OPERATE, "webhook", "add", "ops", "https://hooks.internal/cron?key=hunter2")


def outbox(site: Site) -> list[dict[str, object]]:
    return query(site.url, "SELECT * FROM tenantcron.outbox")


def trigger_on_fake(function: str, event: str = "INSERT") -> str:
    level = "STATEMENT" if function in STATEMENT_LEVEL else "ROW"
    rows = "REFERENCING NEW TABLE AS becomes " if function == "tell_executions" else ""
    return (
        f"CREATE TRIGGER forged AFTER {event} ON fake {rows}"
        f"FOR EACH {level} EXECUTE FUNCTION tenantcron.{function}()"
    )


@pytest.mark.parametrize("role", [*LOGINS, API])
def test_no_role_gets_an_event_signed_that_did_not_happen(site: Site, role: str) -> None:
    before = outbox(site)
    with site.session(role) as session:
        session.execute(FAKE_EXECUTION)
        with pytest.raises(InsufficientPrivilege, match="tell_executions"):
            session.execute(trigger_on_fake("tell_executions"))
        session.execute(FORGE_EXECUTION)

    assert outbox(site) == before


def test_the_real_tables_still_write_events(site: Site) -> None:
    site.succeed(OPERATE, "schedule", "pause", "acme/good", "--reason", "x")

    assert "schedules/good" in {row["subject"] for row in outbox(site)}
    site.succeed(OPERATE, "schedule", "resume", "acme/good")


@pytest.mark.parametrize("function", DEFINERS)
def test_a_definer_trigger_acts_on_its_own_table_only(site: Site, function: str) -> None:
    """Run as the owner, which may attach the function to any table."""
    table, event = DEFINERS[function]
    before = outbox(site)
    with site.session(DEPLOY) as session:
        session.execute(f"CREATE TEMP TABLE fake (LIKE tenantcron.{table})")
        for constrained in session.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'pg_temp.fake'::regclass"
            " AND attnotnull AND attnum > 0"
        ).fetchall():
            session.execute(f"ALTER TABLE fake ALTER {constrained[0]} DROP NOT NULL")
        session.execute("INSERT INTO fake DEFAULT VALUES")
        session.execute(trigger_on_fake(function, event))
        change = (
            "UPDATE fake SET paused_at = now()"
            if event == "UPDATE"
            else "INSERT INTO fake DEFAULT VALUES"
        )
        with pytest.raises(InsufficientPrivilege, match=rf"serves tenantcron\.{table}\b.* only"):
            session.execute(change)

    assert outbox(site) == before


def test_every_definer_trigger_is_checked_above(site: Site) -> None:
    found = query(
        site.url,
        "SELECT proname FROM pg_proc WHERE pronamespace = 'tenantcron'::regnamespace"
        " AND prosecdef AND prorettype = 'trigger'::regtype",
    )
    assert {row["proname"] for row in found} == DEFINERS.keys()


def test_a_temporary_type_does_not_run_with_the_privileges_of_the_owner(site: Site) -> None:
    """By default PostgreSQL looks for types among temporary objects first."""
    with site.session(RUN) as session:
        session.execute(
            "CREATE FUNCTION pg_temp.note(pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS"
            " 'BEGIN RAISE WARNING ''as %'', current_user; RETURN true; END'"
        )
        for name, base in (("text", "pg_catalog.text"), ("date", "pg_catalog.date")):
            session.execute(
                f"CREATE DOMAIN pg_temp.{name} AS {base}"
                f" CHECK (pg_temp.note(VALUE::pg_catalog.text))"
            )
        heard: list[str] = []
        session.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
        with session.transaction(force_rollback=True):
            session.execute("SELECT tenantcron.make_month('execution_past', '2020-01-01')")

    assert [line for line in heard if line.startswith("as ")] == []


def test_an_advisory_lock_of_another_login_does_not_stop_claims(site: Site) -> None:
    with site.session(PLAN) as foreign:
        for step in range(100):
            for key in (0, -(2**31)):
                foreign.execute("SELECT pg_advisory_lock(%s, %s)", (1_952_672_000 + step, key))
        site.succeed(OPERATE, "schedule", "trigger", "acme/good")
        site.succeed(RUN, "run", "--handlers", "rights_work", "--once", "--service", "other")
        site.succeed(OPERATE, "keys", "rotate", "--now")

    done = query(site.url, "SELECT 1 FROM tenantcron.execution WHERE state = 'SUCCEEDED'")
    assert done


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT FROM tenantcron.lock FOR UPDATE",
        "SELECT FROM tenantcron.lock FOR KEY SHARE",
        "SELECT tenantcron.take_lock('claim')",
        "SELECT tenantcron.try_lock('claim')",
        "LOCK TABLE tenantcron.lock IN SHARE MODE",
    ],
)
@pytest.mark.parametrize("role", [PLAN, API])
def test_a_read_only_role_cannot_take_a_lock(site: Site, role: str, statement: str) -> None:
    with (
        site.session(role) as session,
        pytest.raises(InsufficientPrivilege),
        session.transaction(),
    ):
        session.execute(statement)


def test_only_one_transaction_at_a_time_holds_a_lock(site: Site) -> None:
    with (
        site.session(RUN) as holder,
        site.session(RUN) as other,
        holder.transaction(),
    ):
        holder.execute("SELECT tenantcron.take_lock('outbox')")
        (taken,) = other.execute("SELECT tenantcron.try_lock('outbox')").fetchone() or (None,)
        other.execute("SET lock_timeout TO '10ms'")
        with pytest.raises(LockNotAvailable):
            other.execute("SELECT tenantcron.take_lock('outbox')")
        other.execute("SELECT tenantcron.take_lock('claim')")

    assert taken is False


SECRETS = {
    PLAN: (
        *("webhook.url", "webhook.secret_ref", "outbox.data", "webhook_event.data"),
        *("webhook_lane.lease_token", "api_token.digest", "idempotency_key.answer"),
        *("signing_key.sealed", "api_usage.caller", "execution.lease_token"),
        *("bus_event.data", "event_bus.lease_token"),
    ),
    RUN: ("api_token.digest", "idempotency_key.answer", "api_usage.caller"),
    API: (
        *("webhook.url", "webhook.secret_ref", "outbox.data", "webhook_event.data"),
        *("api_token.digest", "idempotency_key.answer", "signing_key.sealed"),
        *("bus_event.data", "event_bus.lease_token"),
    ),
}


@pytest.mark.parametrize(
    ("role", "column"), [(role, column) for role, columns in SECRETS.items() for column in columns]
)
def test_a_role_cannot_read_secrets_that_it_does_not_need(
    site: Site, role: str, column: str
) -> None:
    table, name = column.split(".")
    with site.session(role) as session, pytest.raises(InsufficientPrivilege):
        session.execute(f"SELECT {name} FROM tenantcron.{table}")  # noqa: S608 -- from above


@pytest.mark.parametrize("first_day", ["now()", "now() - interval '1 day'", "now() + '40 days'"])
def test_a_scheduler_drops_no_month_that_is_not_over(site: Site, first_day: str) -> None:
    drop = f"SELECT tenantcron.drop_month(date_trunc('month', {first_day})::date)"
    with site.session(RUN) as session, pytest.raises(ObjectNotInPrerequisiteState):
        session.execute(drop)


def test_the_role_for_plans_lists_webhooks_without_their_urls(site: Site) -> None:
    listed = site.succeed(PLAN, "webhook", "list", "--format", "json").out
    shown = site.succeed(PLAN, "webhook", "list").out

    assert '"ops"' in listed
    assert "hidden" in shown
    assert "hunter2" not in listed + shown
    assert "hooks.internal" in site.succeed(OPERATE, "webhook", "list").out


@pytest.mark.parametrize("role", [RUN, OPERATE])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET changed_by = 'x'",
        "DELETE FROM {}",
        "TRUNCATE {}",
        "ALTER TABLE {} DISABLE TRIGGER audit_record_append_only",
        "ALTER TABLE {} DISABLE TRIGGER ALL",
        "DROP TRIGGER audit_record_append_only ON {}",
        "CREATE RULE r AS ON INSERT TO {} DO INSTEAD NOTHING",
        "DROP TABLE {}",
        "SET session_replication_role TO replica",
    ],
)
@pytest.mark.parametrize("table", ["tenantcron.audit_record", "tenant_acme.audit_record"])
def test_runtime_roles_only_append_to_the_audit(
    site: Site, role: str, statement: str, table: str
) -> None:
    with site.session(role) as session, pytest.raises(InsufficientPrivilege):
        session.execute(statement.format(table))


def test_even_the_owner_cannot_change_an_audit_record(site: Site) -> None:
    with site.session(DEPLOY) as session, pytest.raises(ObjectNotInPrerequisiteState):
        session.execute("UPDATE tenantcron.audit_record SET changed_by = 'x'")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tenantcron.webhook SET url = 'https://attacker.example/'",
        "INSERT INTO tenantcron.outbox (tenant_id) VALUES ('acme')",
        "UPDATE tenantcron.tenant SET status = 'active'",
        "UPDATE tenantcron.identity SET status = 'active'",
        "DELETE FROM tenantcron.execution",
    ],
)
def test_the_scheduler_can_change_only_what_its_steps_change(site: Site, statement: str) -> None:
    with site.session(RUN) as session, pytest.raises(InsufficientPrivilege):
        session.execute(statement)


def test_partitions_of_the_history_have_no_separate_privileges(site: Site) -> None:
    """Privileges come from the parent table, with its row-level security."""
    with site.session(RUN) as session:
        session.execute("SELECT tenantcron.make_month('execution_past', '2019-01-01')")
    for role in (*LOGINS, API):
        with site.session(role) as session, pytest.raises(InsufficientPrivilege):
            session.execute("SELECT FROM tenantcron.execution_past_2019_01")


def test_tables_of_a_later_migration_have_no_privileges_until_granted(site: Site) -> None:
    with site.session(DEPLOY) as session:
        session.execute("CREATE TABLE tenantcron.later (secret text)")
        try:
            for role in (*LOGINS, API):
                with site.session(role) as other, pytest.raises(InsufficientPrivilege):
                    other.execute("TABLE tenantcron.later")
        finally:
            session.execute("DROP TABLE tenantcron.later")


def test_the_grants_cover_tenants_that_were_created_before_the_roles(site: Site) -> None:
    everything = "ALL ON ALL TABLES IN SCHEMA tenant_acme FROM"
    query(site.url_of(DEPLOY), f"REVOKE {everything} {', '.join(LOGINS)}")
    site.refuse(PLAN, "plan", "acme.yaml")

    site.run_file(DEPLOY, "grants.sql")

    site.succeed(PLAN, "plan", "acme.yaml")
    with closing(psycopg.connect(site.url_of(OPERATE))) as session:
        session.execute("DELETE FROM tenant_acme.tenant_schedule WHERE schedule_name = 'bad'")
        session.rollback()


def excess_rights(log: str) -> list[tuple[object, object]]:
    lines = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    return [
        (line["login"], line["rights"])
        for line in lines
        if line["event"] == "login_has_excess_rights" and "docs/database.md" in line["hint"]
    ]


@pytest.mark.parametrize(
    ("login", "rights"),
    [
        (RUN, []),
        (DEPLOY, ["owns the tables"]),
        ("member_of_owner", ["owns the tables"]),
        ("blind_to_policies", ["bypasses row-level security"]),
        ("postgres", ["superuser"]),
    ],
)
def test_a_scheduler_warns_of_excess_privileges(site: Site, login: str, rights: list[str]) -> None:
    with psycopg.connect(site.url, autocommit=True) as superuser:
        superuser.execute(
            f"CREATE ROLE member_of_owner LOGIN IN ROLE {DEPLOY};"
            f"CREATE ROLE blind_to_policies LOGIN BYPASSRLS IN ROLE {RUN}"
        )
        try:
            done = site.call(login, "run", "--handlers", "rights_work", "--once")
        finally:
            superuser.execute("DROP ROLE member_of_owner; DROP ROLE blind_to_policies")

    assert done.code == 0, done
    assert excess_rights(done.err) == ([(login, rights)] if rights else [])


@pytest.mark.parametrize(("login", "expected"), [(OPERATE, 0), (DEPLOY, 1)])
def test_the_api_warns_of_excess_privileges(site: Site, login: str, expected: int) -> None:
    with serving(site.shell(login)) as (_, process):
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE)

    assert len(excess_rights(log)) == expected


@pytest.mark.parametrize("column", ["id", "schema_name"])
def test_operators_cannot_point_a_tenant_at_another_schema(site: Site, column: str) -> None:
    with site.session(OPERATE) as session, pytest.raises(InsufficientPrivilege):
        session.execute(f"UPDATE tenantcron.tenant SET {column} = {column} WHERE id = 'acme'")  # noqa: S608 -- a name above
