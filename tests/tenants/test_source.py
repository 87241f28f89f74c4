"""The platform's registry as the source of tenants, on a real database."""

import asyncio
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from support.fleet import DEPLOYER, footprint, statements
from support.platform import MAX_AGE, TABLE, Platform
from support.scheduling import NOON, FakeClock

from tenantcron.actor.model import scheduler_actor
from tenantcron.core.errors import UsageError
from tenantcron.core.labels import read_changes
from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.rows import tenant_sources
from tenantcron.store.rows.tenant_sources import TURN, RefreshDue
from tenantcron.store.rows.tenants import TenantLimits
from tenantcron.tenants.errors import SourcedTenantError
from tenantcron.tenants.registry import Registry
from tenantcron.tenants.source.follow import Follower
from tenantcron.tenants.source.reading import SourceError, tenant_source
from tenantcron.tenants.source.refresh import Refresher, TurnLostError

ACME = TenantId("acme")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def platform(database: Database, database_url: str) -> Platform:
    """A platform with a table of its tenants, which is empty."""
    platform = Platform(database, database_url)
    platform.sql(TABLE)
    return platform


async def test_new_tenants_are_registered_as_the_source_has_them(platform: Platform) -> None:
    platform.add("acme")
    platform.sql(
        "INSERT INTO public.tenants VALUES"
        " ('globex', NULL, 'suspended', 'unpaid', 5, '{\"tier\": \"gold\"}')"
    )
    done = await platform.refresh()

    assert (done.registered, done.problems, done.given) == (("acme", "globex"), (), 2)
    acme, globex = platform.registered().values()
    assert (acme["status"], acme["weight"], acme["labels"], acme["sourced"]) == (
        *("active", 1, {}, True),
    )
    assert (globex["status"], globex["status_reason"]) == ("suspended", "unpaid")
    assert (globex["weight"], globex["labels"]) == (5, {"tier": "gold"})
    assert platform.sql("SELECT * FROM tenant_acme.tenant_schedule") == []
    (record, *_) = platform.sql("SELECT * FROM tenantcron.audit_record ORDER BY id")
    assert (record["entity_id"], record["changed_by"]) == ("acme", "github:octocat")


async def test_status_weight_and_labels_follow_and_limits_stay(platform: Platform) -> None:
    platform.add("acme", "globex")
    await platform.refresh()
    await Registry(platform.database, DEPLOYER).set_limits(ACME, TenantLimits(max_concurrent=3))
    platform.sql(
        "UPDATE public.tenants SET status = 'suspended', status_reason = 'unpaid', weight = 9,"
        " labels = '{\"tier\": \"free\"}' WHERE id = 'acme'"
    )
    await platform.refresh()
    acme = platform.registered()["acme"]
    assert (acme["status"], acme["status_reason"], acme["weight"]) == ("suspended", "unpaid", 9)
    assert (acme["labels"], acme["max_concurrent"]) == ({"tier": "free"}, 3)

    platform.sql("UPDATE public.tenants SET status = 'active', status_reason = NULL")
    await platform.refresh()
    assert platform.statuses() == {"acme": ("active", None), "globex": ("active", None)}


async def test_a_missing_tenant_is_suspended_and_never_deprovisioned(platform: Platform) -> None:
    platform.add("acme", "globex")
    await platform.refresh()
    platform.sql("DELETE FROM public.tenants WHERE id = 'acme'")
    await platform.refresh()
    acme = platform.registered()["acme"]
    assert acme["status"] == "suspended"
    assert acme["status_reason"].startswith("missing from the tenant source since 20")
    assert acme["missing_since"] is not None

    platform.add("acme")
    await platform.refresh()
    back = platform.registered()["acme"]
    assert (back["status"], back["status_reason"], back["missing_since"]) == ("active", None, None)


