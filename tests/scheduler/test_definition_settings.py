"""Definitions read back."""

from datetime import UTC, datetime

import pytest

from tenantcron.core.auth import Auth, HmacAuth, TokenAuth
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.desired import DesiredSchedule, HttpTarget
from tenantcron.manifests.policy import default_policy
from tenantcron.reconciler.definition import define
from tenantcron.scheduler.steps.definition_settings import PoliciesError, read_policies, read_target

MANIFEST = """
tenant: acme
sagas:
  - name: plain
    trigger: {scheduled: {cron: "0 2 * * *"}}
  - name: detailed
    trigger:
      scheduled:
        cron: "0 3 * * *"
        description: Everything said
        spread: 10m
        overlap: cancel_running
        catch_up: all
        catch_up_window: 2d
        start_within: 90s
        timeout: 30m
        retry: {max_attempts: 7, backoff: 5s, max_backoff: 10m}
        auto_pause_after: 0
        priority: critical
        owner: user:maria
        payload: {report: "{{fire_time}}", nested: [1, 2.5, null, true]}
"""


def desired() -> tuple[DesiredSchedule, ...]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    checked = check_manifest(MANIFEST.encode(), "yaml", default_policy(), TenantHints(), now)
    assert checked.desired is not None, checked.problems
    return checked.desired.schedules


DEFINITION = define(desired()[0]).definition


@pytest.mark.parametrize("schedule", desired(), ids=lambda schedule: schedule.name)
def test_what_a_manifest_says_is_read_back_as_it_was(schedule: DesiredSchedule) -> None:
    assert read_policies(define(schedule).definition) == schedule.timing.settings


def test_without_a_target_there_is_none() -> None:
    assert read_target(DEFINITION) is None


AUTHS: tuple[Auth | None, ...] = (
    None,
    TokenAuth(),
    TokenAuth("billing"),
    HmacAuth(SecretRef("env", "BILLING_HMAC")),
    HmacAuth(SecretRef("file", "/run/secrets/acme/hmac")),
)


@pytest.mark.parametrize("auth", AUTHS, ids=str)
def test_a_target_is_read_back_as_it_was(auth: Auth | None) -> None:
    target = HttpTarget("https://billing.internal/run", "POST", {"X-Team": "billing"}, auth)
    definition = define(desired()[0]._replace(target=target)).definition

    assert read_target(definition) == target


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("description", None),
        ("spread", 5),
        ("spread", "soon"),
        ("overlap", "maybe"),
        ("overlap", ["skip"]),
        ("catch_up", None),
        ("catch_up_window", "1 hour"),
        ("start_within", "-1s"),
        ("timeout", "0s"),
        ("retry", None),
        ("retry", {"max_attempts": 0, "backoff": "1s", "max_backoff": "1m"}),
        ("retry", {"max_attempts": True, "backoff": "1s", "max_backoff": "1m"}),
        ("retry", {"max_attempts": 3, "backoff": "1s"}),
        ("auto_pause_after", -1),
        ("auto_pause_after", "10"),
        ("priority", "urgent"),
        ("payload", "x" * 1000),
        ("owner", "maria"),
        ("owner", 5),
    ],
)
def test_nonsense_in_a_row_is_told_by_its_key(key: str, value: JsonValue) -> None:
    with pytest.raises(PoliciesError) as caught:
        read_policies(DEFINITION | {key: value})

    said = str(caught.value)
    assert key in said or key == "retry"
    assert "apply its manifest again" in said
    assert len(said) < 250


@pytest.mark.parametrize("key", [key for key in DEFINITION if key != "target"])
def test_a_missing_key_is_told(key: str) -> None:
    without: JsonObject = {name: value for name, value in DEFINITION.items() if name != key}

    with pytest.raises(PoliciesError, match=key):
        read_policies(without)


@pytest.mark.parametrize("auth", [None, "basic", {}, {"hmac": {"secret": "abc"}}])
def test_an_auth_that_is_none_is_told(auth: JsonValue) -> None:
    http: JsonValue = {"url": "https://a.test", "method": "POST", "headers": {}, "auth": auth}
    with pytest.raises(PoliciesError, match="auth"):
        read_target({"target": {"http": http}})


@pytest.mark.parametrize("target", ["http", {}, {"http": {"url": 5}}, []])
def test_a_target_that_is_none_is_told(target: JsonValue) -> None:
    with pytest.raises(PoliciesError, match="target"):
        read_target({"target": target})
