"""Mass deletes are refused unless somebody means them."""

from dataclasses import replace

import pytest
from support.fleet import CREATING, Fleet, footprint, names, numbered

from tenantcron.reconciler.outcome import ReconcileOutcome, Status
from tenantcron.reconciler.plan import Rules


async def shrink(
    fleet: Fleet, before: int, after: int, rules: Rules = CREATING
) -> ReconcileOutcome:
    """Apply a manifest with so many schedules, then one with fewer."""
    fleet.write("acme", numbered(before))
    (outcome,) = await fleet.apply()
    assert outcome.status is Status.APPLIED
    fleet.write("acme", numbered(after))
    (outcome,) = await fleet.apply(rules)
    return outcome


@pytest.mark.parametrize(("before", "after"), [(5, 0), (6, 1), (12, 6), (20, 10)])
async def test_up_to_half_and_five_at_least_may_go(
    fleet: Fleet, database_url: str, before: int, after: int
) -> None:
    outcome = await shrink(fleet, before, after)

    assert outcome.status is Status.APPLIED
    assert names(database_url, "acme") == list(numbered(after))


@pytest.mark.parametrize(("before", "after"), [(6, 0), (12, 5), (13, 6), (20, 0)])
async def test_more_is_refused_with_the_list_and_changes_nothing(
    fleet: Fleet, database_url: str, before: int, after: int
) -> None:
    fleet.write("acme", numbered(before))
    await fleet.apply()
    state = footprint(database_url)

    fleet.write("acme", numbered(after))
    (planned,) = await fleet.plan()
    (refused,) = await fleet.apply()

    assert footprint(database_url) == state
    for outcome in (planned, refused):
        assert outcome.status is Status.FAILED
        assert outcome.refusal is not None
        assert outcome.refusal.code == "TC603"
        assert f"{before - after} of {before} schedules would be deleted" in str(outcome.refusal)
        for name in list(numbered(before))[after:]:
            assert name in str(outcome.refusal)


async def test_an_emptied_manifest_deletes_everything_once_that_is_allowed(
    fleet: Fleet, database_url: str
) -> None:
    outcome = await shrink(fleet, 20, 0, replace(CREATING, max_deletes=20))

    assert outcome.status is Status.APPLIED
    assert names(database_url, "acme") == []


@pytest.mark.parametrize(("allowed", "status"), [(0, Status.FAILED), (1, Status.APPLIED)])
async def test_a_given_number_also_counts_where_the_default_would_allow_more(
    fleet: Fleet, allowed: int, status: Status
) -> None:
    outcome = await shrink(fleet, 3, 2, replace(CREATING, max_deletes=allowed))

    assert outcome.status is status


async def test_a_rename_counts_as_a_delete(fleet: Fleet, database_url: str) -> None:
    fleet.write("acme", numbered(8))
    await fleet.apply()
    fleet.write("acme", {f"new-{name}": cron for name, cron in numbered(8).items()})

    (outcome,) = await fleet.apply()

    assert outcome.status is Status.FAILED
    assert names(database_url, "acme") == list(numbered(8))
