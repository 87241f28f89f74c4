"""Every order of two or three sessions, run on a real Postgres.

The idea is that of PostgreSQL's isolation tester, applied to the product's own code. A session is a
coroutine of the product with its own connection pool. It stops before each statement and each
COMMIT that it sends (BEGIN belongs to the first statement). The explorer lets one session take one
step at a time, so a list of session names is an order.

Which sessions can take a step depends on the locks: a step that waits for another session is
blocked, and its session is not offered again until Postgres reports that it is not blocked.
`pg_blocking_pids` decides that, so no order depends on timing. If all sessions are blocked,
Postgres ends the deadlock, and the run continues with the remaining sessions.

The explorer walks all orders depth first. It cannot copy a database in the middle of an order, so
it restores the database and replays the order up to the point where the next one differs. Of orders
that differ only in steps that commute (`footprints`) it runs one, using sleep sets as model
checkers do. A session sleeps at a point if all orders in which it takes the next step are covered
by an earlier order.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.errors import DeadlockDetected
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.util import await_only
from support.footprints import COMMIT, NOTHING, Footprint, commute, footprint, is_local
from support.patience import PATIENCE

from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database, open_database

# How long a step may take before the explorer checks whether it is blocked.
_GLANCE = 0.003

_IS_BLOCKED = "SELECT cardinality(pg_blocking_pids(%s)) > 0"

# The program of a session; it receives a database whose statements stop.
Program = Callable[[Database], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of one session, in the order in which the steps were released."""

    session: str
    statement: str

    def __str__(self) -> str:
        return f"{self.session}: {' '.join(self.statement.split())[:90]}"


@dataclass(slots=True)
class Session:
    """One program on one connection, which stops before each of its steps."""

    name: str
    database: Database
    # The statement that it is about to send; None while it is running or after it has ended.
    halted_at: str | None = None
    is_blocked: bool = False
    pid: int = 0
    # Whether its transaction has written or locked anything so far.
    has_effects: bool = False
    task: asyncio.Task[object] | None = None
    _halted: asyncio.Event = field(default_factory=asyncio.Event)
    _let_go: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, program: Program) -> None:
        """Start the program; it stops at its first statement."""
        self.halted_at, self.is_blocked, self.has_effects = None, False, False
        self._halted.clear()
        self._let_go.clear()
        self.task = asyncio.create_task(self._run(program))

    async def _run(self, program: Program) -> object:
        try:
            return await program(self.database)
        finally:
            self._halted.set()

    @property
    def has_ended(self) -> bool:
        """Whether the program has returned or raised."""
        return self.task is not None and self.task.done()

    async def halt(self, statement: str, pid: int) -> None:
        """Wait before a statement until the explorer releases it."""
        self.halted_at, self.pid = statement, pid
        self._halted.set()
        await self._let_go.wait()
        self._let_go.clear()

    @property
    def next_footprint(self) -> Footprint:
        """The footprint of the step at which it stopped."""
        if self.halted_at != COMMIT:
            return footprint(self.halted_at or "")
        if not self.has_effects:
            return NOTHING
        return Footprint(frozenset(), writes=True, publishes=True)

    def let_go(self) -> None:
        """Send the statement at which it stopped."""
        self.has_effects = self.halted_at != COMMIT and (
            self.has_effects or self.next_footprint.writes
        )
        self.halted_at = None
        self._halted.clear()
        self._let_go.set()

    async def halts_or_ends(self, seconds: float) -> bool:
        """Wait briefly for the next stop or the end; return whether it was reached."""
        try:
            async with asyncio.timeout(seconds):
                await self._halted.wait()
        except TimeoutError:
            return False
        if self.halted_at is None and self.task is not None:
            await asyncio.wait([self.task])
        return True

    def listen(self) -> None:
        """Stop before each statement and COMMIT of the session's engine."""
        engine = self.database.engine.sync_engine
        event.listen(engine, "before_cursor_execute", self._before_statement)
        event.listen(engine, "commit", self._before_commit)

    def _before_statement(
        self, connection: Connection, _: object, statement: str, *__: object
    ) -> None:
        if not statement.startswith(("BEGIN", "SAVEPOINT", "RELEASE")) and not is_local(statement):
            await_only(self.halt(statement, _pid(connection)))

    def _before_commit(self, connection: Connection) -> None:
        await_only(self.halt(COMMIT, _pid(connection)))


def _pid(connection: Connection) -> int:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.AsyncConnection)
    return driver.info.backend_pid


@dataclass(frozen=True, slots=True)
class Ran:
    """One order as executed: the steps, and the result or exception of each program."""

    steps: tuple[Step, ...]
    results: Mapping[str, object]

    @property
    def deadlocked(self) -> bool:
        """Whether Postgres had to end a deadlock between the sessions."""
        causes = (getattr(end, "__cause__", None) for end in self.results.values())
        return any(
            isinstance(cause, DBAPIError) and isinstance(cause.orig, DeadlockDetected)
            for cause in causes
        )

    def __str__(self) -> str:
        lines = [
            *map(str, self.steps),
            *(f"{name} -> {end!r}" for name, end in self.results.items()),
        ]
        return "\n".join(lines)

    def committed_before_first_step(self, first: str, second: str) -> bool:
        """Whether one session had committed before another one sent anything."""
        commit = next((n for n, s in enumerate(self.steps) if s == Step(first, COMMIT)), None)
        began = next((n for n, s in enumerate(self.steps) if s.session == second), None)
        return commit is not None and (began is None or commit < began)


