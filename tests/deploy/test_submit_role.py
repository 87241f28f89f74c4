"""An application submits tasks in its own transaction, with no other right on the schema."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from support.processes import query
from support.roles import DEPLOY, OPERATE, RUN, Site

APPLICATION = "billing_service"


@pytest.fixture(scope="module")
def application(site: Site) -> Iterator[Site]:
    """A platform with a service that has its own table."""
    query(site.url, f"CREATE ROLE {APPLICATION} LOGIN IN ROLE tenantcron_submit")
    query(site.url, f"CREATE TABLE invoice (id int); GRANT ALL ON invoice TO {APPLICATION}")
    site.run_file(DEPLOY, "grants.sql")
    yield site
    query(site.url, f"DROP TABLE invoice; DROP ROLE {APPLICATION}")


def test_a_service_submits_with_its_own_rows_and_is_the_actor(application: Site) -> None:
    with application.session(APPLICATION) as session, session.transaction():
        session.execute("INSERT INTO invoice VALUES (7)")
        # It cannot claim to be another actor.
        session.execute("SET LOCAL tenantcron.actor TO 'user:admin'")
        session.execute("SET LOCAL tenantcron.authenticated TO 'true'")
        row = session.execute("SELECT tenantcron.submit_task('acme', 'good')").fetchone()
    assert row is not None

    (task,) = query(application.url, "SELECT * FROM tenantcron.task WHERE id = %s", row[0])
    assert (task["actor_id"], task["actor_type"]) == (APPLICATION, "worker")
    assert (task["actor_source"], task["authenticated"]) == ("sql", False)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM tenantcron.task",
        "SELECT count(*) FROM tenantcron.execution",
        "SELECT count(*) FROM tenantcron.tenant",
        "INSERT INTO tenantcron.task (id) VALUES (gen_random_uuid())",
        "UPDATE tenantcron.task SET fired_at = NULL",
        "DELETE FROM tenantcron.task",
        "SELECT tenantcron.submit_tasks_at('acme', '[{\"saga\": \"good\"}]', '2030-01-01')",
        "SELECT tenantcron.reject_tasks('TC400', '[]')",
        "SELECT tenantcron.take_lock('claim')",
        "SELECT tenantcron.drop_month('2026-01-01')",
        "SET ROLE tenantcron_operate",
    ],
)
def test_it_has_no_other_right(application: Site, statement: str) -> None:
    with (
        application.session(APPLICATION) as session,
        pytest.raises(InsufficientPrivilege),
    ):
        session.execute(psycopg.sql.SQL(statement))


@pytest.mark.parametrize("role", [RUN, "tenantcron_plan"])
def test_roles_without_the_right_cannot_submit(application: Site, role: str) -> None:
    with application.session(role) as session, pytest.raises(InsufficientPrivilege):
        session.execute("SELECT tenantcron.submit_task('acme', 'good')")


def test_an_operator_is_recorded_as_the_actor_that_it_names(application: Site) -> None:
    with application.session(OPERATE) as session, session.transaction():
        session.execute("SET LOCAL tenantcron.actor TO 'user:maria'")
        session.execute("SET LOCAL tenantcron.actor_type TO 'human'")
        session.execute("SET LOCAL tenantcron.actor_source TO 'api'")
        session.execute("SET LOCAL tenantcron.authenticated TO 'true'")
        row = session.execute(
            "SELECT id FROM tenantcron.submit_tasks_at('acme', '[{\"saga\": \"good\"}]', now())"
        ).fetchone()
    assert row is not None

    (task,) = query(application.url, "SELECT * FROM tenantcron.task WHERE id = %s", row[0])
    assert (task["actor_id"], task["actor_source"]) == ("user:maria", "api")
    assert task["authenticated"] is True
