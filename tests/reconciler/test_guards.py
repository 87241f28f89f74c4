"""Mass deletes are refused unless they are allowed explicitly."""

from dataclasses import replace

import pytest
from support.fleet import CREATING, Fleet, footprint, names, numbered

from tenantcron.reconciler.outcome import ReconcileOutcome, Status
from tenantcron.reconciler.plan import Rules


async def shrink(
    fleet: Fleet, before: int, after: int, rules: Rules = CREATING
) -> ReconcileOutcome:
    """Apply a manifest with `before` schedules, then one with `after`."""
    fleet.write("acme", numbered(before))
    (outcome,) = await fleet.apply()
    assert outcome.status is Status.APPLIED
    fleet.write("acme", numbered(after))
    (outcome,) = await fleet.apply(rules)
    return outcome


@pytest.mark.parametrize(("before", "after"), [(5, 0), (6, 1), (12, 6), (20, 10)])
async def test_half_of_the_schedules_and_at_least_five_may_be_deleted(
    fleet: Fleet, database_url: str, before: int, after: int
) -> None:
    outcome = await shrink(fleet, before, after)

    assert outcome.status is Status.APPLIED
    assert names(database_url, "acme") == list(numbered(after))


@pytest.mark.parametrize(("before", "after"), [(6, 0), (12, 5), (13, 6), (20, 0)])
async def test_more_deletes_are_refused_with_a_list_and_change_nothing(
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


async def test_an_empty_manifest_deletes_all_schedules_if_allowed(
    fleet: Fleet, database_url: str
) -> None:
    outcome = await shrink(fleet, 20, 0, replace(CREATING, max_deletes=20))

    assert outcome.status is Status.APPLIED
    assert names(database_url, "acme") == []


@pytest.mark.parametrize(("allowed", "status"), [(0, Status.FAILED), (1, Status.APPLIED)])
async def test_a_given_limit_applies_even_if_the_default_would_allow_more(
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
