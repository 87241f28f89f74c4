"""Applying an unchanged manifest writes nothing."""

import pytest
from sqlalchemy import Connection, event
from support.fleet import Fleet, footprint, numbered, revision, versions

from tenantcron.reconciler.outcome import Status

FIRST = """\
version: "1.0"
tenant: acme
sagas:
  - name: rollup
    trigger:
      scheduled: {every: 1h30m, timeout: 300s, payload: {a: 1, b: 2}}
  - name: nightly
    trigger: "scheduled:nightly:0 2 * * *"
"""
SPELLINGS = {
    "comments": FIRST + "# nothing new\n",
    "order of the sagas": """\
version: "1.0"
tenant: acme
sagas:
  - name: nightly
    trigger: "scheduled:nightly:0 2 * * *"
  - name: rollup
    trigger:
      scheduled: {every: 1h30m, timeout: 300s, payload: {a: 1, b: 2}}
""",
    "order of the keys": FIRST.replace("{a: 1, b: 2}", "{b: 2, a: 1}"),
    "spelling of durations": FIRST.replace("1h30m", "90m").replace("300s", "5m"),
    "spelling of timetables": FIRST.replace(
        '"scheduled:nightly:0 2 * * *"', '{scheduled: {daily: {at: "02:00"}}}'
    ),
    "defaults written out": FIRST.replace(
        "every: 1h30m", "every: 1h30m, overlap: skip, spread: 0s"
    ),
    "other people's sections": FIRST + "accounts: [1, 2]\n",
}


async def test_applying_the_same_manifest_again_writes_nothing(
    fleet: Fleet, database_url: str
) -> None:
    for tenant in ("acme", "beta"):
        fleet.write(tenant, numbered(3))
    await fleet.apply()
    before = footprint(database_url)

    outcomes = await fleet.apply()

    assert [outcome.status for outcome in outcomes] == [Status.UNCHANGED, Status.UNCHANGED]
    assert [outcome.unchanged for outcome in outcomes] == [3, 3]
    assert footprint(database_url) == before


async def test_applying_again_does_not_even_take_a_transaction_id(fleet: Fleet) -> None:
    """A row lock or a rolled back write would take one. Checked at every commit."""
    fleet.write("acme", numbered(3))
    taken: list[object] = []

    def ask(connection: Connection) -> None:
        taken.append(connection.exec_driver_sql("SELECT pg_current_xact_id_if_assigned()").scalar())

    event.listen(fleet.database.engine.sync_engine, "commit", ask)
    await fleet.apply()
    assert any(taken), "the first apply writes"
    taken.clear()

    await fleet.apply()

    assert taken
    assert not any(taken)


@pytest.mark.parametrize("what", SPELLINGS)
async def test_an_equivalent_manifest_is_unchanged(
    fleet: Fleet, database_url: str, what: str
) -> None:
    file = fleet.folder / "acme.yaml"
    file.write_text(FIRST, encoding="utf-8")
    await fleet.apply()
    before = footprint(database_url)

    file.write_text(SPELLINGS[what], encoding="utf-8")
    (outcome,) = await fleet.apply()

    assert outcome.status is Status.UNCHANGED
    assert footprint(database_url) == before


async def test_a_manifest_without_schedules_creates_one_version(
    fleet: Fleet, database_url: str
) -> None:
    fleet.write("acme", {})

    statuses = [(await fleet.apply())[0].status for _ in range(2)]

    assert statuses == [Status.APPLIED, Status.UNCHANGED]
    assert [version["version"] for version in versions(database_url, "acme")] == [1]
    assert revision(database_url, "acme") == 0, "no schedule has changed"
