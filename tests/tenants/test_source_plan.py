"""The plan of a refresh from the rows of a tenant source: values in, values out."""

from datetime import UTC, datetime

import pytest

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.store.rows.tenant_sources import Compared, DifferingTenant
from tenantcron.store.rows.tenants import TenantStatus
from tenantcron.tenants.source.plan import SourcePlan, make_plan

AT = datetime(2026, 12, 1, 12, tzinfo=UTC)


def live(tenant: str, **edit: JsonValue) -> JsonObject:
    return {
        "id": tenant,
        "schema_name": f"tenant_{tenant}",
        "status": "active",
        "status_reason": None,
        "weight": 1,
        "labels": {},
        "sourced": True,
        "is_missing": False,
        **edit,
    }


def planned(
    *pairs: tuple[JsonObject | None, JsonObject | None],
    sourced: int = 100,
    max_missing: int | None = None,
) -> SourcePlan:
    differing = tuple(
        DifferingTenant(given, now, is_twice=False, is_shared=False) for given, now in pairs
    )
    return make_plan(Compared(AT, len(pairs), sourced, ("id",), differing), max_missing)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"id": None}, "a row has no id"),
        ({"id": 42}, "the id is not a tenant id"),
        ({"id": "Acme"}, "the id is not a tenant id"),
        ({"id": "acme\n"}, "the id is not a tenant id"),
        ({"id": "public"}, "the id is reserved"),
        ({"id": "acme", "status": "trial"}, "the status 'trial' is not one of active, suspended"),
        ({"id": "acme", "status": None}, "the status (none) is not one of"),
        ({"id": "acme", "status_reason": 5}, "the status_reason '5' is not text"),
        ({"id": "acme", "weight": 0}, "the weight '0' is not a whole number from 1 to 100"),
        ({"id": "acme", "weight": 1.5}, "the weight '1.5' is not a whole number"),
        ({"id": "acme", "weight": True}, "the weight 'True' is not a whole number"),
        ({"id": "acme", "labels": ["x"]}, "the labels are not an object of texts"),
        ({"id": "acme", "labels": {"tier": 1}}, "label 'tier' must have a text as its value"),
        ({"id": "acme", "schema_name": 1}, "the schema_name '1' is not text"),
    ],
)
def test_a_new_tenant_whose_row_is_not_valid_is_reported_and_not_registered(
    given: JsonObject, problem: str
) -> None:
    plan = planned((given, None))
    assert plan.new == ()
    assert problem in plan.problems[0].problem


def test_all_problems_of_a_row_are_reported_with_its_id() -> None:
    plan = planned(({"id": "acme", "status": "x", "weight": 500, "labels": 1}, None))
    assert [(found.tenant_id, found.problem.split()[1]) for found in plan.problems] == [
        ("acme", "status"),
        ("acme", "weight"),
        ("acme", "labels"),
    ]


def test_a_row_with_a_problem_still_counts_for_its_status() -> None:
    given: JsonObject = {"id": "acme", "status": "suspended", "weight": 500, "labels": {}}
    plan = planned((given, live("acme", weight=7, labels={"tier": "gold"})))
    (change,) = plan.changes
    assert change.after.status is TenantStatus.SUSPENDED
    assert (change.after.weight, change.after.labels) == (7, {})
    assert len(plan.problems) == 1


@pytest.mark.parametrize("given", [{"id": "acme", "status": "trial"}, {"id": "acme"}])
def test_a_status_that_is_unknown_or_given_twice_suspends(given: JsonObject) -> None:
    differing = DifferingTenant(
        given, live("acme"), is_twice="status" not in given, is_shared=False
    )
    plan = make_plan(Compared(AT, 1, 100, ("id",), (differing,)))
    (change,) = plan.changes
    assert change.after.status is TenantStatus.SUSPENDED
    assert change.after.status_reason == "the tenant source gives no valid status"


def test_columns_that_the_source_does_not_have_stay_as_they_are() -> None:
    plan = planned(({"id": "acme"}, live("acme", status="suspended", weight=9, labels={"a": "b"})))
    (change,) = plan.changes
    assert change.after.status is TenantStatus.ACTIVE
    assert (change.after.weight, change.after.labels) == (9, {"a": "b"})


def test_an_equivalent_row_changes_nothing() -> None:
    given: JsonObject = {"id": "acme", "weight": 1.0, "labels": None, "status_reason": ""}
    assert planned((given, live("acme"))).is_empty


def test_a_schema_that_moved_is_reported() -> None:
    plan = planned(({"id": "acme", "schema_name": "org_acme"}, live("acme")))
    assert plan.is_empty
    assert plan.problems[0].problem == (
        "its schema is 'tenant_acme', and the source says 'org_acme'"
    )


def test_missing_tenants_are_suspended_up_to_half_and_then_held() -> None:
    few = [(None, live(f"t{number}")) for number in range(50)]
    plan = planned(*few)
    assert (len(plan.changes), plan.held) == (50, ())
    assert {change.after.status for change in plan.changes} == {TenantStatus.SUSPENDED}
    assert all(change.after.is_missing for change in plan.changes)

    held = planned(*few, (None, live("t50")))
    assert (held.changes, len(held.held)) == ((), 51)
    assert len(planned(*few, (None, live("t50")), max_missing=51).changes) == 51


def test_five_may_always_go_missing() -> None:
    pairs = [(None, live(f"t{number}")) for number in range(5)]
    assert planned(*pairs, sourced=5).held == ()
    assert len(planned(*pairs, (None, live("t5")), sourced=6).held) == 6


def test_held_tenants_do_not_keep_others_from_being_suspended() -> None:
    gone = [(None, live(f"t{number}")) for number in range(60)]
    plan = planned(*gone, ({"id": "acme", "status": "suspended"}, live("acme")))
    assert [change.after.id for change in plan.changes] == ["acme"]
    assert len(plan.held) == 60


def test_tenants_that_the_source_deprovisions_count_for_the_guard() -> None:
    ended: list[tuple[JsonObject | None, JsonObject | None]] = [
        ({"id": f"t{number}", "status": "deprovisioned"}, live(f"t{number}")) for number in range(6)
    ]
    assert len(planned(*ended, sourced=6).held) == 6
    assert len(planned(*ended, sourced=12).changes) == 6


def test_the_plan_of_20_000_rows_without_a_difference_is_empty() -> None:
    assert planned(sourced=20_000).is_empty
