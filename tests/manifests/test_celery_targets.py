"""Celery targets in manifests and in the policy."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.attempts import SETTINGS, claimed
from support.handlers import NoDatabase

from tenantcron.core.egress import Egress
from tenantcron.core.errors import UsageError
from tenantcron.core.secret_refs import SecretRef
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

POLICY = """
[policy]
target_kinds = ["celery"]
allowed_celery_tasks = ["billing/billing.*", "of-{tenant}/reports.daily"]
[policy.tenants.globex]
allowed_celery_tasks = ["admin/*"]
"""
MANIFEST = """
tenant: %s
sagas:
  - name: reconcile
    trigger: {scheduled: {daily: {at: "02:00"}}}
    target: {celery: {%s}}
"""
NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    file = tmp_path / "tenantcron.toml"
    file.write_text(POLICY, encoding="utf-8")
    return load_policy(file)


def check(policy: Policy, options: str, tenant: str = "acme") -> CheckedManifest:
    content = (MANIFEST % (tenant, options)).encode()
    return check_manifest(content, "yaml", policy, TenantHints(), NOW)


@pytest.mark.parametrize(
    ("tenant", "options", "codes"),
    [
        ("acme", "task: billing.invoice, queue: billing", []),
        ("acme", "task: reports.daily, queue: of-acme", []),
        ("acme", "task: reports.daily, queue: of-globex", ["TC412"]),
        ("acme", "task: billing, queue: billing", ["TC412"]),
        ("acme", "task: anything, queue: admin", ["TC412"]),
        ("globex", "task: anything, queue: admin", []),
    ],
)
def test_the_policy_decides_which_tasks_a_tenant_may_send(
    policy: Policy, tenant: str, options: str, codes: list[str]
) -> None:
    checked = check(policy, options, tenant)
    assert [problem.code for problem in checked.problems] == codes


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("queue: billing", "task"),
        ("task: 'bad name', queue: billing", "task"),
        ("task: billing.a, queue: 'a b'", "queue"),
        ("task: billing.a, queue: billing, quue: b", "quue"),
        ("task: billing.a, queue: billing, heartbeat: 1s", "heartbeat"),
        ("task: billing.a, queue: billing, queue_wait: 2d", "queue_wait"),
    ],
)
def test_mistakes_in_options_are_reported_with_their_names(
    policy: Policy, options: str, part: str
) -> None:
    (problem,) = check(policy, options).problems
    assert part in problem.message


def test_an_entry_without_a_queue_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tenantcron.toml"
    file.write_text('[policy]\nallowed_celery_tasks = ["billing.invoice"]\n', encoding="utf-8")
    with pytest.raises(UsageError, match="queue/task"):
        load_policy(file)


async def just_begun(_: Claimed, __: ScheduleSettings) -> timedelta:
    return timedelta(0)


async def attempt(policy: Policy, options: JsonObject) -> Attempt:
    settings = Settings(folder=Path(), celery_broker=SecretRef("env", "NO_SUCH_BROKER"))
    runner = open_runner("celery", RunnerServices(HttpClient(Egress()), None, settings))
    deliveries = Deliveries({"celery": runner}, policy, just_begun)
    executor = Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries)
    try:
        return await executor.run(claimed(), SETTINGS, OtherTarget("celery", options))
    finally:
        await runner.close()


async def test_a_scheduler_checks_stored_targets_again(policy: Policy) -> None:
    pytest.importorskip("celery")
    ended = await attempt(policy, {"task": "anything", "queue": "admin"})
    assert ended.final
    assert 'can add "admin/anything" to allowed_celery_tasks' in (ended.error or "")
    ended = await attempt(policy, {"task": "billing.a"})
    assert "apply its manifest again" in (ended.error or "")


def test_a_scheduler_without_a_broker_does_not_start() -> None:
    pytest.importorskip("celery")
    services = RunnerServices(HttpClient(Egress()), None, Settings(folder=Path()))
    with pytest.raises(UsageError, match="need the setting celery_broker"):
        open_runner("celery", services)
