"""A worker of Temporal, whose workflow appends each start to a file and does what its payload says.

python -m support.temporal_app ADDRESS FOLDER
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "tests"
_SOON = timedelta(seconds=30)


@activity.defn
async def record(workflow_id: str) -> None:
    """Append a line, which one write makes atomic."""
    with (Path(sys.argv[2]) / "started").open("a", encoding="utf-8") as file:
        file.write(f"{workflow_id}\n")


@activity.defn
async def refuse() -> None:
    """Fail for good."""
    raise ApplicationError("no such customer", type="NoSuchCustomer", non_retryable=True)


@workflow.defn(name="Work")
class Work:
    """Does what the payload says."""

    def __init__(self) -> None:
        self.is_open = False

    @workflow.signal
    def open(self) -> None:
        """Let a workflow that waits continue."""
        self.is_open = True

    @workflow.run
    async def run(self, execution: dict[str, Any]) -> Any:
        """Run one execution."""
        payload = execution["payload"]
        await workflow.execute_activity(
            record, execution["execution_id"], start_to_close_timeout=_SOON
        )
        if payload.get("waits"):
            await self._wait(payload)
        match payload.get("fails"):
            case "retryable":
                raise ApplicationError("the printer is busy", type="Busy")
            case "first" if execution["attempt"] == 1:
                raise ApplicationError("not yet")
            case "delayed":
                raise ApplicationError("later", next_retry_delay=timedelta(minutes=5))
            case "final":
                raise ApplicationError("no such customer", non_retryable=True)
            case "activity":
                await workflow.execute_activity(refuse, start_to_close_timeout=_SOON)
        if payload.get("continues") and workflow.info().continued_run_id is None:
            workflow.continue_as_new(execution)
        return payload.get("result", {"tenant": execution["tenant"]})

    async def _wait(self, payload: dict[str, Any]) -> None:
        try:
            await workflow.wait_condition(lambda: self.is_open)
        except asyncio.CancelledError:
            if not payload.get("cleans_up"):
                raise
            await workflow.wait_condition(lambda: self.is_open)
            raise


async def main() -> None:
    """Serve the task queue until the process is killed."""
    client = await Client.connect(sys.argv[1])
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[Work],
        activities=[record, refuse],
        # One process for a test: nothing is loaded again for each workflow.
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
