"""Spans: one trace per execution, across services, and none without an exporter."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.attempts import SETTINGS, claimed
from support.fleet import Shell, manifest
from support.handlers import NoDatabase, handler
from support.manifests import policy_with
from support.patience import PATIENCE
from support.processes import query
from support.replicas import Works, due
from support.scheduling import Scheduling
from support.services import Service, answering, service

from tenantcron.core.targets import HttpTarget
from tenantcron.manifests.policy import Policy
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.scheduler.replica.replica_loops import ReplicaRun
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.attempts import AttemptOutcome
from tenantcron.scheduler.steps.deliver import Deliveries
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import HandlerFunction
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.runner import HttpRunner
from tenantcron.targets.python.registry import Handlers
from tenantcron.targets.tracing import Tracing, tracing

ID = UUID("5d7f3a8e-2b1c-5e4f-9a6b-0c1d2e3f4a5b")


@dataclass(frozen=True, slots=True)
class Kept:
    """A provider that keeps its spans in memory."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    provider: TracerProvider = field(default_factory=TracerProvider)

    def __post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def tracing(self) -> Tracing:
        return Tracing(self.provider.get_tracer("tenantcron"))

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the ended spans with a name."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str:
    assert span.parent is not None
    return f"{span.parent.span_id:016x}"


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
async def target() -> AsyncIterator[Service]:
    async with service(answering(503)) as running:
        yield running


def policy_for(target: Service) -> Policy:
    return policy_with(hosts=("http://127.0.0.1",), networks=("127.0.0.0/8",), ports=(target.port,))


async def call(target: Service, kept: Kept, attempt: int) -> None:
    """Run one attempt of the same execution."""
    policy = policy_for(target)
    caller = HttpClient(policy.egress, tracing=kept.tracing)

    async def just_begun(*_: object) -> object:
        raise AssertionError

    deliveries = Deliveries({"http": HttpRunner(caller)}, policy, just_begun)  # type: ignore[arg-type] # is not asked
    executor = Executor(
        Handlers.of([]), lambda _: NoDatabase(), deliveries=deliveries, tracing=kept.tracing
    )
    of = claimed(execution_id=ID, attempt=attempt, attempts_allowed=attempt + 2)
    await executor.run(of, SETTINGS, HttpTarget(f"{target.url}/run?key=secret", "POST", {}))
    await caller.close()


async def test_a_target_continues_the_span_of_its_call_in_the_trace_of_the_execution(
    target: Service, kept: Kept
) -> None:
    await call(target, kept, 1)
    (called,), (executed,) = kept.named("tenantcron.call"), kept.named("tenantcron.execute")
    assert target.only.headers["traceparent"] == f"00-{ID.hex}-{id_of(called)}-01"
    assert trace_of(called) == trace_of(executed) == ID.hex
    assert parent_of(called) == id_of(executed)
    assert called.kind is SpanKind.CLIENT
    assert called.attributes is not None
    assert called.attributes["http.response.status_code"] == 503
    assert "secret" not in str(called.attributes["url.full"])
    assert called.status.status_code is StatusCode.ERROR


async def test_all_attempts_of_an_execution_are_in_one_trace(target: Service, kept: Kept) -> None:
    for attempt in (1, 2, 3):
        await call(target, kept, attempt)
    spans = kept.named("tenantcron.execute")
    assert {trace_of(span) for span in spans} == {ID.hex}
    assert len({id_of(span) for span in spans}) == 3
    assert len({parent_of(span) for span in spans}) == 1
    assert [span.attributes and span.attributes["tenantcron.attempt"] for span in spans] == [
        1,
        2,
        3,
    ]
    parents = [request.headers["traceparent"].split("-") for request in target.received]
    assert {parts[1] for parts in parents} == {ID.hex}
    assert [parts[2] for parts in parents] == [
        id_of(span) for span in kept.named("tenantcron.call")
    ]


async def test_the_sampling_decision_is_propagated_to_the_target(target: Service) -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF  # noqa: PLC0415 -- of this test only

    unsampled = Kept(provider=TracerProvider(sampler=ALWAYS_OFF))
    await call(target, unsampled, 1)
    version, found, _, flags = target.only.headers["traceparent"].split("-")
    assert (version, found, flags) == ("00", ID.hex, "00")
    assert not unsampled.exporter.get_finished_spans()