async def test_a_source_that_lost_most_of_its_tenants_changes_none_of_them(
    platform: Platform,
) -> None:
    platform.add(*(f"t{number}" for number in range(8)), "acme")
    await platform.refresh()
    platform.sql("DELETE FROM public.tenants WHERE id LIKE 't%'")
    platform.sql("UPDATE public.tenants SET status = 'suspended'")
    done = await platform.refresh()

    assert len(done.plan.held) == 8
    statuses = platform.statuses()
    assert statuses.pop("acme")[0] == "suspended"
    assert set(statuses.values()) == {("active", None)}
    (row,) = platform.sql("SELECT held FROM tenantcron.tenant_source")
    assert row["held"] == 8

    await platform.refresh(max_missing=8)
    assert {status for status, _ in platform.statuses().values()} == {"suspended"}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("public.nowhere", 'relation "public.nowhere" does not exist'),
        ("SELECT name FROM public.tenants", 'column "name" does not exist'),
        ("SELECT weight FROM public.tenants", "there is no column `id`, only weight"),
        ("SELECT id FROM public.tenants WHERE 1 / 0 = 1", "division by zero"),
        ("SELECT id FROM public.tenants, public.write()", "it writes"),
        ("SELECT id FROM public.tenants) AS x; DROP TABLE public.tenants; --", "syntax error"),
    ],
)
async def test_a_source_that_cannot_be_read_is_explained_and_changes_nothing(
    platform: Platform, source: str, problem: str
) -> None:
    platform.add("acme")
    await platform.refresh()
    platform.add("globex")
    platform.sql(
        "CREATE FUNCTION public.write() RETURNS int LANGUAGE sql"
        " AS 'DELETE FROM public.tenants RETURNING 1'"
    )
    with pytest.raises(SourceError) as failed:
        await platform.refresh(source)
    assert problem in str(failed.value)
    assert list(platform.registered()) == ["acme"]
    assert len(platform.sql("SELECT id FROM public.tenants")) == 2
    (problem_row,) = platform.sql("SELECT * FROM tenantcron.tenant_source_problem")
    assert problem_row["tenant_id"] == "*"


async def test_all_invalid_rows_are_reported_and_the_others_are_synced(platform: Platform) -> None:
    platform.add("acme", "acme", "Globex", "initech")
    platform.sql("UPDATE public.tenants SET weight = 500 WHERE id = 'initech'")
    platform.add("hooli")
    done = await platform.refresh()

    assert done.registered == ("hooli",)
    assert {found.tenant_id for found in done.problems} == {"acme", "Globex", "initech"}
    kept = platform.sql("SELECT tenant_id FROM tenantcron.tenant_source_problem")
    assert {row["tenant_id"] for row in kept} == {"acme", "Globex", "initech"}

    platform.sql("DELETE FROM public.tenants WHERE id <> 'hooli'")
    assert (await platform.refresh()).problems == ()
    assert platform.sql("SELECT * FROM tenantcron.tenant_source_problem") == []


@pytest.mark.parametrize(
    "source", ["tenants", "DELETE FROM public.tenants", "public.tenants x", "python:", ""]
)
def test_an_invalid_source_is_a_usage_error(source: str) -> None:
    with pytest.raises(UsageError, match="tenant_source"):
        tenant_source(source)


async def test_a_query_may_have_any_text_in_it(platform: Platform) -> None:
    platform.add("acme", "globex")
    query = "SELECT id, 'active' AS status FROM public.tenants WHERE id LIKE 'a%' -- 100 %"
    assert (await platform.refresh(query)).registered == ("acme",)


async def test_20_000_tenants_that_did_not_change_cost_one_comparison(platform: Platform) -> None:
    platform.sql(
        "INSERT INTO public.tenants (id, labels)"
        " SELECT 't' || n, '{\"tier\": \"gold\"}' FROM generate_series(1, 20000) AS n"
    )
    platform.sql(
        "INSERT INTO tenantcron.tenant (id, schema_name, labels, sourced, created_at, updated_at)"
        " SELECT id, 'tenant_' || id, labels, true, now(), now() FROM public.tenants"
    )
    platform.sql("ANALYZE public.tenants, tenantcron.tenant")
    refresher, token = platform.refresher(), await platform.turn()
    with statements(platform.database) as sent:
        done = await refresher.refresh(token)

    assert (done.given, done.plan.is_empty) == (20_000, True)
    assert sum("FULL JOIN" in statement for statement in sent) == 1
    # Including the BEGIN of three transactions: the comparison, the row of the turn, and its end.
    assert len(sent) <= 12
    assert not any("UPDATE tenantcron.tenant " in statement for statement in sent)


