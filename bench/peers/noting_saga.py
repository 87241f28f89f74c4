"""A saga that does nothing but note when it starts."""

from noting import note

from tenantcron import Execution, saga


@saga("noop")
async def noop(_: Execution) -> None:
    """Do nothing but note the time."""
    note()