@pytest.mark.parametrize("is_plain", [False, True])
async def test_the_spans_of_a_handler_are_children_of_its_attempt(
    kept: Kept, is_plain: bool
) -> None:
    tracer = kept.provider.get_tracer("the handler's own")

    def plain(_: Execution) -> None:
        with tracer.start_as_current_span("inner"):
            pass

    async def coroutine(execution: Execution) -> None:
        plain(execution)

    function: HandlerFunction = plain if is_plain else coroutine
    executor = Executor(
        Handlers.of([handler(function)]), lambda _: NoDatabase(), tracing=kept.tracing
    )
    attempt = await executor.run(claimed(execution_id=ID), SETTINGS)
    assert attempt.outcome is AttemptOutcome.SUCCEEDED
    (inner,), (executed,) = kept.named("inner"), kept.named("tenantcron.execute")
    assert parent_of(inner) == id_of(executed)
    assert trace_of(inner) == ID.hex
    assert executed.attributes == {
        "tenantcron.execution": str(ID),
        "tenantcron.tenant": "acme",
        "tenantcron.schedule": "nightly",
        "tenantcron.saga": "reconcile",
        "tenantcron.attempt": 1,
    }


async def test_a_failed_attempt_is_an_error_in_its_span_and_its_row(
    kept: Kept,
) -> None:
    async def broken(_: Execution) -> None:
        raise RuntimeError("no disk")

    handlers = Handlers.of([handler(broken)])
    executor = Executor(handlers, lambda _: NoDatabase(), tracing=kept.tracing)
    attempt = await executor.run(claimed(), SETTINGS)
    (executed,) = kept.named("tenantcron.execute")
    assert executed.status.status_code is StatusCode.ERROR
    assert (attempt.error or "").startswith("RuntimeError: no disk\n")


async def test_the_spans_of_attempts_link_to_their_claim(real: Scheduling, kept: Kept) -> None:
    works = Works()
    await due(real, "quick")
    executor = Executor(works.handlers(), lambda _: NoDatabase(), tracing=kept.tracing)
    replica = Replica(real.database, real.settings, tracing=kept.tracing)
    async with asyncio.timeout(PATIENCE):
        await ReplicaRun(replica, executor, (TenantScheduleProvider(),)).run_once()

    (execution,) = works.calls
    fired = [span for span in kept.named("tenantcron.fire") if number(span)]
    claims = [span for span in kept.named("tenantcron.claim") if number(span)]
    (executed,) = kept.named("tenantcron.execute")
    assert [number(span) for span in (*fired, *claims)] == [1, 1]
    assert trace_of(executed) == execution.id.hex
    assert [f"{link.context.span_id:016x}" for link in executed.links] == [id_of(claims[0])]


def number(span: ReadableSpan) -> object:
    return (span.attributes or {})["tenantcron.executions"]


def test_an_sdk_without_a_provider_creates_no_spans() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert tracing() is None


WITH_SDK = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from tenantcron import saga

provider = TracerProvider()
out = ConsoleSpanExporter(out=open("spans", "w"), formatter=lambda span: span.to_json(None) + "\\n")
provider.add_span_processor(SimpleSpanProcessor(out))
trace.set_tracer_provider(provider)

@saga("quick")
async def quick(execution):
    pass
"""
WITHOUT = """
import atexit, json, sys
from tenantcron import saga

atexit.register(lambda: open("loaded", "w").write(json.dumps("opentelemetry" in sys.modules)))

@saga("quick")
async def quick(execution):
    pass
"""


def once(shell: Shell, url: str, handlers: str) -> None:
    """Run what is due in a separate process."""
    (shell.folder / "work.py").write_text(handlers, encoding="utf-8")
    text = manifest("acme", {"quick": 'cron: "0 0 1 1 *", start_within: 1h'})
    (shell.folder / "acme.yaml").write_text(text, encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
    options = ("run", "--handlers", "work", "--once")
    for _ in range(2):  # the first makes the cursor
        process = shell.start(*options, PYTHONPATH=str(shell.folder))
        assert process.wait(PATIENCE) == 0, process.communicate()
        process.communicate()
        query(url, "UPDATE tenantcron.schedule_cursor SET next_run_at = now()")
    assert query(url, "SELECT 1 FROM tenantcron.execution WHERE state = 'SUCCEEDED'")


def test_a_scheduler_whose_handlers_set_up_the_sdk_creates_spans(
    tmp_path: Path, database_url: str
) -> None:
    once(Shell(tmp_path, database_url), database_url, WITH_SDK)
    lines = (tmp_path / "spans").read_text(encoding="utf-8").splitlines()
    spans = [json.loads(line) for line in lines]
    names = {span["name"] for span in spans}
    assert names == {"tenantcron.fire", "tenantcron.claim", "tenantcron.execute"}
    (row,) = query(database_url, "SELECT id FROM tenantcron.execution")
    (executed,) = [span for span in spans if span["name"] == "tenantcron.execute"]
    assert executed["context"]["trace_id"] == f"0x{row['id'].hex}"


def test_without_an_sdk_opentelemetry_is_not_imported(tmp_path: Path, database_url: str) -> None:
    once(Shell(tmp_path, database_url), database_url, WITHOUT)
    assert json.loads((tmp_path / "loaded").read_text(encoding="utf-8")) is False
