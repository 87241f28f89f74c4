"""The life cycle of a manifest: validate, plan, apply, edit, plan, apply, delete, apply."""

import asyncio

import psycopg
from psycopg.rows import DictRow
from support.fleet import (
    CORRELATION,
    Fleet,
    Shell,
    audit,
    footprint,
    query,
    revision,
    schedules,
    versions,
)

from tenantcron.reconciler.outcome import Status

BILLING = "monthly: {day: 1, at: '02:00'}, timezone: Europe/London"
WHO = ("github:octocat", "pipeline", "github-actions", False, CORRELATION)


async def heard(listener: psycopg.AsyncConnection) -> list[str]:
    """Return the payloads of all notifications that were sent so far."""
    await listener.execute("NOTIFY tenantcron_schedules, 'end'")
    payloads: list[str] = []
    async for note in listener.notifies():
        if note.payload == "end":
            break
        payloads.append(note.payload)
    return payloads


async def test_the_life_cycle_of_a_manifest(fleet: Fleet, database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as listener:
        await listener.execute("LISTEN tenantcron_schedules")

        fleet.write("acme", {"billing": BILLING, "nightly": "cron: '0 3 * * *'"})
        assert (await asyncio.to_thread(Shell(fleet.folder), "validate", "acme.yaml")).code == 0
        before = footprint(database_url)
        assert await planned(fleet) == [("create", "billing", ()), ("create", "nightly", ())]
        assert footprint(database_url) == before, "a plan writes nothing"

        assert await applied(fleet) == Status.APPLIED
        assert_created(database_url)
        assert await heard(listener) == ["acme"]

        fleet.write("acme", {"billing": f"{BILLING}, timeout: 9m", "nightly": "cron: '0 4 * * *'"})
        assert await planned(fleet) == [
            ("update", "billing", ("definition.timeout",)),
            ("update", "nightly", ("cron_expr",)),
        ]
        rows = schedules(database_url, "acme")
        assert await applied(fleet) == Status.APPLIED
        assert_updated(database_url, rows)
        assert await heard(listener) == ["acme"]

        fleet.write("acme", {"nightly": "cron: '0 4 * * *'"})
        assert await planned(fleet) == [("delete", "billing", ())]
        rows = schedules(database_url, "acme")
        assert await applied(fleet) == Status.APPLIED
        assert_deleted(database_url, rows)
        assert await heard(listener) == ["acme"]


async def planned(fleet: Fleet) -> list[tuple[str, str, tuple[str, ...]]]:
    (outcome,) = await fleet.plan()
    assert outcome.status is Status.PLANNED
    assert outcome.plan is not None
    assert outcome.drift == ()
    changes = outcome.plan.difference.changes
    return [(change.action.value, change.schedule, change.fields) for change in changes]


async def applied(fleet: Fleet) -> Status:
    (outcome,) = await fleet.apply()
    return outcome.status


def assert_created(url: str) -> None:
    """Check the rows, their version and their audit records after the first apply."""
    billing, nightly = schedules(url, "acme")
    assert (billing["schedule_name"], billing["saga_name"]) == ("billing", "billing")
    assert (billing["cron_expr"], billing["timezone"]) == ("0 2 1 * *", "Europe/London")
    assert billing["enabled"] is True
    assert (billing["definition"]["timeout"], billing["definition"]["target"]) == ("5m", None)
    assert billing["created_at"] == billing["updated_at"]
    (version,) = versions(url, "acme")
    assert (version["version"], version["applied_by"]) == (1, "github:octocat")
    assert version["source_ref"] == "3f2a9c1"
    documented = [schedule["schedule_name"] for schedule in version["document"]["schedules"]]
    assert documented == ["billing", "nightly"]
    assert {billing["manifest_version_id"], nightly["manifest_version_id"]} == {version["id"]}
    records = audit(url, "acme")
    assert [_what(record) for record in records] == [("create", "billing"), ("create", "nightly")]
    assert [_who(record) for record in records] == [WHO, WHO]
    assert records[0]["before"] is None
    assert records[0]["after"]["id"] == str(billing["id"])
    assert revision(url, "acme") == 1


def assert_updated(url: str, before: list[DictRow]) -> None:
    """Check the updated rows, the second version and the records with both values."""
    rows = schedules(url, "acme")
    assert [row["id"] for row in rows] == [row["id"] for row in before]
    assert [row["created_at"] for row in rows] == [row["created_at"] for row in before]
    assert rows[1]["cron_expr"] == "0 4 * * *"
    assert rows[1]["updated_at"] > before[1]["updated_at"]
    first, second = versions(url, "acme")
    assert (first["version"], second["version"]) == (1, 2)
    assert first["checksum"] != second["checksum"]
    assert {row["manifest_version_id"] for row in rows} == {second["id"]}
    records = audit(url, "acme")[2:]
    assert [_what(record) for record in records] == [("update", "billing"), ("update", "nightly")]
    assert [_who(record) for record in records] == [WHO, WHO]
    assert records[1]["before"]["cron_expr"] == "0 3 * * *"
    assert records[1]["after"]["cron_expr"] == "0 4 * * *"
    assert revision(url, "acme") == 2


def assert_deleted(url: str, before: list[DictRow]) -> None:
    """Check that one row is deleted and recorded, and the other is unchanged."""
    assert schedules(url, "acme") == before[1:]
    (record,) = audit(url, "acme")[4:]
    assert (_what(record), _who(record)) == (("delete", "billing"), WHO)
    assert record["before"]["definition"]["timeout"] == "9m"
    assert record["after"] is None
    assert [version["version"] for version in versions(url, "acme")] == [1, 2, 3]
    assert revision(url, "acme") == 3


def _what(record: DictRow) -> tuple[str, str]:
    return record["operation"], record["entity_id"]


def _who(record: DictRow) -> tuple[object, ...]:
    columns = ("changed_by", "actor_type", "actor_source", "authenticated", "correlation_id")
    return tuple(record[column] for column in columns)


async def test_the_creation_of_a_tenant_by_an_apply_is_recorded(
    fleet: Fleet, database_url: str
) -> None:
    fleet.write("acme", {})

    await fleet.apply()

    (record,) = query(database_url, "SELECT * FROM tenantcron.audit_record")
    assert (record["entity_type"], record["entity_id"], record["operation"]) == (
        "tenant",
        "acme",
        "create",
    )
    assert _who(record) == WHO
    assert record["after"]["schema_name"] == "tenant_acme"


async def test_reverting_to_an_earlier_manifest_creates_a_new_version(
    fleet: Fleet, database_url: str
) -> None:
    for timetable in ("cron: '0 1 * * *'", "cron: '0 2 * * *'", "cron: '0 1 * * *'"):
        fleet.write("acme", {"nightly": timetable})
        await fleet.apply()

    first, second, third = versions(database_url, "acme")
    assert [first["version"], second["version"], third["version"]] == [1, 2, 3]
    assert third["checksum"] == first["checksum"]
    assert schedules(database_url, "acme")[0]["cron_expr"] == "0 1 * * *"


async def test_stored_definitions_equal_parsed_ones(fleet: Fleet, database_url: str) -> None:
    """Numbers that jsonb formats differently must not look like a permanent change."""
    odd = "{large: 1.0e+23, round: 1.0e+22, zero: -0.0, one: 1.0, small: 1.0e-7, whole: 7}"
    fleet.write("acme", {"nightly": f"cron: '0 1 * * *', payload: {odd}"})
    await fleet.apply()
    stored = schedules(database_url, "acme")[0]["definition"]["payload"]
    assert stored == {
        "large": 1e23,
        "round": 1e22,
        "zero": 0,
        "one": 1,
        "small": 1e-7,
        "whole": 7,
    }

    (same,) = await fleet.apply()
    assert same.status is Status.UNCHANGED
    file = fleet.folder / "acme.yaml"
    file.write_text(f"# a comment\n{file.read_text(encoding='utf-8')}", encoding="utf-8")
    (same,) = await fleet.apply()
    assert same.status is Status.UNCHANGED
    assert len(versions(database_url, "acme")) == 1
