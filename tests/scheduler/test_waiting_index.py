"""The index of the previous release is kept while its replicas may need it."""

from datetime import timedelta

import pytest
from sqlalchemy import text
from support.scheduling import Scheduling

from tenantcron.scheduler.replica.housekeeping import clean_up

EXISTS = "SELECT to_regclass('tenantcron.execution_waiting_idx') IS NOT NULL"
MAKE = """
CREATE INDEX execution_waiting_idx ON tenantcron.execution_live (tenant_id, priority, not_before)
WHERE state IN ('PENDING', 'FAILED')
"""
# As the previous release reports itself.
OLD_WORKER = """
INSERT INTO tenantcron.worker (id, service, started_at, seen_at, running, abandoned, draining)
VALUES ('old', 'billing', now() - :ago, now() - :ago, 0, 0, false)
"""


async def has_index(scheduling: Scheduling) -> bool:
    async with scheduling.database.transaction() as connection:
        return bool(await connection.scalar(text(EXISTS)))


async def test_a_new_database_does_not_have_the_index(scheduling: Scheduling) -> None:
    assert not await has_index(scheduling)


@pytest.mark.parametrize(
    ("ago", "is_kept"), [(timedelta(minutes=50), True), (timedelta(minutes=70), False)]
)
async def test_the_index_is_dropped_an_hour_after_the_last_replica_that_used_it(
    scheduling: Scheduling, ago: timedelta, *, is_kept: bool
) -> None:
    async with scheduling.database.transaction() as connection:
        await connection.execute(text(MAKE))
        await connection.execute(text(OLD_WORKER), {"ago": ago})

    await clean_up(scheduling.replica("new"))

    assert await has_index(scheduling) is is_kept
