"""Manual changes are detected, shown with actor and time, and reverted."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.errors import CheckViolation
from support.fleet import Fleet, audit, names, numbered, query, revision, schedules, versions

from tenantcron.reconciler.diff import Action
from tenantcron.reconciler.outcome import ReconcileOutcome, Status

BY_HAND = {
    "update": "UPDATE {}.tenant_schedule SET cron_expr = '0 9 * * *', enabled = false,"
    " definition = definition || '{{\"timeout\": \"1h\"}}' WHERE schedule_name = 's001'",
    "delete": "DELETE FROM {}.tenant_schedule WHERE schedule_name = 's001'",
    "insert": "INSERT INTO {}.tenant_schedule SELECT gen_random_uuid(), 'stray', 'stray',"
    " '0 9 * * *', 'UTC', true, manifest_version_id, definition, now(), now()"
    " FROM {}.tenant_schedule WHERE schedule_name = 's001'",
}


async def changed_manually(fleet: Fleet, url: str, statement: str) -> ReconcileOutcome:
    """Apply three schedules, run a manual statement, and plan."""
    fleet.write("acme", numbered(3))
    await fleet.apply()
    query(url, statement, *["tenant_acme"] * statement.count("{}"))
    (planned,) = await fleet.plan()
    return planned


EXPECTED = {
    "update": ("s001", Action.UPDATE, ("cron_expr", "enabled", "definition.timeout")),
    "delete": ("s001", Action.DELETE, ()),
    "insert": ("stray", Action.CREATE, ()),
}


@pytest.mark.parametrize("what", BY_HAND)
async def test_drift_is_shown_by_field_with_actor_and_time(
    fleet: Fleet, database_url: str, what: str
) -> None:
    planned = await changed_manually(fleet, database_url, BY_HAND[what])

    assert planned.status is Status.PLANNED
    (drift,) = planned.drift
    change, touch = drift.change, drift.touch
    assert (change.schedule, change.action, change.fields) == EXPECTED[what]
    assert touch is not None
    assert (touch.by, touch.source) == ("postgres", "sql")
    assert abs(datetime.now(UTC) - touch.at) < timedelta(minutes=5)


@pytest.mark.parametrize("statement", BY_HAND.values(), ids=BY_HAND)
async def test_apply_reverts_drift_without_a_new_version(
    fleet: Fleet, database_url: str, statement: str
) -> None:
    await changed_manually(fleet, database_url, statement)
    assert revision(database_url, "acme") == 2, "schedulers have to notice"

    (applied,) = await fleet.apply()

    assert applied.status is Status.APPLIED
    assert names(database_url, "acme") == list(numbered(3))
    assert {row["cron_expr"] for row in schedules(database_url, "acme")} == {"0 2 * * *"}
    assert all(row["enabled"] for row in schedules(database_url, "acme"))
    assert len(versions(database_url, "acme")) == 1
    assert revision(database_url, "acme") == 3
    assert [record["changed_by"] for record in audit(database_url, "acme")[-2:]] == [
        "postgres",
        "github:octocat",
    ]
    (after,) = await fleet.plan()
    assert after.status is Status.UNCHANGED
    assert after.drift == ()


async def test_an_edit_of_the_manifest_is_not_drift(fleet: Fleet, database_url: str) -> None:
    await changed_manually(fleet, database_url, BY_HAND["update"])
    fleet.write("acme", numbered(4))

    (planned,) = await fleet.plan()

    assert planned.plan is not None
    assert [drift.change.schedule for drift in planned.drift] == ["s001"]
    assert [change.schedule for change in planned.plan.difference.changes] == ["s001", "s003"]


async def test_a_manual_change_that_the_manifest_adopts_becomes_a_version(
    fleet: Fleet, database_url: str
) -> None:
    await changed_manually(fleet, database_url, BY_HAND["delete"])
    fleet.write("acme", {name: cron for name, cron in numbered(3).items() if name != "s001"})

    (applied,) = await fleet.apply()

    assert applied.status is Status.APPLIED
    assert applied.plan is not None
    assert applied.plan.difference.changes == ()
    assert [version["version"] for version in versions(database_url, "acme")] == [1, 2]


@pytest.mark.parametrize("value", ["[1, 2]", '"text"', "null"])
async def test_a_manual_change_cannot_store_a_definition_that_is_no_object(
    fleet: Fleet, database_url: str, value: str
) -> None:
    statement = f"UPDATE {{}}.tenant_schedule SET definition = '{value}'"  # noqa: S608 -- the test's own words
    with pytest.raises(CheckViolation):
        await changed_manually(fleet, database_url, statement)

    assert [row["definition"]["timeout"] for row in schedules(database_url, "acme")] == ["5m"] * 3


async def test_drift_of_a_renamed_row_has_no_actor_for_the_old_name(
    fleet: Fleet, database_url: str
) -> None:
    rename = "UPDATE {}.tenant_schedule SET schedule_name = 'stray' WHERE schedule_name = 's001'"

    planned = await changed_manually(fleet, database_url, rename)

    assert planned.plan is not None
    assert [drift.change.schedule for drift in planned.drift] == ["s001", "stray"]
    assert [drift.touch.by if drift.touch else None for drift in planned.drift] == [
        None,
        "postgres",
    ]


async def test_truncate_is_refused(fleet: Fleet, database_url: str) -> None:
    fleet.write("acme", numbered(3))
    await fleet.apply()

    with pytest.raises(psycopg.Error, match="TRUNCATE is refused"):
        query(database_url, "TRUNCATE {}.tenant_schedule", "tenant_acme")

    assert names(database_url, "acme") == list(numbered(3))


async def test_a_manual_statement_that_changes_nothing_is_not_recorded(
    fleet: Fleet, database_url: str
) -> None:
    planned = await changed_manually(
        fleet, database_url, "DELETE FROM {}.tenant_schedule WHERE false"
    )

    assert planned.status is Status.UNCHANGED
    assert revision(database_url, "acme") == 1


async def test_a_changed_row_id_is_recorded_as_delete_and_create(
    fleet: Fleet, database_url: str
) -> None:
    await changed_manually(
        fleet, database_url, "UPDATE {}.tenant_schedule SET id = gen_random_uuid()"
    )

    records = audit(database_url, "acme")[3:]

    assert [record["operation"] for record in records] == ["delete"] * 3 + ["create"] * 3
    assert all(
        (record["before"] is None) == (record["operation"] == "create") for record in records
    )
    assert {record["changed_by"] for record in records} == {"postgres"}