async def test_the_comparison_joins_by_a_hash_and_not_row_by_row(platform: Platform) -> None:
    platform.sql("INSERT INTO public.tenants SELECT 't' || n FROM generate_series(1, 5000) AS n")
    platform.sql("ANALYZE public.tenants")
    async with platform.database.transaction() as connection:
        text = tenant_sources.comparison("SELECT * FROM public.tenants")
        rows = await connection.exec_driver_sql(
            f"EXPLAIN {text}", execution_options={"no_parameters": True}
        )
        plan = "\n".join(row[0] for row in rows)
    assert "Hash Full Join" in plan
    assert "Nested Loop" not in plan


async def test_a_change_of_what_the_source_manages_is_refused_and_names_the_source(
    platform: Platform,
) -> None:
    platform.add("acme")
    await platform.refresh()
    registry, before = Registry(platform.database, DEPLOYER), footprint(platform.url)
    for change in (
        registry.suspend(ACME, "x"),
        registry.resume(ACME, None),
        registry.deprovision(ACME, "x", drop_schema=True),
        registry.change_labels(ACME, read_changes(["tier=gold"])),
    ):
        with pytest.raises(SourcedTenantError, match=r"belongs to the tenant source \(public"):
            await change
    assert footprint(platform.url) == before
    await registry.set_limits(ACME, TenantLimits(max_concurrent=2))


async def test_labels_are_the_operators_where_the_source_has_none(platform: Platform) -> None:
    platform.add("acme")
    await platform.refresh("SELECT id FROM public.tenants")
    registry = Registry(platform.database, DEPLOYER)
    await registry.change_labels(ACME, read_changes(["tier=gold"]))
    await platform.refresh("SELECT id FROM public.tenants")
    assert platform.registered()["acme"]["labels"] == {"tier": "gold"}


async def test_a_tenant_that_is_missing_can_be_deprovisioned_and_come_back(
    platform: Platform,
) -> None:
    platform.add("acme", "globex")
    await platform.refresh()
    platform.sql("DELETE FROM public.tenants WHERE id = 'acme'")
    await platform.refresh()
    registry = Registry(platform.database, DEPLOYER)
    gone = await registry.deprovision(ACME, "contract ended", drop_schema=False)
    assert (gone.sourced, gone.missing_since) == (False, None)
    platform.add("acme")
    assert (await platform.refresh()).problems == ()
    assert platform.registered()["acme"]["status"] == "active"


async def test_a_dropped_schema_does_not_come_back(platform: Platform) -> None:
    platform.add("acme", "globex")
    await platform.refresh()
    platform.sql("DELETE FROM public.tenants WHERE id = 'acme'")
    await platform.refresh()
    await Registry(platform.database, DEPLOYER).deprovision(ACME, "ended", drop_schema=True)
    platform.add("acme")
    (problem,) = (await platform.refresh()).problems
    assert problem.problem == "its tables were dropped, so it cannot come back"
    assert platform.registered()["acme"]["status"] == "deprovisioned"


async def test_tenants_of_an_operator_are_adopted_or_left_alone(platform: Platform) -> None:
    registry = Registry(platform.database, DEPLOYER)
    await registry.create(ACME, TenantLimits(max_schedules=7))
    await registry.create(TenantId("own"), TenantLimits())
    platform.add("acme")
    await platform.refresh()
    rows = platform.registered()
    assert (rows["acme"]["sourced"], rows["acme"]["max_schedules"]) == (True, 7)
    assert (rows["own"]["sourced"], rows["own"]["status"]) == (False, "active")


async def test_a_schema_that_the_source_names_is_adopted(platform: Platform) -> None:
    platform.sql('CREATE SCHEMA "Org-Acme"')
    platform.sql('CREATE TABLE "Org-Acme".invoices (id int)')
    platform.sql("INSERT INTO public.tenants VALUES ('acme', 'Org-Acme'), ('globex', 'nowhere')")
    platform.sql("INSERT INTO public.tenants VALUES ('a', 'same'), ('b', 'same'), ('c', 'pg_x')")
    done = await platform.refresh()

    assert done.registered == ("acme",)
    assert platform.registered()["acme"]["schema_name"] == "Org-Acme"
    assert platform.sql('SELECT id FROM "Org-Acme".tenant_schedule') == []
    problems = {found.tenant_id: found.problem for found in done.problems}
    assert "does not exist" in problems["globex"]
    assert problems["a"] == problems["b"] == "the schema 'same' is the schema of another row, too"
    assert "the name is reserved" in problems["c"]
    assert (await platform.refresh()).plan.changes == ()


