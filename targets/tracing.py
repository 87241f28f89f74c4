"""Spans of OpenTelemetry, where its SDK is at work; elsewhere nothing of it is even loaded.

All attempts of an execution are in one trace, whose id is the execution's: a service that gets a
`traceparent` from us finds the same one in each attempt, with an SDK or without.

- `tenantcron.fire` and `tenantcron.claim` are batches, each a trace of its own;
- `tenantcron.execute` is an attempt, in the trace of its execution, with a link to its claim. It is
  the current span of the handler, so that the handler's own spans come under it;
- `tenantcron.call` is the call of an HTTP target, under its attempt, and what the target continues.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Final, cast

from tenantcron.targets.execution import Execution
from tenantcron.targets.registry import Handler

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_SDK: Final = "opentelemetry.sdk.trace"
_LAST_64_BITS: Final = 2**64 - 1

# Tells how many executions a step was about.
Note = Callable[[int], None]


def tracing() -> "Tracing | None":
    """Return what makes spans; None if nobody has set up the SDK by now."""
    if _SDK not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 -- only then

    provider = trace.get_tracer_provider()
    # Somebody has loaded the SDK and not set it up: spans would go nowhere.
    if isinstance(provider, trace.ProxyTracerProvider):
        return None
    return Tracing(provider.get_tracer("tenantcron"))


@contextmanager
def step(of: "Tracing | None", name: str) -> Iterator[Note]:
    """Make a span of a step of the scheduler, if there are spans."""
    if of is None:
        yield _nobody_listens
        return
    with of.span(f"tenantcron.{name}") as span:
        yield lambda executions: span.set_attribute("tenantcron.executions", executions)


def _nobody_listens(_: int) -> None:
    """Where there are no spans."""


def new_traceparent(execution: Execution) -> str:
    """Return the trace of an execution and a new span, where nobody keeps spans."""
    return f"00-{execution.id.hex}-{token_hex(8)}-01"


class Tracing:
    """Makes spans."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def span(self, name: str) -> "AbstractContextManager[Span]":
        """Make a span of whatever happens inside of it."""
        return self._tracer.start_as_current_span(name)

    def traced(self, handler: Handler) -> Handler:
        """Return a handler that does the same inside of a span."""

        async def run(execution: Execution) -> object:
            with self._attempt(execution):
                return await cast("Awaitable[object]", handler.function(execution))

        def run_plain(execution: Execution) -> object:
            with self._attempt(execution):
                return handler.function(execution)

        return replace(handler, function=run if handler.is_async else run_plain)

    @contextmanager
    def call(self, method: str, place: str) -> Iterator["Call"]:
        """Make a span of the call of an HTTP target."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415 -- as above

        said = {"http.request.method": method, "url.full": place}
        with self._tracer.start_as_current_span(
            "tenantcron.call", kind=SpanKind.CLIENT, attributes=said
        ) as span:
            yield Call(span)

    def _attempt(self, execution: Execution) -> "AbstractContextManager[Span]":
        from opentelemetry import trace  # noqa: PLC0415 -- as above

        claim = trace.get_current_span().get_span_context()
        # Nobody has made the span that all attempts are under: it only names their trace.
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
        """What the target continues the trace with."""
        of = self._span.get_span_context()
        return f"00-{of.trace_id:032x}-{of.span_id:016x}-{of.trace_flags:02x}"

    def answered(self, status: int | None) -> None:
        """Take note of what the target said."""
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
