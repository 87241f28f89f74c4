"""The work of the sagas. `tenantcron dev` restarts the scheduler whenever you save this file."""

import structlog

from tenantcron import Execution, saga

log = structlog.get_logger()


@saga("say_hello")
async def say_hello(execution: Execution) -> None:
    """The payload comes from the manifest."""
    log.info("said_hello", greeting=execution.payload["greeting"])


@saga("generate_invoices")
def generate_invoices(execution: Execution) -> None:
    """A plain function runs in a thread. After an exception the attempt is repeated later."""
    log.info("invoices_generated", month=execution.scheduled_for.strftime("%B"))
