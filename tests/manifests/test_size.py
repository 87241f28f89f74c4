"""The size of a tenant's schedules, as the database stores them."""

from support.manifests import check_data, codes, policy_with

from tenantcron.core.values import JsonValue

KIB = 1024


def sharing(count: int, payload: JsonValue) -> dict[str, JsonValue]:
    """Return sagas whose schedules share the payload of one named entry, without an alias."""
    sagas: list[JsonValue] = [
        {"name": f"s{number}", "trigger": {"scheduled": {"name": f"s{number}", "preset": "large"}}}
        for number in range(count)
    ]
    return {"schedules": {"large": {"cron": "0 2 * * *", "payload": payload}}, "sagas": sagas}


def test_a_payload_that_many_schedules_share_counts_for_each() -> None:
    large: JsonValue = {"text": "x" * 200 * KIB}
    assert codes(check_data(sharing(20, large))) == []
    (problem,) = check_data(sharing(21, large), policy=policy_with(cap=50)).problems
    assert (problem.code, problem.pointer) == (
        "TC308",
        ("sagas", 20, "trigger", "scheduled", "name"),
    )
    assert problem.message == "the schedules have 4,301,031 bytes, 4,194,304 are allowed"


def test_the_platform_sets_the_size_limit() -> None:
    payload: JsonValue = {"text": "x" * KIB}
    assert codes(check_data(sharing(3, payload), policy=policy_with(size=4 * KIB))) == []
    assert codes(check_data(sharing(4, payload), policy=policy_with(size=4 * KIB))) == ["TC308"]


def test_payloads_descriptions_and_targets_count() -> None:
    header: JsonValue = {"X-Note": "x" * KIB}
    target: JsonValue = {
        "http": {"url": "https://billing.internal/" + "a" * KIB, "headers": header}
    }
    scheduled: JsonValue = {"cron": "0 2 * * *", "description": "x" * 200}
    saga: JsonValue = {"name": "a", "trigger": {"scheduled": scheduled}, "target": target}
    policy = policy_with(hosts=("billing.internal",), size=2_200)
    (problem,) = check_data({"sagas": [saga]}, policy=policy).problems
    assert problem.code == "TC308"


def test_the_size_is_measured_as_json_in_utf8() -> None:
    payload: JsonValue = {"text": "é" * KIB}
    assert codes(check_data(sharing(1, payload), policy=policy_with(size=2 * KIB))) == ["TC308"]
