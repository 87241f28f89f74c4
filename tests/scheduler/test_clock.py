"""Time: all replicas use the database's clock, which may be set back and forth."""

import re
from collections import Counter
from datetime import datetime, timedelta
from importlib.resources import files

import pytest
from support.scheduling import NOON, Scheduling

from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps.finish import recover_lost
from tenantcron.store.connection.times import database_time

HOUR = timedelta(hours=1)
# The monotonic clock measures durations and cannot be set. It has no time of day.
MACHINE_CLOCK = re.compile(
    r"datetime\.(now|utcnow|today)|date\.today|time\.(time|localtime|gmtime)\b|\btime_ns\b"
    r"|from time import (?!monotonic$)|import time\b",
    re.MULTILINE,
)


@pytest.mark.parametrize("folder", ["scheduler", "store", "provider", "cron", "targets"])
def test_no_module_reads_the_machine_clock(folder: str) -> None:
    found = {
        file.name: match[0]
        for file in files(f"tenantcron.{folder}").iterdir()
        if file.name.endswith(".py")
        for match in [MACHINE_CLOCK.search(file.read_text(encoding="utf-8"))]
        if match
    }
    # Starting the embedded server uses the machine clock, which affects no schedule.
    assert {name: text for name, text in found.items() if name not in ALLOWED} == {}


ALLOWED = {"cluster.py", "embedded.py"}


def test_the_search_for_the_machine_clock_finds_a_use() -> None:
    assert MACHINE_CLOCK.search("at = datetime.now(UTC)")
    assert MACHINE_CLOCK.search("from time import monotonic, time")
    assert MACHINE_CLOCK.search("from time import monotonic\n") is None


async def test_without_a_fake_clock_the_database_clock_decides(scheduling: Scheduling) -> None:
    schedule_id = await scheduling.schedule("minutely", "* * * * *")
    await scheduling.execute(
        "UPDATE tenantcron.schedule_cursor SET next_run_at = date_trunc('minute', now())"
    )
    real = Replica(scheduling.database, scheduling.settings)
    before = await database_time_of(scheduling)

    assert await scheduling.fire(real) >= 1

    following = (await scheduling.cursor(schedule_id))["next_run_at"]
    assert isinstance(following, datetime)
    # The two reads may be in different minutes.
    assert before < following <= await database_time_of(scheduling) + timedelta(minutes=1)


async def database_time_of(scheduling: Scheduling) -> datetime:
    async with scheduling.database.transaction() as connection:
        return await database_time(connection)


async def occurrences(scheduling: Scheduling) -> Counter[object]:
    """Return how many rows cover each occurrence."""
    found: Counter[object] = Counter()
    for row in await scheduling.rows():
        since, until = row["covers_from"] or row["scheduled_for"], row["scheduled_for"]
        found.update(
            NOON + number * HOUR
            for number in range(1, 100)
            if since <= NOON + number * HOUR <= until
        )
    return found


async def test_a_clock_set_back_fires_nothing_twice_or_late(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule()
    for step in (1, 1, 1, -2, 1, 1, 1, 1):
        scheduling.clock.advance(hours=step)
        await scheduling.fire()

    assert await occurrences(scheduling) == Counter(NOON + n * HOUR for n in range(1, 6))
    assert len(await scheduling.rows()) == 5


async def test_a_clock_that_jumps_forwards_and_back_duplicates_and_loses_nothing(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule()
    for step in (1, 7, -7, 1, 1, 1, 1, 1, 1, 1, 1, 1):
        scheduling.clock.advance(hours=step)
        await scheduling.fire()

    assert await occurrences(scheduling) == Counter(NOON + n * HOUR for n in range(1, 11))


async def test_a_clock_set_back_starts_nothing_twice(scheduling: Scheduling) -> None:
    await scheduling.schedule()
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    (claimed,) = await scheduling.claim_all()

    scheduling.clock.advance(hours=-3)
    assert await scheduling.claim_all() == []
    assert await recover_lost(scheduling.replica("two")) == 0
    await scheduling.finish(claimed)

    assert await scheduling.states() == [("SUCCEEDED", None)]


async def test_an_execution_pending_while_the_clock_is_set_back_starts_at_its_time(
    scheduling: Scheduling,
) -> None:
    await scheduling.schedule(start_within="30m")
    scheduling.clock.advance(hours=1)
    await scheduling.fire()
    scheduling.clock.advance(hours=-1)
    assert await scheduling.claim_all() == []

    scheduling.clock.advance(hours=1)
    assert len(await scheduling.claim_all()) == 1
