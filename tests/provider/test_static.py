"""Schedules from the settings."""

from pathlib import Path

import pytest
from support.cursors import cursor, cursors, run, utc
from support.fleet import Fleet, schedules

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.provider.refresh import Refreshed, refresh
from tenantcron.provider.static import StaticProvider, static_provider
from tenantcron.provider.static_settings import read_entries
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.engine import Database
from tenantcron.tenants.creation import create_tenant

ENTRY: JsonObject = {"tenant": "acme", "name": "nightly", "saga": "report", "cron": "0 2 * * *"}
MANIFEST = """version: "1.0"
tenant: acme
sagas:
  - name: report
    trigger: {{scheduled: {{name: nightly, {words}}}}}
"""
OWN = {"nightly": "cron: '0 7 * * *'"}


def static(**edit: JsonValue) -> StaticProvider:
    return static_provider([ENTRY | edit])


@pytest.fixture
async def acme(database: Database) -> Database:
    """A database with a tenant without its own schedules."""
    async with database.transaction() as connection:
        await create_tenant(connection, TenantId("acme"))
    return database


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, ""),
        (
            {
                "description": "The report",
                "timezone": "Europe/London",
                "enabled": False,
                "spread": "10m",
                "overlap": "queue",
                "catch_up": "all",
                "catch_up_window": "90m",
                "start_within": "60s",
                "timeout": "50m",
                "retry": {"max_attempts": 5, "backoff": "90s"},
                "auto_pause_after": 0,
                "priority": "low",
                "owner": "user:maria",
                "payload": {"part": 1, "of": ["a", {"b": None}]},
            },
            (
                "description: The report, timezone: Europe/London, enabled: false, spread: 10m,"
                " overlap: queue, catch_up: all, catch_up_window: 90m, start_within: 60s,"
                " timeout: 50m,"
                " retry: {max_attempts: 5, backoff: 90s}, auto_pause_after: 0, priority: low,"
                " owner: 'user:maria', payload: {part: 1, of: [a, {b: null}]}"
            ),
        ),
    ],
    ids=["silent", "full"],
)
async def test_an_entry_is_equivalent_to_a_manifest_with_the_same_keys(
    fleet: Fleet, database_url: str, entry: JsonObject, words: str
) -> None:
    text = MANIFEST.format(words=f"cron: '0 2 * * *', {words}")
    Path(fleet.folder / "acme.yaml").write_text(text, encoding="utf-8")
    await fleet.apply()
    (row,) = schedules(database_url, "acme")

    (read,) = read_entries([ENTRY | entry])

    assert read.definition.as_json() == {key: row[key] for key in read.definition.as_json()}


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"tenant": "Acme"}, "`tenant` 'Acme' is not a tenant id"),
        ({"tenant": "public"}, "`tenant` 'public' is not"),
        ({"name": "a b"}, "`name` 'a b' is not a name"),
        ({"saga": 7}, "`saga` must be text"),
        ({"cron": "61 * * * *"}, "`cron` "),
        ({"cron": "0 0 31 2 *"}, "`cron` never fires"),
        ({"cron": f"0 {','.join(map(str, range(24)))} * * *"}, "`cron` has more than 64"),
        ({"timezone": "Mars/Base"}, "`timezone` unknown time zone"),
        ({"enabled": "yes"}, "`enabled` must be true or false"),
        ({"timeout": "0s"}, "`timeout` must be from 1s to 1d"),
        ({"spread": "soon"}, "`spread` must be a duration"),
        ({"overlap": "maybe"}, "`overlap` must be one of skip, queue, allow, cancel_running"),
        ({"overlap": ["skip"]}, "`overlap` must be one of"),
        ({"auto_pause_after": 2}, "`auto_pause_after` must be 0 (never) or a number from 3 to 100"),
        ({"auto_pause_after": True}, "`auto_pause_after` must be 0 (never) or a number"),
        ({"retry": {"max_attempts": 0}}, "`retry` : `max_attempts` must be a number from 1 to 20"),
        ({"retry": {"backoff": "2m", "max_backoff": "1m"}}, "`backoff` is longer than"),
        ({"retry": 3}, "`retry` must be a table"),
        ({"owner": "maria"}, "`owner` must be an owner"),
        ({"payload": {"x": float("nan")}}, "`payload` must be plain JSON"),
        ({"payload": {"x": "\0"}}, "`payload` must be at most"),
        ({"timezon": "UTC"}, "unknown key `timezon`: did you mean `timezone`?"),
    ],
)
def test_a_problem_is_reported_with_entry_and_key(edit: JsonObject, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_entries([{**ENTRY, "name": "fine"}, ENTRY | edit])

    assert words in str(raised.value)
    assert "entry 2 (" in str(raised.value)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        read_entries([{"tenant": "acme"}, ENTRY, ENTRY, ENTRY | {"name": "b", "cron": "x"}])

    lines = str(raised.value).splitlines()
    assert [line.strip() for line in lines[1:4]] == [
        f"entry 1 (acme/?): `{key}` is missing" for key in ("name", "saga", "cron")
    ]
    assert lines[-1] == "  acme/nightly: duplicate `name`"
    assert len(lines) == 6


async def test_a_new_one_and_an_edited_one_count_from_now(
    acme: Database, database_url: str
) -> None:
    await refresh(acme, static(), at=utc(2026, 3, 1, 12))
    assert cursor(database_url)["next_run_at"] == utc(2026, 3, 2, 2)
    assert cursor(database_url)["effective_from"] == utc(2026, 3, 1, 12)

    await refresh(acme, static(timeout="6m"), at=utc(2026, 3, 5, 12))
    assert cursor(database_url)["next_run_at"] == utc(2026, 3, 2, 2), "due, and not lost"

    await refresh(acme, static(cron="0 3 * * *"), at=utc(2026, 3, 6, 12))
    assert cursor(database_url)["next_run_at"] == utc(2026, 3, 7, 3)
    assert cursor(database_url)["effective_from"] == utc(2026, 3, 6, 12)


async def test_its_identity_is_its_tenant_and_name(acme: Database, database_url: str) -> None:
    await refresh(acme, static())
    before = cursor(database_url)["schedule_id"]
    await refresh(acme, static_provider([]))
    await refresh(acme, static(saga="other"))

    assert cursor(database_url)["schedule_id"] == before


async def test_a_tenant_that_does_not_exist_is_reported_and_the_others_are_served(
    acme: Database, database_url: str
) -> None:
    provider = static_provider([ENTRY, ENTRY | {"tenant": "unknown"}])

    done = await refresh(acme, provider)

    assert done == Refreshed(
        tenants=2,
        created=1,
        broken={TenantId("unknown"): "static schedules: there is no tenant `unknown`"},
    )
    assert list(cursors(database_url)) == ["nightly"]


async def test_a_tenants_own_schedule_overrides_a_static_one_of_its_name(
    fleet: Fleet, database_url: str
) -> None:
    fleet.write("acme", OWN)
    await fleet.apply()
    await refresh(fleet.database, TenantScheduleProvider())
    before = cursor(database_url)
    provider = static_provider([ENTRY, ENTRY | {"name": "other"}])

    done = await refresh(fleet.database, provider)

    assert "static schedule `nightly`: the tenant has" in done.broken[TenantId("acme")]
    assert done.created == 1
    assert cursor(database_url) == before
    assert cursor(database_url, "other")["provider"] == "static"


async def test_a_static_schedule_is_removed_when_the_tenant_uses_its_name(
    fleet: Fleet, acme: Database, database_url: str
) -> None:
    await refresh(acme, static())
    fleet.write("acme", OWN)
    await fleet.apply()
    own = TenantScheduleProvider()

    kept_out = await refresh(acme, own)
    assert "another provider has one of this name" in kept_out.broken[TenantId("acme")]
    assert cursor(database_url)["provider"] == "static", "not touched by another provider"
    assert (await refresh(acme, static())).removed == 1
    assert await refresh(acme, own, retry_broken=True) == Refreshed(tenants=1, created=1)

    assert cursor(database_url)["provider"] == "tenant"
    (tenant,) = run(database_url, "SELECT sync_fault FROM tenantcron.tenant")
    assert tenant["sync_fault"] is None


async def test_a_tenant_whose_own_schedules_cannot_be_read_keeps_its_static_ones(
    acme: Database, database_url: str
) -> None:
    await refresh(acme, static())
    run(database_url, "DROP TABLE tenant_acme.tenant_schedule")

    assert await refresh(acme, static()) == Refreshed(tenants=1)
    assert cursor(database_url)["fault"] is None


def test_a_spread_has_the_format_of_an_apply() -> None:
    (read,) = read_entries([ENTRY | {"spread": "90s"}])

    assert read.definition.definition["spread"] == "1m30s"
