"""The stored form of settings and targets: content hash, reading back, manual changes."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from tenantcron.core.auth import Auth, BearerAuth, HmacAuth, MtlsAuth, OAuth2Auth, TokenAuth
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.targets import HttpTarget
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.policy import default_policy
from tenantcron.schedules import settings
from tenantcron.schedules.definition import define
from tenantcron.schedules.schedule import DesiredSchedule
from tenantcron.schedules.settings import (
    DefinitionError,
    Priority,
    read_settings,
    write_settings,
)
from tenantcron.schedules.targets import read_target
from tenantcron.store.rows.schedule_definitions import definition_id

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
        payload: {report: "{{fire_time}}", nested: [1, 2.5, null, true, -0.0, 1.0e+30]}
"""


def desired() -> tuple[DesiredSchedule, ...]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    checked = check_manifest(MANIFEST.encode(), "yaml", default_policy(), TenantHints(), now)
    assert checked.desired is not None, checked.problems
    return checked.desired.schedules


DEFINITION = define(desired()[0]).definition


@pytest.mark.parametrize("schedule", desired(), ids=lambda schedule: schedule.name)
def test_a_definition_is_read_back_as_the_manifest_has_it(schedule: DesiredSchedule) -> None:
    assert read_settings(define(schedule).definition) == schedule.timing.settings


def test_definitions_of_earlier_releases_keep_their_content_hash() -> None:
    detailed, plain = (definition_id(define(schedule).definition) for schedule in desired())

    assert detailed == UUID("9fdb7a66-bf08-5a78-897b-9890a18d503f")
    assert plain == UUID("ffdfa56b-d002-5373-ba13-0d2d60fbf31a")


def test_a_setting_of_a_later_release_is_stored_only_if_it_differs_from_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "_ALWAYS_STORED", settings._ALWAYS_STORED - {"priority"})
    high = settings.DEFAULTS._replace(priority=Priority.HIGH)

    assert "priority" not in write_settings(settings.DEFAULTS)
    assert read_settings(write_settings(settings.DEFAULTS)) == settings.DEFAULTS
    assert write_settings(high)["priority"] == "high"
    assert read_settings(write_settings(high)) == high


def test_without_a_target_there_is_none() -> None:
    assert read_target(DEFINITION) is None


AUTHS: tuple[Auth | None, ...] = (
    None,
    TokenAuth(),
    TokenAuth("billing"),
    HmacAuth(SecretRef("env", "BILLING_HMAC")),
    HmacAuth(SecretRef("file", "/run/secrets/acme/hmac")),
    BearerAuth(SecretRef("env", "BILLING_TOKEN")),
    OAuth2Auth("https://login.internal/token", "billing", SecretRef("env", "BILLING_OAUTH")),
    OAuth2Auth("https://login.internal/token", "b", SecretRef("file", "/run/x"), "a b"),
    MtlsAuth(SecretRef("file", "/run/tls.crt"), SecretRef("file", "/run/tls.key")),
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
def test_an_invalid_value_is_reported_with_its_key(key: str, value: JsonValue) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_settings(DEFINITION | {key: value})

    message = str(caught.value)
    assert key in message or key == "retry"
    assert "apply its manifest again" in message
    assert len(message) < 250


def test_a_stored_number_of_attempts_is_at_most_that_of_a_manifest() -> None:
    huge: JsonObject = {"max_attempts": 10**12, "backoff": "1s", "max_backoff": "1m"}

    assert read_settings(DEFINITION | {"retry": huge}).retry.max_attempts == 20


@pytest.mark.parametrize("key", [key for key in DEFINITION if key != "target"])
def test_a_missing_key_is_reported(key: str) -> None:
    without: JsonObject = {name: value for name, value in DEFINITION.items() if name != key}

    with pytest.raises(DefinitionError, match=key):
        read_settings(without)


@pytest.mark.parametrize("auth", [None, "basic", {}, {"hmac": {"secret": "abc"}}])
def test_an_invalid_auth_is_reported(auth: JsonValue) -> None:
    http: JsonValue = {"url": "https://a.test", "method": "POST", "headers": {}, "auth": auth}
    with pytest.raises(DefinitionError, match="auth"):
        read_target({"target": {"http": http}})


@pytest.mark.parametrize("target", ["http", {}, {"http": {"url": 5}}, []])
def test_an_invalid_target_is_reported(target: JsonValue) -> None:
    with pytest.raises(DefinitionError, match="target"):
        read_target({"target": target})
