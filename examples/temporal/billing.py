"""A Temporal worker that runs executions of tenantcron: `python billing.py [ADDRESS]`."""

import asyncio
import sys
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker


@activity.defn
async def send_invoice(tenant: str, customer: str, key: str) -> None:
    """Send one invoice; store the key with it to send it only once."""
    print(f"{tenant}: invoice for {customer}, key {key}", flush=True)


@workflow.defn
class GenerateInvoice:
    """One invoice for each customer in the payload."""

    @workflow.run
    async def run(self, execution: dict[str, Any]) -> dict[str, int]:
        """Run one execution; the result is shown in its history."""
        customers = execution["payload"].get("customers", [])
        if not customers:
            raise ApplicationError("the payload has no customers", non_retryable=True)
        for customer in customers:
            await workflow.execute_activity(
                send_invoice,
                args=[execution["tenant"], customer, execution["idempotency_key"]],
                start_to_close_timeout=timedelta(minutes=1),
            )
        return {"invoices": len(customers)}


async def main(address: str) -> None:
    """Poll the task queue until the process is stopped."""
    client = await Client.connect(address)
    worker = Worker(
        client, task_queue="billing", workflows=[GenerateInvoice], activities=[send_invoice]
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:7233"))
