"""Kinds of targets: plug-ins of other distributions, in manifests and in replicas."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pytest
from support.attempts import SETTINGS, claimed
from support.distribution import install
from support.handlers import NoDatabase

from tenantcron.core.egress import Egress
from tenantcron.core.errors import UsageError
from tenantcron.core.targets import GROUP, OtherTarget
from tenantcron.manifests.check import CheckedManifest, TenantHints, check_manifest
from tenantcron.manifests.language import other_targets
from tenantcron.manifests.policy import Policy, default_policy
from tenantcron.scheduler.steps.attempts import Attempt, AttemptOutcome
from tenantcron.scheduler.steps.deliver import Deliveries
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.schedules.targets import read_target, write_target
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.contract import RunnerServices
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.kinds import installed, load_adapter, open_runner
from tenantcron.targets.python.registry import Handlers

PLUGIN = '''
"""A kind of target that records its calls."""
from tenantcron.targets.contract import Delivered
from tenantcron.targets.responses import FailCall, RetryCall

CALLS = []


class Runner:
    async def run(self, call):
        CALLS.append((call.target.options, call.key, call.execution.tenant_id))
        call.answer.text = "queued"
        match call.target.options.get("fails"):
            case "once":
                raise RetryCall("the queue is full")
            case "finally":
                raise FailCall("there is no such queue")
        return Delivered.DONE

    async def close(self):
        pass


class AcmeQueue:
    options_schema = {
        "type": "object",
        "required": ["queue"],
        "additionalProperties": False,
        "properties": {"queue": {"type": "string"}, "fails": {"enum": ["once", "finally"]}},
    }

    def open(self, services):
        return Runner()


class Nothing:
    pass
'''
ENTRIES = "acme_queue = acme_targets:AcmeQueue\nnothing = acme_targets:Nothing"
MANIFEST = """
tenant: acme
sagas:
  - name: reconcile
    trigger: {scheduled: {daily: {at: "02:00"}}}
    target: {%s}
"""
NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed distribution with the kind `acme_queue`."""
    install(tmp_path / "site", "acme_targets", dedent(PLUGIN), {GROUP: ENTRIES})
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    sys.modules.pop("acme_targets", None)
    other_targets.options_validator.cache_clear()


def policy(*kinds: str) -> Policy:
    return default_policy()._replace(target_kinds=kinds)


def check(target: str, *kinds: str) -> CheckedManifest:
    content = (MANIFEST % target).encode()
    return check_manifest(content, "yaml", policy(*kinds), TenantHints(), NOW)


@pytest.mark.usefixtures("plugin")
class TestManifests:
    def test_options_of_a_plug_in_are_stored_as_they_are_written(self) -> None:
        checked = check("acme_queue: {queue: reports}", "acme_queue")
        assert checked.problems == ()
        assert checked.desired is not None
        target = checked.desired.schedules[0].target
        assert target == OtherTarget("acme_queue", {"queue": "reports"})
        assert read_target(write_target(target)) == target

    def test_all_mistakes_in_options_are_reported_at_their_positions(self) -> None:
        checked = check("acme_queue: {queue: 5, fails: often, more: 1}", "acme_queue")
        assert {problem.code for problem in checked.problems} == {"TC106"}
        assert {problem.pointer[3:] for problem in checked.problems} == {
            ("acme_queue",),
            ("acme_queue", "queue"),
            ("acme_queue", "fails"),
        }

    def test_a_kind_that_the_policy_does_not_name_is_an_error_although_it_is_installed(
        self,
    ) -> None:
        (problem,) = check("acme_queue: {queue: reports}").problems
        assert problem.code == "TC410"
        assert 'can add "acme_queue" to target_kinds' in (problem.hint or "")
        assert "acme_targets" not in sys.modules

    def test_a_plug_in_without_a_schema_is_reported_in_the_manifest_that_uses_it(self) -> None:
        (problem,) = check("nothing: {}", "nothing").problems
        assert "has no `options_schema`" in problem.message


def test_a_misspelt_kind_is_reported_with_the_likely_one() -> None:
    (problem,) = check("htpp: {url: 'https://x'}").problems
    assert (problem.code, problem.hint) == ("TC410", "did you mean `http`?")


def test_options_cannot_be_checked_where_the_plug_in_is_not_installed() -> None:
    checked = check("acme_queue: {anything: 1}", "acme_queue")
    assert [problem.code for problem in checked.problems] == ["TC411"]
    assert checked.desired is not None


def test_one_saga_has_one_target() -> None:
    codes = [problem.code for problem in check("acme_queue: {}, other: {}", "acme_queue").problems]
    assert codes == ["TC106"]


async def begun(_: Claimed, __: ScheduleSettings) -> timedelta:
    return timedelta(0)


async def attempt(**options: str) -> Attempt:
    services = RunnerServices(HttpClient(Egress((), ())))
    runners = {"acme_queue": open_runner("acme_queue", services)}
    deliveries = Deliveries(runners, policy("acme_queue"), begun)
    executor = Executor(Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries)
    return await executor.run(claimed(), SETTINGS, OtherTarget("acme_queue", {**options}))


@pytest.mark.usefixtures("plugin")
class TestReplicas:
    async def test_a_plug_in_runs_attempts_and_its_answer_is_stored(self) -> None:
        ended = await attempt(queue="reports")
        assert ended.outcome is AttemptOutcome.SUCCEEDED
        assert ended.answer is not None
        assert ended.answer.text == "queued"
        ((options, key, tenant),) = sys.modules["acme_targets"].CALLS
        assert (options, tenant) == ({"queue": "reports"}, "acme")
        assert key.startswith("sched:")

    @pytest.mark.parametrize(("fails", "final"), [("once", False), ("finally", True)])
    async def test_a_plug_in_decides_whether_a_failure_is_retried(
        self, fails: str, final: bool
    ) -> None:
        ended = await attempt(queue="reports", fails=fails)
        assert (ended.outcome, ended.final) == (AttemptOutcome.FAILED, final)

    async def test_a_kind_that_the_replica_does_not_serve_is_refused(self) -> None:
        executor = Executor(
            Handlers.of([]), lambda _: NoDatabase(), deliveries=Deliveries({}, policy(), begun)
        )
        ended = await executor.run(claimed(), SETTINGS, OtherTarget("acme_queue", {}))
        assert ended.error == "this scheduler serves no acme_queue targets"

    def test_only_installed_kinds_are_served_and_none_is_imported_for_that(self) -> None:
        assert installed(("http", "acme_queue", "absent")) == ("http", "acme_queue")
        assert "acme_targets" not in sys.modules

    def test_an_entry_point_that_is_no_adapter_is_refused(self) -> None:
        with pytest.raises(UsageError, match="needs `options_schema` and `open`"):
            load_adapter("nothing")
        with pytest.raises(UsageError, match="no installed distribution has an entry point"):
            load_adapter("absent")
