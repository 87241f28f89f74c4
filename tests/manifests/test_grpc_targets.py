"""gRPC targets in manifests: the policy, addresses, services and audiences."""

import subprocess
import sys

import pytest
from support.http_targets import POLICY
from support.manifests import check_data, codes, manifest

from tenantcron.core.targets import OtherTarget
from tenantcron.core.values import JsonValue
from tenantcron.manifests.policy import Policy
from tenantcron.schedules.targets import read_target, write_target

ALLOWED = POLICY._replace(target_kinds=("grpc",))


def check(options: dict[str, JsonValue], policy: Policy = ALLOWED) -> list[str]:
    data = manifest({"every": "1h"}, target={"grpc": options})
    return codes(check_data(data, policy=policy))


@pytest.mark.parametrize(
    "options",
    [
        {"address": "billing.internal"},
        {"address": "billing.internal:8443"},
        {"address": "[::1]:443"},
        {"address": "a.grid.internal", "service": "acme.v1.Billing"},
        {"address": "localhost:8080", "plaintext": True},
        {"address": "billing.internal", "auth": "none"},
        {"address": "billing.internal", "auth": "execution_token"},
        {"address": "billing.internal", "auth": {"execution_token": {}}},
        {"address": "billing.internal", "auth": {"execution_token": {"audience": "billing"}}},
    ],
    ids=str,
)
def test_valid_targets(options: dict[str, JsonValue]) -> None:
    assert check(options) == []


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "TC102"),
        ({"address": 5}, "TC103"),
        ({"address": "billing.internal", "adress": "x"}, "TC101"),
        ({"address": "https://billing.internal"}, "TC401"),
        ({"address": "billing.internal/run"}, "TC401"),
        ({"address": "billing.internal?x"}, "TC401"),
        ({"address": "user@billing.internal"}, "TC401"),
        ({"address": "2130706433"}, "TC401"),
        ({"address": ""}, "TC401"),
        ({"address": "billing.internal", "plaintext": True}, "TC401"),
        ({"address": "other.internal"}, "TC402"),
        ({"address": "localhost"}, "TC402"),
        ({"address": "billing.internal:9"}, "TC405"),
        ({"address": "169.254.169.254"}, "TC406"),
        ({"address": "10.0.0.2"}, "TC406"),
        ({"address": "billing.internal", "service": "acme/Billing"}, "TC106"),
        ({"address": "billing.internal", "auth": "hmac"}, "TC106"),
        ({"address": "billing.internal", "auth": {"execution_token": {"audience": "x"}}}, "TC409"),
    ],
    ids=str,
)
def test_mistakes_have_a_code(options: dict[str, JsonValue], code: str) -> None:
    assert check(options) == [code]


def test_the_policy_must_name_the_kind() -> None:
    assert check({"address": "billing.internal"}, POLICY) == ["TC410"]


def test_the_options_are_stored_as_they_are_written() -> None:
    options: dict[str, JsonValue] = {"address": "billing.internal", "auth": "execution_token"}
    target = OtherTarget("grpc", options)
    assert read_target(write_target(target)) == target


def test_checking_a_manifest_needs_no_grpc_library() -> None:
    program = (
        "import sys, tenantcron.manifests.check, tenantcron.targets.kinds as kinds\n"
        "kinds.load_adapter('grpc')\n"
        "sys.exit('grpc' in sys.modules or 'google.protobuf' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