def follower(platform: Platform, clock: FakeClock) -> Follower:
    actor = scheduler_actor("scheduler")
    return Follower(
        platform.database, tenant_source("public.tenants"), actor, MINUTE, MAX_AGE, clock=clock
    )


async def test_replicas_refresh_once_a_minute_together(platform: Platform) -> None:
    clock = FakeClock()
    replicas = [follower(platform, clock) for _ in range(3)]

    async def comparisons() -> int:
        with statements(platform.database) as sent:
            await asyncio.gather(*(replica.step() for replica in replicas))
        return sum("FULL JOIN" in statement for statement in sent)

    assert await comparisons() == 1
    clock.advance(seconds=59)
    assert await comparisons() == 0
    clock.advance(seconds=1)
    assert await comparisons() == 1


async def test_a_notification_is_served_by_one_refresh_that_began_after_it(
    platform: Platform,
) -> None:
    clock, token = FakeClock(), uuid4()
    await follower(platform, clock).step()
    heard = RefreshDue(MINUTE, timedelta(seconds=2))
    async with platform.database.transaction() as connection:
        take = tenant_sources.take_turn
        # The last refresh began at the moment of the notification, or after it.
        assert not await take(connection, token, heard, NOON + timedelta(seconds=2))
        assert await tenant_sources.has_begun_since(
            connection, timedelta(seconds=2), NOON + timedelta(seconds=2)
        )
        assert await take(connection, token, heard, NOON + timedelta(seconds=3))
        # While one is in progress, no other begins.
        assert not await take(connection, uuid4(), heard, NOON + timedelta(seconds=10))
        assert await take(connection, uuid4(), heard, NOON + TURN + timedelta(seconds=4))


async def test_a_refresh_that_lost_its_turn_writes_nothing(platform: Platform) -> None:
    platform.add("acme")
    await platform.refresh()
    platform.sql("UPDATE public.tenants SET status = 'suspended'")
    stalled = await platform.turn()
    await platform.turn()
    before = footprint(platform.url)
    with pytest.raises(TurnLostError):
        await platform.refresher().refresh(stalled)
    assert footprint(platform.url) == before
    assert platform.statuses()["acme"] == ("active", None)


async def test_tenants_whose_tables_may_not_be_created_wait_and_are_reported(
    platform: Platform, tmp_path: Path
) -> None:
    platform.add("acme")
    await platform.refresh()
    platform.add("globex", "hooli")
    platform.sql("UPDATE public.tenants SET status = 'suspended' WHERE id = 'acme'")
    platform.sql("DROP ROLE IF EXISTS without_ddl")
    platform.sql("CREATE ROLE without_ddl LOGIN")
    platform.sql("GRANT USAGE ON SCHEMA tenantcron, public TO without_ddl")
    platform.sql("GRANT ALL ON ALL TABLES IN SCHEMA tenantcron, public TO without_ddl")
    platform.sql("GRANT ALL ON ALL FUNCTIONS IN SCHEMA tenantcron TO without_ddl")
    try:
        url = platform.url.replace("postgres@", "without_ddl@")
        settings = Settings(database_url=url, folder=tmp_path)
        token = await platform.turn()
        async with open_database(settings) as database:
            source = tenant_source("public.tenants")
            done = await Refresher(database, source, DEPLOYER).refresh(token)
    finally:
        platform.sql("DROP OWNED BY without_ddl")
        platform.sql("DROP ROLE without_ddl")

    assert [found.tenant_id for found in done.problems] == ["globex", "hooli"]
    assert "waits for a role that may create its tables" in done.problems[0].problem
    assert platform.statuses() == {"acme": ("suspended", None)}


async def test_a_source_that_may_not_be_read_is_explained(
    platform: Platform, tmp_path: Path
) -> None:
    platform.sql("DROP ROLE IF EXISTS blind")
    platform.sql("CREATE ROLE blind LOGIN")
    platform.sql("GRANT USAGE ON SCHEMA tenantcron TO blind")
    try:
        url = platform.url.replace("postgres@", "blind@")
        settings = Settings(database_url=url, folder=tmp_path)
        async with open_database(settings) as database:
            with pytest.raises(SourceError, match="permission denied for table tenants"):
                await tenant_source("public.tenants").compare(database)
    finally:
        platform.sql("DROP OWNED BY blind")
        platform.sql("DROP ROLE blind")
