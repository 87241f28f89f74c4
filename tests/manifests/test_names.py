"""Triggers and names of sagas and schedules, references by name, and the cap."""

from dataclasses import dataclass
from itertools import permutations

import pytest
from support.manifests import (
    check,
    check_data,
    check_scheduled,
    codes,
    only_schedule,
    policy_with,
)

from tenantcron.core.values import JsonValue


@dataclass(frozen=True)
class Trigger:
    """The short form of a trigger, and its problem."""

    text: str
    codes: tuple[str, ...] = ()
    hint: str | None = None


TRIGGERS = (
    Trigger("api:start"),
    Trigger("webhook:stripe_payment"),
    Trigger("event:grid.outage:anything at all"),
    Trigger("api"),
    Trigger("scheduled:a:0 2 * * *"),
    Trigger("scheduled:a:@daily"),
    Trigger("scheduled:a:@at 2099-01-01T09:00:00Z"),
    Trigger("schedule:a:0 2 * * *", ("TC112",), "did you mean `scheduled:`?"),
    Trigger("Scheduled:a:0 2 * * *", ("TC112",), "did you mean `scheduled:`?"),
    Trigger("webhok:x", ("TC112",), "did you mean `webhook:`?"),
    Trigger("manual", ("TC112",), "use scheduled, api, webhook, event"),
    Trigger("", ("TC112",)),
    Trigger("scheduled", ("TC107",), "write scheduled:<name> or scheduled:<name>:<cron>"),
    Trigger("scheduled:", ("TC107",)),
    Trigger("scheduled::0 2 * * *", ("TC107",)),
    Trigger("scheduled:Nightly:0 2 * * *", ("TC107",)),
    Trigger("scheduled: nightly:0 2 * * *", ("TC107",)),
    Trigger(f"scheduled:{'a' * 128}:0 2 * * *"),
    Trigger(f"scheduled:{'a' * 129}:0 2 * * *", ("TC107",)),
    Trigger("scheduled:nightly", ("TC206",), "define it under `schedules:`"),
    Trigger("scheduled:nightly\n", ("TC107",)),
)


@pytest.mark.parametrize("case", TRIGGERS, ids=lambda case: repr(case.text[:30]))
def test_the_short_form_of_a_trigger(case: Trigger) -> None:
    checked = check_data({"sagas": [{"name": "a", "trigger": case.text}]})
    assert codes(checked) == list(case.codes)
    if case.hint is not None:
        assert checked.problems[0].hint == case.hint


def test_triggers_of_other_kinds_create_no_schedule() -> None:
    checked = check_data(
        {
            "sagas": [
                {"name": "a", "trigger": "webhook:x"},
                {"name": "b", "trigger": {"event": {"any": ["thing", None]}, "api": 5}},
            ]
        }
    )
    assert checked.desired is not None
    assert checked.desired.schedules == ()


def test_an_undefined_name_is_reported_with_a_suggestion() -> None:
    checked = check_data(
        {
            "schedules": {"nightly": "0 2 * * *"},
            "sagas": [
                {"name": "a", "trigger": "scheduled:nightly"},
                {"name": "b", "trigger": {"scheduled": {"preset": "nighly"}}},
            ],
        }
    )
    (problem,) = checked.problems
    assert (problem.code, problem.hint) == ("TC206", "did you mean `nightly`?")
    assert problem.pointer == ("sagas", 1, "trigger", "scheduled", "preset")


def sagas(*triggers: JsonValue) -> JsonValue:
    return {
        "sagas": [
            {"name": f"saga_{index}", "trigger": trigger} for index, trigger in enumerate(triggers)
        ]
    }


def test_two_sagas_with_the_same_name_are_one_mistake_even_if_their_schedules_clash_too() -> None:
    saga: JsonValue = {"name": "a", "trigger": {"scheduled": {"every": "1h"}}}
    checked = check_data({"sagas": [saga, saga, saga]})
    assert codes(checked) == ["TC109", "TC109"]


def test_two_sagas_cannot_share_a_schedule_name() -> None:
    checked = check_data(
        sagas("scheduled:x:0 2 * * *", {"scheduled": {"name": "x", "every": "1h"}})
    )
    (problem,) = checked.problems
    assert problem.code == "TC110"
    assert problem.message == "schedule `x` belongs to saga `saga_0` already"
    assert problem.pointer == ("sagas", 1, "trigger", "scheduled", "name")


def test_the_name_of_a_saga_is_the_default_name_of_its_schedule() -> None:
    checked = check_data(sagas({"scheduled": {"every": "1h"}}, "scheduled:saga_0:0 2 * * *"))
    assert codes(checked) == ["TC110"]


def test_two_sagas_may_use_one_timetable_under_different_names() -> None:
    checked = check_data(
        {
            "schedules": {"nightly": "0 2 * * *"},
            "sagas": [
                {"name": "a", "trigger": "scheduled:nightly"},
                {"name": "b", "trigger": {"scheduled": {"preset": "nightly"}}},
            ],
        }
    )
    assert checked.desired is not None
    assert [schedule.name for schedule in checked.desired.schedules] == ["b", "nightly"]


def shared(*names: str) -> list[tuple[str, str]]:
    """Return schedules and sagas of a manifest in which these sagas refer to one timetable."""
    named: JsonValue = {"nightly": {"daily": {"at": "02:00"}, "timezone": "Europe/London"}}
    listed: JsonValue = [{"name": name, "trigger": "scheduled:nightly"} for name in names]
    checked = check_data({"schedules": named, "sagas": listed})
    assert checked.desired is not None, checked.problems
    assert {schedule.timing.timezone for schedule in checked.desired.schedules} == {"Europe/London"}
    return [(schedule.name, schedule.saga) for schedule in checked.desired.schedules]


