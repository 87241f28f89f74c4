"""The contract of a kind of target: how sagas of one kind are validated, stored and run.

The kinds are the members of `TargetKind` and the names of plug-ins. A saga without a target runs in
a Python handler (`targets/python`), which needs no adapter. To add a kind:

- **Manifest.** `target: {<kind>: {<options>}}`. The options of a built-in kind are a model in
  `manifests/language/models.py`. Those of a plug-in are validated with its `options_schema`, if it
  is installed where `validate` runs. Except for `http`, which the policy limits by host, a kind
  must be in `target_kinds` of the policy.
- **Storage.** The options are stored as they are in the manifest: `OtherTarget` in
  `core/targets.py`. `HttpTarget` is typed, because its parts are checked again for each call.
- **Capability.** An execution requires the kind. A replica declares the kinds that it serves: those
  of the policy whose adapter is installed, limited by `--targets`. A replica never claims an
  execution whose kind it does not serve.
- **Adapter.** The class in the folder `targets/<kind>/`, or the entry point of a plug-in in the
  group `tenantcron.targets`. It is imported by replicas that serve the kind, and by `validate` for
  manifests that use it, so the module imports its client library in `open`, not before.
- **Runner.** `open` returns the runner of a replica. It has one `run` for each attempt at a time.

How one attempt runs:

- **Start.** `run` is called in a task of the event loop, when the execution was claimed. It must
  not block.
- **Wait.** The lease of the replica covers the attempt while `run` runs: the lease thread renews
  it.
- **Hand over.** A kind whose work continues elsewhere awaits `call.hand_over(heartbeat)` first. The
  lease then belongs to the attempt itself, until the next heartbeat is due. The `Callback` has the
  URL and the token with which the worker reports; send both along. When the worker has accepted,
  return `Delivered.ACCEPTED`: the execution keeps running and holds its slot, and the replica
  forgets it. `store/steps/callbacks.py` has the protocol and all crash points.
- **Stop.** After a timeout, a cancellation, a lost lease or a shutdown, `run` gets a
  `CancelledError`. It has 5 seconds to clean up. What it returns or raises then does not count.
  After a hand-over, a lost lease or a shutdown leaves the attempt to its worker.
  After a lost lease or a shutdown, `call.interrupted` is true: a kind whose work runs
  elsewhere leaves it running for the next attempt. Otherwise it stops the work.
- **End.** `run` returns `Delivered.DONE`: the attempt has succeeded, also after a hand-over.
  `RetryCall` fails the attempt and has it retried, `FailCall` fails the execution. Any other
  exception is a failure that is retried.
  If the replica is lost, the attempt is lost: it is repeated with the same idempotency key. It is
  no suspect, because a target cannot kill a replica.
- **Left work.** An execution can be cancelled while no replica waits for it. A runner with a method
  `stop_left` is then asked to stop its work: `scheduler/replica/left_work_loop.py`.
- **Answer.** `call.answer` has the status and the start of a response, which the history shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Protocol, runtime_checkable
from uuid import UUID

from tenantcron.core.egress import Egress
from tenantcron.core.settings import Settings
from tenantcron.core.targets import Target
from tenantcron.core.values import JsonValue
from tenantcron.targets.execution import Execution
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.responses import ServiceResponse
from tenantcron.targets.tokens import Tokens
from tenantcron.targets.tracing import Tracing


class Delivered(Enum):
    """How a runner leaves an attempt that has not failed."""

    # The work is done.
    DONE = "done"
    # A remote worker has it, after `hand_over`: it reports the end through the API.
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Callback:
    """How a remote worker reports on its attempt."""

    # The worker appends `:heartbeat`, `:complete` or `:fail`.
    url: str
    token: str = field(repr=False)
    heartbeat: timedelta
    deadline: datetime


class HandOver(Protocol):
    """Hands the lease over to the attempt itself."""

    async def __call__(self, heartbeat: timedelta, first: timedelta | None = None, /) -> Callback:
        """Hand over, given the longest time between two heartbeats, and until the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCall:
    """One attempt at a target."""

    execution: Execution
    target: Target
    # The idempotency key: the same for every attempt of an execution, and unique to it.
    key: str
    started_at: datetime
    timeout: timedelta
    # What the policy allows this tenant.
    egress: Egress
    allowed_secrets: tuple[str, ...]
    allowed_audiences: tuple[str, ...]
    allowed_celery_tasks: tuple[str, ...] = ()
    allowed_temporal_workflows: tuple[str, ...] = ()
    # None: this scheduler has no signing key.
    tokens: Tokens | None = field(default=None, repr=False)
    answer: ServiceResponse = field(default_factory=ServiceResponse)
    # Hands the lease over to the attempt itself. Await it before anything is sent to a worker. It
    # raises a RetryCall or a FailCall. None: not possible in this process.
    hand_over: HandOver | None = field(default=None, repr=False)

    @property
    def interrupted(self) -> bool:
        """Whether only this attempt stops, and another one follows: a shutdown or a lost lease."""
        return self.execution._cancellation.interrupted


class TargetRunner(Protocol):
    """Runs the attempts of one kind in one replica."""

    async def run(self, call: TargetCall) -> Delivered:
        """Run an attempt; raise a RetryCall or a FailCall if it fails."""

    async def close(self) -> None:
        """Close connections, when the replica stops."""


@runtime_checkable
class StopsLeftWork(Protocol):
    """A runner whose work can outlive its execution, if no replica waits when that ends."""

    async def stop_left(self, execution: UUID, target: Target) -> bool:
        """Stop the work of an ended execution, which may have ended, too.

        Return False if that was not possible, and has to be repeated. It must take less than 5
        seconds.
        """


@dataclass(frozen=True, slots=True)
class RunnerServices:
    """What a replica gives to its runners."""

    # Calls hosts subject to the egress rules; the replica closes it.
    http: HttpClient
    tracing: Tracing | None = None
    settings: Settings = field(default_factory=lambda: Settings(folder=Path()))


class TargetAdapter(Protocol):
    """A kind of target: the schema of its options, and its runner."""

    @property
    def options_schema(self) -> Mapping[str, JsonValue]:
        """The JSON Schema of the options in a manifest."""

    def open(self, services: RunnerServices) -> TargetRunner:
        """Return the runner of a replica; raise a UsageError if its settings are not valid."""
