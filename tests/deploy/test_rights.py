"""Every command runs as its role of deploy/sql, with exactly the privileges granted there.

It uses a separate server, because roles belong to a server. It is one test, because each role works
with the results of the previous roles, as on a platform.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from structlog.testing import capture_logs
from support.buses import ProbeBus
from support.fleet import manifest
from support.processes import query
from support.roles import DEPLOY, MASTER_KEY, OPERATE, PLAN, RUN, SCHEDULES, Site
from support.serve_process import serving

from tenantcron.cli.main import COMMANDS
from tenantcron.core.settings import Settings
from tenantcron.events.opening import NamedBus
from tenantcron.events.publisher import BusPublisher
from tenantcron.scheduler.replica.audit_retention import RecordRetention
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.rows import event_buses, history_months, outbox

DOCS = Path(__file__).parents[2] / "docs"
WITHOUT_DATABASE = {
    *("init", "dev", "validate", "next", "explain", "schema"),
    *("completion", "man", "context"),
}
# As if no scheduler had run for three hours.
MAKE_DUE = (
    "UPDATE tenantcron.schedule_cursor SET effective_from = now() - interval '1 day',"
    " next_run_at = date_trunc('hour', now()) - interval '3 hours'"
)


def changing_tables_needs_the_deploy_role(site: Site) -> None:
    site.succeed(DEPLOY, "migrate", "--check")
    site.succeed(DEPLOY, "tenant", "create", "brief")
    site.succeed(
        DEPLOY,
        *("tenant", "deprovision", "brief", "--reason", "x", "--drop-schema", "--confirm", "brief"),
    )
    for role in (RUN, OPERATE, PLAN):
        site.refuse(role, "tenant", "create", "more")
        with (
            psycopg.connect(site.url_of(role)) as connection,
            pytest.raises(InsufficientPrivilege),
        ):
            connection.execute("CREATE TABLE tenantcron.own (id int)")


def the_grants_can_be_run_again(site: Site) -> None:
    site.run_file(DEPLOY, "grants.sql")


def operators_apply_and_change_existing_tenants(site: Site) -> None:
    as_operator = partial(site.succeed, OPERATE)
    as_operator("apply-manifest", "umbra.yaml")
    as_operator("tenant", "suspend", "umbra", "--reason", "unpaid")
    as_operator("tenant", "resume", "umbra")
    as_operator("tenant", "set", "umbra", "--max-concurrent", "3")
    as_operator("limits", "--max-concurrent", "30")
    as_operator("keys", "rotate", "--now")
    as_operator("keys", "list")
    as_operator("webhook", "add", "ops", "https://hooks.internal/cron")
    as_operator("webhook", "disable", "ops", "--reason", "x")
    as_operator("webhook", "enable", "ops")
    as_operator("webhook", "list")
    token = json.loads(
        as_operator("token", "create", "ci", "--role", "viewer", "--format", "json").out
    )
    as_operator("token", "list")
    as_operator("token", "revoke", token["token"].split("_")[1])
    as_operator("schedule", "pause", "acme/good", "--reason", "x")
    as_operator("schedule", "resume", "acme/good")
    shown = as_operator("schedule", "trigger", "acme/good", "--format", "json")
    execution = json.loads(shown.out)["execution"]
    as_operator("execution", "cancel", execution)
    as_operator("execution", "retry", execution)
    waiting = as_operator("task", "submit", "acme", "good", "--at", "+1d", "--format", "json")
    task = f"acme/{json.loads(waiting.out)['task']['id']}"
    as_operator("task", "reschedule", task, "--at", "+2d")
    as_operator("task", "cancel", task)
    as_operator("task", "show", task)


def the_scheduler_runs_without_the_privilege_to_change_tables(site: Site) -> None:
    query(site.url, MAKE_DUE)

    done = site.succeed(RUN, "run", "--handlers", "rights_work", "--once")

    states = query(site.url, "SELECT schedule_name, state FROM tenantcron.execution")
    assert {(row["schedule_name"], row["state"]) for row in states} >= {
        ("good", "SUCCEEDED"),
        ("bad", "DEAD"),
    }, done
    paused = query(
        site.url, "SELECT paused_by FROM tenantcron.schedule_cursor WHERE schedule_name = 'bad'"
    )
    assert {row["paused_by"] for row in paused} == {"system:scheduler:scheduler"}
    assert "permission denied" not in done.err
    results = query(site.url, "SELECT result->>'user' AS name FROM tenantcron.execution_attempt")
    users = {str(row["name"]) for row in results if row["name"] is not None}
    assert {user[:3] + user[11:] for user in users} == {"tc__acme", "tc__umbra"}


def handlers_get_no_connection_if_their_roles_cannot_be_created(site: Site) -> None:
    site.succeed(DEPLOY, "tenant", "create", "late")
    (site.folder / "late.yaml").write_text(manifest("late", SCHEDULES), encoding="utf-8")
    site.succeed(OPERATE, "apply-manifest", "late.yaml")
    query(site.url, f"ALTER ROLE {DEPLOY} NOCREATEROLE")
    site.succeed(RUN, "run", "--once")
    query(site.url, MAKE_DUE)
    done = site.succeed(RUN, "run", "--handlers", "rights_work", "--once")
    query(site.url, f"ALTER ROLE {DEPLOY} CREATEROLE")
    assert done.err.count("handler_role_missing") == 1
    assert f"role {DEPLOY} may not create roles. Run: ALTER ROLE {DEPLOY} CREATEROLE" in done.err


def the_scheduler_publishes_to_an_event_bus(site: Site) -> None:
    bus = ProbeBus()

    async def publish() -> None:
        async with opened(site, RUN) as database:
            replica = Replica(database, Settings(folder=site.folder))
            publisher = BusPublisher(replica.event_delivery, NamedBus("probe/probe", bus))
            await publisher.step()
            pause = ("schedule", "pause", "acme/good", "--reason", "x")
            await asyncio.to_thread(site.succeed, OPERATE, *pause)
            async with database.transaction(by_key=True) as connection:
                await outbox.place(connection, 100, None)
            await publisher.publish_once()
            async with database.transaction() as connection:
                await event_buses.drop_old(connection, timedelta(days=7), None)
                assert await event_buses.forget(connection, timedelta(), None) == ["probe/probe"]

    asyncio.run(publish())
    site.succeed(OPERATE, "schedule", "resume", "acme/good")
    assert "schedule.paused" in bus.types()


def the_scheduler_drops_old_partitions(site: Site) -> None:
    query(site.url_of(DEPLOY), "SELECT tenantcron.make_month('execution_past', '2020-01-01')")

    async def drop() -> list[history_months.Month]:
        async with opened(site, RUN) as database, database.transaction() as connection:
            return await history_months.drop_old(connection, datetime.now(UTC), timedelta(days=90))

    assert [str(month) for month in asyncio.run(drop())] == ["2020_01"]


def the_scheduler_deletes_old_records_only_with_a_function(site: Site) -> None:
    query(
        site.url,
        "INSERT INTO tenant_acme.audit_record (entity_type, entity_id, operation, changed_by,"
        " actor_type, actor_source, authenticated, changed_at) VALUES ('note', 'n', 'create',"
        " 'ada', 'human', 'cli', false, now() - interval '500 days')",
    )
    for table in ("tenantcron.audit_record", "tenant_acme.audit_record"):
        for role in (RUN, OPERATE, PLAN):
            with site.session(role) as session, pytest.raises(InsufficientPrivilege):
                session.execute(f"DELETE FROM {table}".encode())  # noqa: S608 -- a name of the test
    call = b"SELECT tenantcron.forget_audit_records('tenant_acme', '400 days', 10)"
    for role in (OPERATE, PLAN):
        with site.session(role) as session, pytest.raises(InsufficientPrivilege):
            session.execute(call)

    async def forget() -> None:
        async with opened(site, RUN) as database:
            await RecordRetention().step(Replica(database, Settings(folder=site.folder)))

    with capture_logs() as logs:
        asyncio.run(forget())
    assert [line["audit_records"] for line in logs if line["event"] == "records_forgotten"] == [1]


@asynccontextmanager
async def opened(site: Site, role: str) -> AsyncIterator[Database]:
    settings = Settings(database_url=site.url_of(role), folder=site.folder)
    async with open_database(settings) as database:
        yield database


def the_scheduler_changes_neither_tenants_nor_schedules(site: Site) -> None:
    site.refuse(RUN, "tenant", "suspend", "acme", "--reason", "x")
    site.refuse(RUN, "token", "create", "own", "--role", "admin")
    (site.folder / "acme.yaml").write_text(manifest("acme", {}), encoding="utf-8")
    site.refuse(RUN, "apply-manifest", "acme.yaml", "--max-deletes", "9")


def the_plan_role_only_reads(site: Site) -> None:
    as_planner = partial(site.succeed, PLAN)
    (site.folder / "acme.yaml").write_text(manifest("acme", SCHEDULES), encoding="utf-8")
    for arguments in (
        ("plan", "acme.yaml", "umbra.yaml"),
        ("migrate", "--sql"),
        ("migrate", "--check"),
        ("tenant", "list"),
        ("tenant", "show", "acme"),
        ("schedule", "list"),
        ("schedule", "show", "umbra/good"),
        ("execution", "list"),
        ("limits",),
        ("webhook", "list"),
        ("why", "acme/good"),
        ("history", "acme"),
        ("task", "list", "acme"),
    ):
        as_planner(*arguments)
    # Both have findings, because the test has moved cursors manually.
    for command in ("health", "audit"):
        found = site.call(PLAN, command)
        assert (found.code, found.err) == (1, ""), found
        site.succeeded.add((PLAN, command))
    [row] = query(site.url, "SELECT id FROM tenantcron.execution LIMIT 1")
    as_planner("execution", "show", str(row["id"]))
    as_planner("logs", str(row["id"]))
    site.refuse(PLAN, "schedule", "pause", "acme/good", "--reason", "x")
    site.refuse(PLAN, "limits", "--max-concurrent", "1")
    site.refuse(PLAN, "task", "submit", "acme", "good")
    site.refuse(PLAN, "token", "list")
    site.refuse(PLAN, "keys", "list")


def the_api_serves_as_the_operators_role_with_row_level_security(site: Site) -> None:
    created = site.succeed(OPERATE, "token", "create", "web", "--role", "admin", "--format", "json")
    site.succeeded.add((OPERATE, "serve"))
    headers = {"Authorization": f"Bearer {json.loads(created.out)['token']}"}
    with (
        serving(site.shell(OPERATE), TENANTCRON_MASTER_KEY=MASTER_KEY) as (url, _),
        httpx.Client(base_url=url, headers=headers, timeout=30) as client,
    ):
        assert client.get("/readyz").json()["row_level_security"] is True
        for path in (
            *("/v1/tenants", "/v1/executions", "/v1/tenants/umbra/schedules"),
            *("/v1/tenants/umbra/audit-records", "/v1/audit-records", "/v1/audit", "/metrics"),
            *("/v1/schedules", "/v1/limits", "/v1/tokens", "/v1/webhooks", "/v1/keys"),
            *("/v1/health", "/v1/workers"),
        ):
            assert client.get(path).status_code == 200, path
        body = manifest("umbra", {"good": SCHEDULES["good"]})
        yaml = {"Content-Type": "application/yaml"}
        path = "/v1/tenants/umbra/manifest:apply"
        applied = client.post(path, content=body, headers=yaml, params={"max_deletes": 1})
        assert applied.status_code == 200, applied.text
        path = "/v1/tenants/umbra:suspend"
        assert client.post(path, json={"reason": "x"}).status_code == 200
        form = {"token": (site.folder / "token").read_text(encoding="utf-8")}
        own = {"Authorization": f"Bearer {form['token']}"}
        for asking in (headers, own):
            asked = client.post("/v1/tokens:introspect", data=form, headers=asking)
            assert (asked.status_code, asked.json()) == (200, {"active": False})


def the_scheduler_tracks_a_tenant_source_with_additional_privileges(site: Site) -> None:
    query(site.url, "CREATE TABLE public.tenants AS SELECT 'acme' AS id, 'active' AS status")
    query(site.url, f"GRANT SELECT ON public.tenants TO {DEPLOY}, {RUN}, {OPERATE}, {PLAN}")
    toml = site.folder / "tenantcron.toml"
    policy = toml.read_text(encoding="utf-8")
    toml.write_text(f'{policy}[settings]\ntenant_source = "public.tenants"\n', encoding="utf-8")
    assert site.call(PLAN, "tenant", "refresh", "--check").code == 1
    site.refuse(PLAN, "tenant", "refresh")
    site.succeed(OPERATE, "tenant", "refresh")
    site.succeed(OPERATE, "tenant", "label", "acme", "tier=gold")
    query(site.url, "UPDATE public.tenants SET status = 'suspended'")
    query(site.url, "INSERT INTO public.tenants VALUES ('newcomer', 'active')")
    site.run_file(DEPLOY, "tenant_source.sql")
    query(site.url, "UPDATE tenantcron.tenant_source SET started_at = NULL")
    site.succeed(RUN, "run", "--handlers", "rights_work", "--once")
    statuses = query(site.url, "SELECT id FROM tenantcron.tenant WHERE status = 'suspended'")
    assert "acme" in {row["id"] for row in statuses}
    waiting = query(site.url, "SELECT tenant_id FROM tenantcron.tenant_source_problem")
    assert [row["tenant_id"] for row in waiting] == ["newcomer"]
    site.succeed(DEPLOY, "tenant", "refresh")
    assert "newcomer" in site.succeed(PLAN, "tenant", "list").out


def the_owner_removes_everything_except_the_api_role(site: Site) -> None:
    for role in (RUN, OPERATE, PLAN):
        assert site.call(role, "uninstall", "--yes", "--with-tenants", "--with-replicas").code != 0
    query(site.url_of(DEPLOY), "DROP TABLE tenant_acme.effect")
    done = site.succeed(DEPLOY, "uninstall", "--yes", "--with-tenants", "--with-replicas")
    assert "the role `tenantcron_api` is kept" in done.out
    assert query(site.url, "SELECT rolname FROM pg_roles WHERE rolname LIKE 'tc\\_%'") == []
    left = query(site.url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenant%'")
    assert left == []


STEPS = (
    changing_tables_needs_the_deploy_role,
    the_grants_can_be_run_again,
    operators_apply_and_change_existing_tenants,
    the_scheduler_runs_without_the_privilege_to_change_tables,
    handlers_get_no_connection_if_their_roles_cannot_be_created,
    the_scheduler_publishes_to_an_event_bus,
    the_scheduler_drops_old_partitions,
    the_scheduler_deletes_old_records_only_with_a_function,
    the_scheduler_changes_neither_tenants_nor_schedules,
    the_plan_role_only_reads,
    the_api_serves_as_the_operators_role_with_row_level_security,
    the_scheduler_tracks_a_tenant_source_with_additional_privileges,
    the_owner_removes_everything_except_the_api_role,
)


def test_every_command_runs_with_only_the_privileges_of_its_role(site: Site) -> None:
    for step in STEPS:
        step(site)

    assert {command for _, command in site.succeeded} == COMMANDS.keys() - WITHOUT_DATABASE
    for role, command in site.succeeded:
        assert f"`{command}`" in runs(role), (role, command)


def runs(role: str) -> str:
    """Return the commands of a role in the documentation."""
    lines = (DOCS / "database.md").read_text(encoding="utf-8").splitlines()
    [row] = [line for line in lines if line.startswith(f"| `{role}` |")]
    return row.split("|")[3]
