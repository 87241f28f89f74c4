"""OpenTelemetry spans, if its SDK is configured; otherwise OpenTelemetry is not even loaded.

All attempts of an execution are in one trace, whose id is the id of the execution. A service
receives the same trace id in the `traceparent` of each attempt, with or without an SDK.

- `tenantcron.fire` and `tenantcron.claim` are batches, each with its own trace;
- `tenantcron.execute` is an attempt, in the trace of its execution, with a link to its claim. It is
  the current span of the handler, so it is the parent of the handler's spans;
- `tenantcron.call` is the call of an HTTP target. Its parent is the attempt, and the target
  continues it.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Final, cast

from tenantcron.targets.execution import Execution
from tenantcron.targets.handlers import Handler

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_SDK: Final = "opentelemetry.sdk.trace"
_LAST_64_BITS: Final = 2**64 - 1

# Records how many executions a step processed.
Note = Callable[[int], None]


def tracing() -> "Tracing | None":
    """Return the source of spans; None if the SDK is not configured."""
    if _SDK not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 -- only then

    provider = trace.get_tracer_provider()
    # The SDK is loaded but not configured: spans would go nowhere.
    if isinstance(provider, trace.ProxyTracerProvider):
        return None
    return Tracing(provider.get_tracer("tenantcron"))


@contextmanager
def step(of: "Tracing | None", name: str) -> Iterator[Note]:
    """Open a span for a step of the scheduler, if tracing is on."""
    if of is None:
        yield _ignore
        return
    with of.span(f"tenantcron.{name}") as span:
        yield lambda executions: span.set_attribute("tenantcron.executions", executions)


def _ignore(_: int) -> None:
    """Record nothing: tracing is off."""


def new_traceparent(execution: Execution) -> str:
    """Return the trace id of an execution with a new span id, without an SDK."""
    return f"00-{execution.id.hex}-{token_hex(8)}-01"


class Tracing:
    """Opens spans."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def span(self, name: str) -> "AbstractContextManager[Span]":
        """Open a span for a `with` block."""
        return self._tracer.start_as_current_span(name)

    def traced(self, handler: Handler) -> Handler:
        """Return a handler that runs inside a span."""

        async def run(execution: Execution) -> object:
            with self._attempt(execution):
                return await cast("Awaitable[object]", handler.function(execution))

        def run_plain(execution: Execution) -> object:
            with self._attempt(execution):
                return handler.function(execution)

        return replace(handler, function=run if handler.is_async else run_plain)

    @contextmanager
    def call(self, method: str, place: str) -> Iterator["Call"]:
        """Open a span for the call of an HTTP target."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 -- as above

        attributes = {"http.request.method": method, "url.full": place}
        with self._tracer.start_as_current_span(
            "tenantcron.call", kind=SpanKind.CLIENT, attributes=attributes
        ) as span:
            yield Call(span)

    def _attempt(self, execution: Execution) -> "AbstractContextManager[Span]":
        from opentelemetry import trace  # noqa: PLC0415 -- as above

        claim = trace.get_current_span().get_span_context()
        # The parent span of all attempts does not exist: it only sets their trace id.
        root = trace.SpanContext(
            execution.id.int,
            execution.id.int & _LAST_64_BITS or 1,
            is_remote=True,
            trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
        )
        return self._tracer.start_as_current_span(
            "tenantcron.execute",
            context=trace.set_span_in_context(trace.NonRecordingSpan(root)),
            links=[trace.Link(claim)] if claim.is_valid else [],
            attributes={
                "tenantcron.execution": str(execution.id),
                "tenantcron.tenant": execution.tenant_id,
                "tenantcron.schedule": execution.schedule_name,
                "tenantcron.saga": execution.saga_name,
                "tenantcron.attempt": execution.attempt,
            },
        )


class Call:
    """The span of a call."""

    def __init__(self, span: "Span") -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        """The header with which the target continues the trace."""
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def answered(self, status: int | None) -> None:
        """Record the status of the response."""
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
