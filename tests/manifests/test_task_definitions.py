"""What a client submits with a task is checked with the rules of manifests."""

from datetime import timedelta

import pytest

from tenantcron.core.egress import Egress
from tenantcron.core.names import TenantId
from tenantcron.core.targets import HttpTarget
from tenantcron.core.values import JsonObject
from tenantcron.manifests.policy import Policy, default_policy
from tenantcron.manifests.task_definitions import CheckedTask, check_task
from tenantcron.schedules.settings import DEFAULTS, Priority

BILLING = default_policy()._replace(egress=Egress(("billing.internal",)))


def checked(options: JsonObject, policy: Policy = BILLING) -> CheckedTask:
    return check_task(TenantId("acme"), options, policy)


def faults(options: JsonObject, policy: Policy = BILLING) -> list[tuple[str, str]]:
    """Return code and field of each fault."""
    found = checked(options, policy).faults
    return [(fault.code, ".".join(map(str, fault.pointer))) for fault in found]


def test_a_saga_alone_has_the_default_settings() -> None:
    assert checked({"saga": "send_invoice"}).definition == (DEFAULTS, None)


def test_settings_are_read_as_in_a_manifest() -> None:
    definition = checked(
        {
            "saga": "send_invoice",
            "priority": "high",
            "timeout": "90s",
            "retry": {"max_attempts": 7, "backoff": "2m"},
            "owner": "user:maria",
        }
    ).definition
    assert definition is not None
    settings = definition.settings
    assert settings.priority is Priority.HIGH
    assert settings.timeout == timedelta(seconds=90)
    assert (settings.retry.max_attempts, settings.retry.backoff) == (7, timedelta(minutes=2))
    assert settings.owner == "user:maria"


def test_a_target_is_read_as_in_a_manifest() -> None:
    target: JsonObject = {"http": {"url": "https://billing.internal/run"}}
    definition = checked({"saga": "send_invoice", "target": target}).definition
    assert definition is not None
    assert isinstance(definition.target, HttpTarget)
    assert definition.target.url == "https://billing.internal/run"


def test_a_target_without_a_saga_has_its_kind_as_saga() -> None:
    target: JsonObject = {"http": {"url": "https://billing.internal/run"}}
    assert checked({"target": target}).definition is not None
    assert faults({}) == faults({"target": {}}) == [("TC102", "saga")]


def test_all_faults_are_reported_at_the_fields_of_the_submission() -> None:
    found = faults(
        {
            "saga": "Send Invoice",
            "priority": "urgent",
            "timeout": "9d",
            "retry": {"max_attempts": 50},
            "owner": "maria",
            "target": {"http": {"url": "https://elsewhere.internal/run"}},
        }
    )
    assert sorted(found) == [
        ("TC106", "priority"),
        ("TC106", "retry.max_attempts"),
        ("TC107", "saga"),
        ("TC116", "owner"),
        ("TC305", "timeout"),
        ("TC402", "target.http.url"),
    ]


@pytest.mark.parametrize("options", [{}, {"saga": None}, {"saga": 5}])
def test_a_task_needs_a_saga(options: JsonObject) -> None:
    ((_, field),) = faults(options)
    assert field == "saga"


def test_the_limit_of_schedules_does_not_concern_tasks() -> None:
    policy = default_policy()._replace(max_schedules_per_tenant=0)
    assert faults({"saga": "send_invoice"}, policy) == []


def test_the_shortest_interval_of_schedules_does_not_concern_tasks() -> None:
    policy = default_policy()._replace(minimum_interval=timedelta(days=7))
    assert faults({"saga": "send_invoice"}, policy) == []