def test_further_sagas_that_refer_to_a_timetable_have_schedules_of_their_own_name() -> None:
    assert shared("report") == [("nightly", "report")]
    assert shared("report", "rollup") == [("nightly", "report"), ("rollup", "rollup")]
    assert shared("report", "rollup", "archive") == [
        ("archive", "archive"),
        ("nightly", "report"),
        ("rollup", "rollup"),
    ]


def test_sagas_can_share_a_preset_of_the_policy() -> None:
    timing = only_schedule(check_scheduled({"every": "1h"})).timing
    data = sagas("scheduled:hourly", "scheduled:hourly", "scheduled:nightly")
    checked = check_data(data, policy=policy_with(presets={"hourly": timing, "nightly": timing}))
    assert checked.desired is not None
    names = [schedule.name for schedule in checked.desired.schedules]
    assert names == ["hourly", "nightly", "saga_1"]


def test_a_schedule_named_after_its_saga_can_still_clash() -> None:
    data = sagas("scheduled:nightly", "scheduled:nightly", "scheduled:saga_1:0 2 * * *")
    presets = {"nightly": only_schedule(check_scheduled({"every": "1h"})).timing}
    assert codes(check_data(data, policy=policy_with(presets=presets))) == ["TC110"]


def test_a_timetable_that_no_saga_refers_to_is_a_warning() -> None:
    checked = check("schedules:\n  nightly: '0 2 * * *'\nsagas: []\n")
    (problem,) = checked.problems
    assert problem.code == "TC210"
    assert (problem.span.line, problem.span.column, problem.span.end_column) == (2, 3, 10)
    assert checked.desired is not None


def test_a_name_with_a_cron_expression_does_not_refer_to_the_named_timetable() -> None:
    checked = check_data(
        {
            "schedules": {"nightly": "0 2 * * *"},
            "sagas": [{"name": "a", "trigger": "scheduled:nightly:0 3 * * *"}],
        }
    )
    assert codes(checked) == ["TC210"]


def many(count: int) -> JsonValue:
    return sagas(*(f"scheduled:s{index}:0 2 * * *" for index in range(count)))


def test_a_cap_of_one_is_singular() -> None:
    policy = policy_with(cap=1)
    (problem,) = check_data(many(2), policy=policy).problems
    assert problem.message == "the tenant has 2 schedules, 1 is allowed"


def test_the_cap_may_be_reached_but_not_exceeded() -> None:
    assert codes(check_data(many(20))) == []
    (problem,) = check_data(many(21)).problems
    assert (problem.code, problem.pointer) == ("TC302", ("sagas", 20, "trigger"))
    assert problem.message == "the tenant has 21 schedules, 20 are allowed"
    assert problem.hint == (
        "remove 1 schedule, or have the platform team write `max_schedules = 21` in "
        "[policy.tenants.acme]; a limit from `tenant set --max-schedules` is in the database: plan "
        "and apply use it, validate cannot"
    )


def test_the_platform_sets_the_cap() -> None:
    assert codes(check_data(many(3), policy=policy_with(cap=2))) == ["TC302"]
    assert codes(check_data(many(0), policy=policy_with(cap=0))) == []
    assert codes(check_data(many(1), policy=policy_with(cap=0))) == ["TC302"]


def test_only_schedules_count_towards_the_cap() -> None:
    webhooks = sagas(*("webhook:x" for _ in range(30)), "scheduled:a:0 2 * * *")
    assert codes(check_data(webhooks, policy=policy_with(cap=1))) == []


def test_the_order_of_sagas_does_not_matter() -> None:
    listed: list[JsonValue] = [
        {"name": "a", "trigger": "scheduled:z:0 2 * * *"},
        {"name": "b", "trigger": {"scheduled": {"every": "1h"}}},
        {"name": "c", "trigger": "scheduled:m:@daily"},
    ]
    desired = [check_data({"sagas": list(order)}).desired for order in permutations(listed)]
    first = desired[0]
    assert first is not None
    assert [schedule.name for schedule in first.schedules] == ["b", "m", "z"]
    assert all(other == first for other in desired)


def test_the_name_next_to_a_timetable_identifies_the_schedule() -> None:
    checked = check_data(
        {"sagas": [{"name": "a", "trigger": {"scheduled": {"name": "x", "every": "1h"}}}]}
    )
    schedule = only_schedule(checked)
    assert (schedule.name, schedule.saga) == ("x", "a")


def broken(count: int) -> JsonValue:
    return sagas(*(f"scheduled:s{index}:61 2 * * *" for index in range(count)))


def test_slightly_over_the_cap_other_mistakes_are_reported_too() -> None:
    assert set(codes(check_data(broken(21)))) == {"TC201", "TC302"}


def test_far_over_the_cap_no_schedule_is_checked() -> None:
    (problem,) = check_data(broken(3_000)).problems
    assert (problem.code, problem.pointer) == ("TC302", ("sagas", 20, "trigger"))
    assert problem.message == "the tenant has 3000 schedules, 20 are allowed"
    written_out: list[JsonValue] = [
        {"name": f"s{index}", "trigger": {"scheduled": {"cron": "61 2 * * *"}}}
        for index in range(3_000)
    ]
    (problem,) = check_data({"sagas": written_out}).problems
    assert problem.message == "the tenant has 3000 schedules, 20 are allowed"
    assert "TC302" not in codes(check_data(broken(3_000), policy=policy_with(cap=3_000)))


def test_triggers_of_other_tools_never_count_towards_the_cap() -> None:
    others = sagas(*("webhook:incoming" for _ in range(500)))
    assert "TC302" not in codes(check_data(others))
