"""Temporal targets in manifests and in the policy."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.attempts import SETTINGS, claimed
from support.handlers import NoDatabase

from tenantcron.core.egress import Egress, Url
from tenantcron.core.errors import UsageError
from tenantcron.core.settings import Settings
from tenantcron.core.targets import OtherTarget
from tenantcron.core.values import JsonObject
from tenantcron.manifests.check import CheckedManifest, TenantHints, check_manifest
from tenantcron.manifests.policy import Policy, load_policy
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.deliver import Deliveries
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.contract import RunnerServices
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.kinds import open_runner
from tenantcron.targets.python.registry import Handlers

EXAMPLE = Path(__file__).parents[2] / "examples" / "temporal"
POLICY = """
[policy]
target_kinds = ["temporal"]
allowed_temporal_workflows = [
  "default/billing/Invoice*",
  "of-{tenant}/reports/Daily",
  "t*/every/*",
  "default/every/*",
  "default/t*/*",
]
[policy.tenants.globex]
allowed_temporal_workflows = ["default/admin/*"]
"""
MANIFEST = """
tenant: %s
sagas:
  - name: reconcile
    trigger: {scheduled: {daily: {at: "02:00"}}}
    target:
      temporal:
%s
"""
NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    file = tmp_path / "tenantcron.toml"
    file.write_text(POLICY, encoding="utf-8")
    return load_policy(file)


def check(policy: Policy, options: str, tenant: str = "acme") -> CheckedManifest:
    lines = "\n".join(f"        {option}" for option in options.split(", "))
    content = (MANIFEST % (tenant, lines)).encode()
    return check_manifest(content, "yaml", policy, TenantHints(), NOW)


@pytest.mark.parametrize(
    ("tenant", "options"),
    [
        ("acme", "workflow: InvoiceRun, task_queue: billing"),
        ("acme", "workflow: Daily, task_queue: reports, namespace: of-acme"),
        ("acme", "workflow: Any, task_queue: every, namespace: tests"),
        ("globex", "workflow: Any, task_queue: admin"),
    ],
)
def test_workflows_of_the_policy_may_be_started(policy: Policy, tenant: str, options: str) -> None:
    assert check(policy, options, tenant).problems == ()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        # Lines of the manifest: 8 is `workflow`, then the other options in their order.
        ("workflow: Invoice, task_queue: billing, namespace: prod", 10),
        ("workflow: Daily, task_queue: reports, namespace: of-globex", 10),
        ("workflow: Invoice, task_queue: admin", 9),
        ("workflow: Reset, task_queue: billing", 8),
        ("workflow: Daily, task_queue: every, namespace: temporal-system", 10),
        ("workflow: temporal-sys-batch-workflow, task_queue: every", 8),
        ("workflow: Any, task_queue: temporal-sys-per-ns-tq", 9),
    ],
)
def test_the_option_that_no_entry_allows_is_reported_at_its_place(
    policy: Policy, options: str, line: int
) -> None:
    (problem,) = check(policy, options).problems
    assert (problem.code, problem.span.line) == ("TC413", line)
    assert "to allowed_temporal_workflows in the [policy] table" in (problem.hint or "")


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        ("task_queue: billing", "TC102", "workflow"),
        ("workflow: Invoice", "TC102", "task_queue"),
        ("workflow: 'bad name', task_queue: billing", "TC106", "workflow"),
        ("workflow: Invoice, task_queue: a/b", "TC106", "task_queue"),
        ("workflow: Invoice, task_queue: billing, namespace: ''", "TC106", "namespace"),
        ("workflow: Invoice, task_queue: billing, taskqueue: b", "TC101", "taskqueue"),
        ("workflow: Invoice, task_queue: billing, timeout: 5m", "TC101", "timeout"),
        ("workflow: Invoice, task_queue: billing, auth: bearer", "TC106", "auth"),
    ],
)
def test_mistakes_in_options_are_reported_with_their_names(
    policy: Policy, options: str, code: str, part: str
) -> None:
    (problem,) = check(policy, options).problems
    assert problem.code == code
    assert part in problem.message


def test_a_token_for_another_service_must_be_allowed(policy: Policy) -> None:
    options = "workflow: Invoice, task_queue: billing, auth: {execution_token: {audience: other}}"
    (problem,) = check(policy, options).problems
    assert problem.code == "TC409"
    assert "targets at temporal://default/billing" in problem.message


def test_an_entry_without_a_namespace_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tenantcron.toml"
    file.write_text('[policy]\nallowed_temporal_workflows = ["billing/Invoice"]\n', "utf-8")
    with pytest.raises(UsageError, match="namespace/task_queue/workflow"):
        load_policy(file)


def test_validation_does_not_import_the_library() -> None:
    command = (
        "import sys; from tenantcron.cli.main import main; code = main(['validate', sys.argv[1]]);"
        "print([name for name in sys.modules if name.split('.')[0] in ('temporalio', 'grpc')]);"
        "sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", command, str(EXAMPLE / "acme.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran
    assert ran.stdout.splitlines()[-1] == "[]"


async def just_begun(_: Claimed, __: ScheduleSettings) -> timedelta:
    return timedelta(0)


async def attempt(policy: Policy, options: JsonObject) -> Attempt:
    settings = Settings(folder=Path(), temporal_address=Url("http", "127.0.0.1", 1, "/"))
    runner = open_runner("temporal", RunnerServices(HttpClient(Egress()), None, settings))
    deliveries = Deliveries({"temporal": runner}, policy, just_begun)
    executor = Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries)
    try:
        return await executor.run(claimed(), SETTINGS, OtherTarget("temporal", options))
    finally:
        await runner.close()


async def test_a_scheduler_checks_stored_targets_again(policy: Policy) -> None:
    pytest.importorskip("temporalio")
    ended = await attempt(policy, {"workflow": "Reset", "task_queue": "admin"})
    assert ended.final
    assert "default/admin/Reset may not be started" in (ended.error or "")
    ended = await attempt(policy, {"workflow": "Invoice"})
    assert ended.final
    assert "apply its manifest again" in (ended.error or "")
