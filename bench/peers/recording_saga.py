"""A saga that only records its start."""

from recording import record_start

from tenantcron import Execution, saga


@saga("noop")
async def noop(_: Execution) -> None:
    """Only record the time."""
    record_start()
