"""The difference between desired and live schedules."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.diff import Action, ScheduleChange, ScheduleDiff, diff
from tenantcron.reconciler.document import Stored, document, stored
from tenantcron.schedules.definition import Definition

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("x"), inner),
    max_leaves=3,
)
DEFINITIONS = st.builds(
    Definition,
    schedule_name=st.sampled_from(["a", "b", "c", "d"]),
    saga_name=st.sampled_from(["bill", "sync"]),
    cron_expr=st.sampled_from(["0 2 * * *", "@every 45m"]),
    timezone=st.sampled_from(["UTC", "Europe/London"]),
    enabled=st.booleans(),
    definition=st.dictionaries(st.sampled_from(["timeout", "payload"]), JSON),
)
TENANTS = st.lists(DEFINITIONS, unique_by=lambda definition: definition.schedule_name)


def definition(name: str = "a", cron: str = "0 2 * * *", **settings: JsonValue) -> Definition:
    return Definition(name, "bill", cron, "UTC", enabled=True, definition=settings)


def carry_out(difference: ScheduleDiff, live: list[Definition]) -> dict[str, Definition]:
    rows = {definition.schedule_name: definition for definition in live}
    for change in difference.changes:
        if change.after is None:
            del rows[change.schedule]
        else:
            rows[change.schedule] = change.after
    return rows


def exactly(value: JsonValue | JsonObject) -> str:
    """Make values different that Python considers equal: true and 1."""
    return json.dumps(value, sort_keys=True)


@given(TENANTS, TENANTS)
def test_applying_the_changes_turns_live_into_desired(
    desired: list[Definition], live: list[Definition]
) -> None:
    rows = carry_out(diff(desired, live), live)

    assert {name: exactly(definition.as_json()) for name, definition in rows.items()} == {
        definition.schedule_name: exactly(definition.as_json()) for definition in desired
    }


@given(TENANTS, TENANTS)
def test_a_second_difference_is_empty(desired: list[Definition], live: list[Definition]) -> None:
    rows = carry_out(diff(desired, live), live)

    assert diff(desired, [*rows.values()]) == ScheduleDiff((), unchanged=len(desired))


@given(TENANTS, TENANTS, st.randoms(use_true_random=False))
def test_the_order_of_either_side_does_not_matter(
    desired: list[Definition], live: list[Definition], random: Random
) -> None:
    shuffled = [random.sample(side, len(side)) for side in (desired, live)]

    assert diff(*shuffled) == diff(desired, live)


@given(TENANTS, TENANTS)
def test_an_update_lists_exactly_the_fields_that_differ(
    desired: list[Definition], live: list[Definition]
) -> None:
    for change in diff(desired, live).of(Action.UPDATE):
        assert change.before is not None
        assert change.after is not None
        before, after = _flat(change.before), _flat(change.after)
        differing = {key for key in before | after if before.get(key) != after.get(key)}
        assert set(change.fields) == differing
        assert differing


def _flat(definition: Definition) -> dict[str, str]:
    columns = {
        key: exactly(value) for key, value in definition.as_json().items() if key != "definition"
    }
    keys = {f"definition.{key}": exactly(value) for key, value in definition.definition.items()}
    return columns | keys


@given(TENANTS, TENANTS)
def test_every_schedule_is_counted_once(desired: list[Definition], live: list[Definition]) -> None:
    difference = diff(desired, live)

    names = {definition.schedule_name for definition in [*desired, *live]}
    assert len(difference.changes) + difference.unchanged == len(names)
    assert sum(difference.count(action) for action in Action) == len(difference.changes)


def test_changes_are_ordered_by_name() -> None:
    difference = diff(
        [definition("c"), definition("a", cron="0 3 * * *")], [definition("a"), definition("b")]
    )

    assert [(change.action, change.schedule) for change in difference.changes] == [
        (Action.UPDATE, "a"),
        (Action.DELETE, "b"),
        (Action.CREATE, "c"),
    ]


def test_a_change_has_both_definitions_and_the_fields() -> None:
    before, after = definition(timeout="5m", retry=1), definition(cron="0 3 * * *", timeout="6m")

    assert diff([after], [before]).changes == (
        ScheduleChange(
            Action.UPDATE,
            "a",
            before,
            after,
            ("cron_expr", "definition.retry", "definition.timeout"),
        ),
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        (False, 0),
        ([True], [1]),
        ({"x": False}, {"x": 0}),
        (None, {}),
        ("1", 1),
        ([1, 2], [2, 1]),
        ([], {}),
        ({"x": None}, {}),
    ],
)
def test_values_that_differ_in_json_are_different(left: JsonValue, right: JsonValue) -> None:
    assert diff([definition(payload=left)], [definition(payload=right)]).changes
    assert diff([definition(payload=right)], [definition(payload=left)]).changes


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_values_that_are_equal_in_json_are_equal(left: JsonValue, right: JsonValue) -> None:
    assert not diff([definition(payload=left)], [definition(payload=right)]).changes


def test_null_is_not_the_same_as_absent() -> None:
    changes = diff([definition(target=None)], [definition()]).changes

    assert changes[0].fields == ("definition.target",)


@given(TENANTS, TENANTS)
def test_stored_text_and_parsed_definitions_have_the_same_difference(
    desired: list[Definition], live: list[Definition]
) -> None:
    as_text = diff(stored(document(desired)), stored(document(live)))

    assert as_text == diff(desired, live)


def test_another_text_of_the_same_value_is_no_difference() -> None:
    integer = stored(document([definition(payload=1)]))
    other = Stored(integer.text.replace(" 1", " 1.0"), 1)

    assert integer != other
    assert diff(integer, other) == ScheduleDiff((), 1)