@dataclass(slots=True)
class _Point:
    """A point in an order: the sessions that could take a step there, and the one that did."""

    ready: dict[str, Footprint]
    # Sessions whose step leads to nothing new from here.
    asleep: set[str]
    taken: str

    def sleeping_after(self) -> set[str]:
        """Return the sessions that sleep at the next point."""
        step = self.ready[self.taken]
        return {name for name in self.asleep if commute(self.ready[name], step)}

    def move_on(self) -> bool:
        """Take the next session that is awake; return whether there is one."""
        self.asleep.add(self.taken)
        awake = [name for name in self.ready if name not in self.asleep]
        if awake:
            self.taken = awake[0]
        return bool(awake)


@dataclass(slots=True)
class Explorer:
    """Runs programs in all orders that locks allow."""

    sessions: Mapping[str, Session]
    monitor: psycopg.AsyncConnection[Any]
    _path: list[_Point] = field(default_factory=list)

    async def orders(
        self, restore: Callable[[], Awaitable[None]], programs: Mapping[str, Program]
    ) -> AsyncIterator[Ran]:
        """Yield each order after it has run; the database stays as it is until the next one."""
        self._path = []
        while True:
            await restore()
            ran = await self._run(programs)
            if ran is not None:
                yield ran
            while self._path and not self._path[-1].move_on():
                self._path.pop()
            if not self._path:
                return

    async def _run(self, programs: Mapping[str, Program]) -> Ran | None:
        """Run one order to its end; None if it only repeats another one."""
        running = [self.sessions[name] for name in programs]
        for session in running:
            session.begin(programs[session.name])
        steps, is_new = list[Step](), True
        await self._stabilise(running)
        while remaining := [session for session in running if not session.has_ended]:
            ready = {
                session.name: session for session in remaining if session.halted_at is not None
            }
            if not ready:
                await self._until_one_moves(remaining)
                continue
            is_new = is_new and self._continue_path(len(steps), ready)
            session = ready[self._path[len(steps)].taken] if is_new else next(iter(ready.values()))
            steps.append(Step(session.name, session.halted_at or ""))
            session.let_go()
            await self._stabilise(remaining)
        ends = {session.name: _end(session) for session in running}
        return Ran(tuple(steps), ends) if is_new else None

    def _continue_path(self, place: int, ready: Mapping[str, Session]) -> bool:
        """Choose the next session; return False if all of them sleep."""
        if place < len(self._path) and self._path[place].taken in ready:
            return True
        # The same steps lead to another point only after a deadlock, because Postgres chooses its
        # victim.
        del self._path[place:]
        asleep = self._path[-1].sleeping_after() if self._path else set()
        awake = [name for name in ready if name not in asleep]
        if awake:
            footprints = {name: session.next_footprint for name, session in ready.items()}
            self._path.append(_Point(footprints, asleep & footprints.keys(), awake[0]))
        return bool(awake)

    async def _stabilise(self, sessions: Sequence[Session]) -> None:
        """Wait until each session has stopped, has ended, or waits for a lock."""
        for session in sessions:
            if session.halted_at is None and not session.has_ended:
                await self._wait_until_stopped(session)

    async def _wait_until_stopped(self, session: Session) -> None:
        if session.is_blocked and await self._is_blocked(session):
            return
        session.is_blocked = False
        async with asyncio.timeout(PATIENCE):
            while not await session.halts_or_ends(_GLANCE):
                if session.pid and await self._is_blocked(session):
                    session.is_blocked = True
                    return

    async def _until_one_moves(self, sessions: Sequence[Session]) -> None:
        """Wait for Postgres to end a deadlock."""
        waits = [asyncio.create_task(session.halts_or_ends(PATIENCE)) for session in sessions]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await self._stabilise(sessions)

    async def _is_blocked(self, session: Session) -> bool:
        cursor = await self.monitor.execute(_IS_BLOCKED, [session.pid])
        (blocked,) = await cursor.fetchone() or (False,)
        return bool(blocked)


def _end(session: Session) -> object:
    """Return the result of a program, or its exception."""
    assert session.task is not None
    return session.task.exception() or session.task.result()


@asynccontextmanager
async def explorer(url: str, settings: Settings, names: Sequence[str]) -> AsyncIterator[Explorer]:
    """Open a connection pool for each session, and a connection that monitors their locks."""
    async with AsyncExitStack() as stack:
        sessions = {}
        for name in names:
            database = await stack.enter_async_context(open_database(settings))
            sessions[name] = Session(name, database)
            sessions[name].listen()
        monitor = await psycopg.AsyncConnection.connect(url, autocommit=True)
        await stack.enter_async_context(monitor)
        yield Explorer(sessions, monitor)
