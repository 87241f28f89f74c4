"""`completion` and `heartbeat` of HTTP targets in manifests and stored definitions."""

from datetime import UTC, datetime, timedelta

import pytest

from tenantcron.core.errors import TenantcronError
from tenantcron.core.targets import HttpTarget
from tenantcron.manifests.check import CheckedManifest, TenantHints, check_manifest
from tenantcron.manifests.policy import default_policy
from tenantcron.schedules.targets import read_target, write_target

POLICY = default_policy()._replace(
    egress=default_policy().egress._replace(hosts=("billing.internal",))
)
MANIFEST = """
tenant: acme
sagas:
  - name: report
    trigger: {scheduled: {daily: {at: "02:00"}}}
    target: {http: {url: "https://billing.internal/run"%s}}
"""


def check(options: str) -> CheckedManifest:
    content = (MANIFEST % options).encode()
    now = datetime(2026, 11, 16, tzinfo=UTC)
    return check_manifest(content, "yaml", POLICY, TenantHints(), now)


@pytest.mark.parametrize(
    ("options", "heartbeat"),
    [
        ("", None),
        (", completion: response", None),
        (", completion: callback", timedelta(minutes=1)),
        (", completion: callback, heartbeat: 30s", timedelta(seconds=30)),
    ],
)
def test_a_target_is_completed_by_its_response_or_by_callback(
    options: str, heartbeat: timedelta | None
) -> None:
    checked = check(options)
    assert checked.problems == ()
    assert checked.desired is not None
    target = checked.desired.schedules[0].target
    assert isinstance(target, HttpTarget)
    assert target.heartbeat == heartbeat
    assert read_target(write_target(target)) == target


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (", heartbeat: 30s", "TC106"),
        (", completion: callback, heartbeat: 1s", "TC305"),
        (", completion: callback, heartbeat: 2h", "TC305"),
        (", completion: later", "TC106"),
    ],
)
def test_a_heartbeat_that_cannot_work_is_an_error(options: str, code: str) -> None:
    assert [problem.code for problem in check(options).problems] == [code]


def test_definitions_without_callbacks_are_stored_as_before() -> None:
    stored = write_target(HttpTarget("https://billing.internal", "POST", {}))
    assert stored == {
        "target": {
            "http": {
                "url": "https://billing.internal",
                "method": "POST",
                "headers": {},
                "auth": "none",
            }
        }
    }


def test_a_stored_heartbeat_that_was_edited_manually_is_unreadable() -> None:
    stored = write_target(HttpTarget("https://x", "POST", {}, heartbeat=timedelta(seconds=30)))
    stored["target"]["http"]["callback"] = {"heartbeat": 5}  # type: ignore[index,call-overload] # as it is stored
    with pytest.raises(TenantcronError, match="callback"):
        read_target(stored)
