"""Live logs: lines of running attempts are stored in batches while the attempts run."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection
from support.attempts import SETTINGS
from support.handlers import NoDatabase, handler
from support.scheduling import Scheduling

from tenantcron.scheduler.inspect.schedule_status import UnknownError
from tenantcron.scheduler.operate.execution_lookup import ExecutionDetails, execution_details
from tenantcron.scheduler.replica.housekeeping import clean_up
from tenantcron.scheduler.replica.shared_state import Replica
from tenantcron.scheduler.steps import live_logs as steps
from tenantcron.scheduler.steps.attempts import Attempt
from tenantcron.scheduler.steps.execute import Executor
from tenantcron.scheduler.steps.finish import finish_batch, recover_lost
from tenantcron.scheduler.steps.live_logs import LiveLogs
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import live_logs
from tenantcron.store.rows.live_logs import NewLines
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.execution import Execution
from tenantcron.targets.output import LONGEST_LOG, Output
from tenantcron.targets.python.registry import Handlers


@dataclass
class Logging:
    """A replica with attempts that run until they are released, and its live logs."""

    scheduling: Scheduling
    replica: Replica
    release: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.executor = Executor(Handlers.of([handler(self._run, "work")]), lambda _: NoDatabase())
        self.logs = LiveLogs(self.replica, self.executor)

    async def _run(self, _: Execution) -> None:
        await self.release.wait()

    async def start(self, count: int = 1) -> list[Claimed]:
        """Claim and start executions."""
        await self.scheduling.limit(100)
        await self.scheduling.waiting(count)
        return await self.resume()

    async def resume(self) -> list[Claimed]:
        """Claim and start pending executions."""
        started = await self.scheduling.claim_all(self.replica)
        for claimed in started:
            self.executor.start(claimed, SETTINGS, None, self.ended.append)
        # The handlers run until they wait.
        await asyncio.sleep(0)
        return started

    def output(self, claimed: Claimed) -> Output:
        """Return the output of an attempt."""
        (output,) = (a.output for a in self.executor.attempts if a.claimed == claimed)
        assert output is not None
        return output

    async def end(self) -> None:
        """Let all attempts end, and record that."""
        self.release.set()
        while self.executor.load:
            await asyncio.sleep(0)
        await finish_batch(self.replica, self.ended)

    async def details(self, claimed: Claimed) -> ExecutionDetails:
        """Return an execution as it is shown to users."""
        async with self.scheduling.database.transaction() as connection:
            return await execution_details(connection, str(claimed.id))

    async def shown(self, claimed: Claimed) -> str | None:
        """Return the log of the running attempt."""
        found = (await self.details(claimed)).running_log
        return None if found is None else found.text

    async def rows(self) -> int:
        """Return the number of stored rows."""
        return len(await self.scheduling.rows("live_log", "1"))


@asynccontextmanager
async def logging_of(scheduling: Scheduling, name: str = "one") -> AsyncIterator[Logging]:
    logging = Logging(scheduling, scheduling.replica(name))
    yield logging
    logging.release.set()


@pytest.fixture
async def at_work(scheduling: Scheduling) -> AsyncIterator[Logging]:
    async with logging_of(scheduling) as logging:
        yield logging


@dataclass
class Sent:
    """Counts the statements on a database."""

    statements: list[str] = field(default_factory=list)

    def note(self, *arguments: object) -> None:
        self.statements.append(str(arguments[2]))


def sent_on(database: Database) -> Sent:
    sent = Sent()
    event.listen(database.engine.sync_engine, "before_cursor_execute", sent.note)
    return sent


async def test_the_lines_of_a_running_attempt_are_shown_and_then_stored_with_the_attempt(
    at_work: Logging,
) -> None:
    (claimed,) = await at_work.start()
    await at_work.logs.step()
    at_work.output(claimed).add_line("info one\n")
    assert await at_work.logs.step() == 1
    assert await at_work.shown(claimed) == "info one\n"
    at_work.output(claimed).add_line("info two\n")
    at_work.output(claimed).add_line("info three\n")
    assert await at_work.logs.step() == 1
    assert await at_work.shown(claimed) == "info one\ninfo two\ninfo three\n"
    at_work.output(claimed).add_line("info four\n")

    await at_work.end()

    details = await at_work.details(claimed)
    assert details.running_log is None
    (attempt,) = details.attempts
    assert attempt.log == "info one\ninfo two\ninfo three\ninfo four\n"
    assert await at_work.rows() == 0


async def test_attempts_that_are_new_or_have_no_new_lines_are_not_written(
    at_work: Logging,
) -> None:
    (claimed,) = await at_work.start()
    at_work.output(claimed).add_line("info one\n")
    sent = sent_on(at_work.scheduling.database)

    assert await at_work.logs.step() == 0
    assert sent.statements == []
    assert await at_work.logs.step() == 1
    sent.statements.clear()
    assert await at_work.logs.step() == 0
    assert sent.statements == []


async def test_one_statement_stores_the_lines_of_all_attempts(at_work: Logging) -> None:
    started = await at_work.start(12)
    await at_work.logs.step()
    for claimed in started[:10]:
        at_work.output(claimed).add_line(f"info {claimed.id}\n")
    sent = sent_on(at_work.scheduling.database)

    assert await at_work.logs.step() == 10

    assert sum("live_log" in statement for statement in sent.statements) == 1
    assert await at_work.rows() == 10
    assert await at_work.shown(started[3]) == f"info {started[3].id}\n"


async def test_a_large_number_of_lines_is_sent_in_several_statements(
    at_work: Logging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "_MOST_BYTES", 3 * 1000)
    started = await at_work.start(5)
    await at_work.logs.step()
    for claimed in started:
        at_work.output(claimed).add_line("x" * 999 + "\n")
    sent = sent_on(at_work.scheduling.database)

    assert await at_work.logs.step() == 5

    assert sum("live_log" in statement for statement in sent.statements) == 2
    assert await at_work.rows() == 5


async def test_a_stale_attempt_cannot_write(scheduling: Scheduling) -> None:
    async with logging_of(scheduling) as stale, logging_of(scheduling, "two") as other:
        (claimed,) = await stale.start()
        stale.output(claimed).add_line("info stale\n")
        await stale.logs.step()
        scheduling.clock.advance(minutes=10)
        assert await recover_lost(other.replica) == 1
        (again,) = await other.resume()
        assert (again.id, again.attempt) == (claimed.id, 2)

        await stale.logs.step()
        assert await other.rows() == 0
        assert await other.shown(again) is None

        other.output(again).add_line("info again\n")
        await other.logs.step()
        await other.logs.step()
        assert await other.shown(again) == "info again\n"


async def test_a_lost_attempt_keeps_the_log_that_was_stored(scheduling: Scheduling) -> None:
    async with logging_of(scheduling) as lost:
        (claimed,) = await lost.start()
        lost.output(claimed).add_line("info reading\n")
        await lost.logs.step()
        await lost.logs.step()
        lost.output(claimed).add_line("info writing\n")
        await lost.logs.step()
        scheduling.clock.advance(minutes=10)

        assert await recover_lost(scheduling.replica("two")) == 1

        (attempt,) = (await lost.details(claimed)).attempts
        assert (attempt.outcome, attempt.log) == ("LOST", "info reading\ninfo writing\n")
        assert await lost.rows() == 0


async def test_the_stored_log_is_bounded_and_its_end_is_complete(at_work: Logging) -> None:
    (claimed,) = await at_work.start()
    await at_work.logs.step()
    lines = [f"info line {number:05} {'x' * 480}\n" for number in range(1000)]
    for start in range(0, len(lines), 10):
        for line in lines[start : start + 10]:
            at_work.output(claimed).add_line(line)
        await at_work.logs.step()
        (stored,) = await at_work.scheduling.query(
            "SELECT sum(octet_length(lines)) AS size, count(*) AS rows FROM tenantcron.live_log"
        )
        assert stored["size"] <= LONGEST_LOG
        shown = await at_work.shown(claimed) or ""
        assert "".join(lines[: start + 10]).endswith(shown.removeprefix("…\n"))
        assert len(shown) > min(LONGEST_LOG // 2 - 1000, 490 * (start + 10))
    log = (await at_work.details(claimed)).running_log
    assert log is not None
    assert log.position + len(log.lines) == sum(map(len, lines))


async def test_few_rows_are_stored_for_an_attempt_that_logs_little_for_long(
    at_work: Logging,
) -> None:
    (claimed,) = await at_work.start()
    await at_work.logs.step()
    for number in range(200):
        at_work.output(claimed).add_line(f"info {number}\n")
        await at_work.logs.step()
    assert await at_work.rows() <= 64
    assert await at_work.shown(claimed) == "".join(f"info {number}\n" for number in range(200))


async def test_more_lines_than_a_log_may_have_leave_no_gap(at_work: Logging) -> None:
    (claimed,) = await at_work.start()
    await at_work.logs.step()
    at_work.output(claimed).add_line("info first\n")
    await at_work.logs.step()
    lines = [f"info {number:05}\n" for number in range(20_000)]
    for line in lines:
        at_work.output(claimed).add_line(line)
    await at_work.logs.step()

    shown = await at_work.shown(claimed) or ""
    assert shown.startswith("…\n")
    assert "".join(lines).endswith(shown.removeprefix("…\n"))


async def test_after_a_failure_the_lines_are_stored_once(
    at_work: Logging, monkeypatch: pytest.MonkeyPatch
) -> None:
    (claimed,) = await at_work.start()
    await at_work.logs.step()
    at_work.output(claimed).add_line("info one\n")
    await at_work.logs.step()
    at_work.output(claimed).add_line("info two\n")
    add = live_logs.add

    async def lose(_: AsyncConnection, added: Sequence[NewLines]) -> None:
        async with at_work.scheduling.database.transaction() as connection:
            await add(connection, added)
        raise OperationalError("", {}, Exception("the response was lost"))

    monkeypatch.setattr(live_logs, "add", lose)
    with pytest.raises(OperationalError):
        await at_work.logs.step()
    monkeypatch.setattr(live_logs, "add", add)
    await at_work.logs.step()

    assert await at_work.shown(claimed) == "info one\ninfo two\n"


async def test_lines_that_were_written_with_the_end_are_not_shown_and_removed(
    at_work: Logging,
) -> None:
    (claimed,) = await at_work.start()
    await at_work.end()
    await at_work.scheduling.execute(
        "INSERT INTO tenantcron.live_log VALUES (:id, 1, 9, 'acme', 'info one' || chr(10))",
        id=claimed.id,
    )
    assert await at_work.shown(claimed) is None

    await clean_up(at_work.replica)

    assert await at_work.rows() == 0


async def test_housekeeping_keeps_the_lines_of_running_attempts(at_work: Logging) -> None:
    (claimed,) = await at_work.start()
    at_work.output(claimed).add_line("info one\n")
    await at_work.logs.step()
    await at_work.logs.step()

    await clean_up(at_work.replica)

    assert await at_work.shown(claimed) == "info one\n"


async def test_a_tenant_sees_only_its_lines(at_work: Logging) -> None:
    (claimed,) = await at_work.start()
    at_work.output(claimed).add_line("info one\n")
    await at_work.logs.step()
    await at_work.logs.step()
    database = at_work.scheduling.database

    async with database.seen_by(claimed.tenant_id).transaction() as connection:
        found = await execution_details(connection, str(claimed.id))
        assert found.running_log is not None
    await at_work.scheduling.tenant("other")
    async with database.seen_by(await at_work.scheduling.tenant("other")).transaction() as other:
        rows = await other.exec_driver_sql("SELECT count(*) FROM tenantcron.live_log")
        assert rows.scalar_one() == 0
        with pytest.raises(UnknownError):
            await execution_details(other, str(UUID(int=1)))


async def test_the_loop_sleeps_while_nothing_runs_and_writes_while_attempts_run(
    at_work: Logging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "INTERVAL", 0.01)
    taken, step = 0, at_work.logs.step

    async def counted() -> int:
        nonlocal taken
        taken += 1
        return await step()

    monkeypatch.setattr(LiveLogs, "step", lambda _: counted())
    writing = asyncio.create_task(at_work.logs.write())
    await asyncio.sleep(0)
    assert taken == 0
    (claimed,) = await at_work.start()
    at_work.output(claimed).add_line("info one\n")
    async with asyncio.timeout(10):
        while await at_work.shown(claimed) is None:
            await asyncio.sleep(0.01)
    await at_work.end()
    async with asyncio.timeout(10):
        while at_work.logs._known:
            await asyncio.sleep(0.01)
    idle = taken
    await asyncio.sleep(0.05)
    assert taken == idle
    writing.cancel()
