"""Builds of the product with one guard taken out. Each of them has to be caught.

A mutant is a copy of the tree with some texts replaced, exactly as they are written. A text that is
not there any more is an error, and a test tells: then the guard has moved, and the mutant has to
follow it.

Where the product has two guards for one thing, taking out one of them breaks nothing that anybody
could see. Then the mutant takes out both, and its description says so.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from faults.cluster import ROOT
from faults.options import Options
from faults.workload import POISON

_KILLS = ("kill", "kill at a point")
_STOPS = ("stop", "stop at a point")


class OutdatedMutantError(Exception):
    """The text that a mutant replaces is not there, or more than once."""


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in one file."""

    file: str
    old: str
    new: str

    def apply(self, tree: Path) -> None:
        """Make the change in an installed tree."""
        folder, _, rest = self.file.partition("/")
        file = tree / _place(folder) / rest
        text = file.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            times = text.count(self.old)
            raise OutdatedMutantError(f"{self.file} has {times} times: {self.old}")
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken build, and the faults that should bring it to light."""

    name: str
    broken: str
    changes: tuple[Change, ...]
    faults: tuple[str, ...]
    steady: int = 80
    # How long schedulers live, on average.
    life: float = 0.5
    mortals: int = 4
    seconds: float = 20.0

    def options(self, seed: int, tree: Path) -> Options:
        """Return how it is run: aimed at what is broken."""
        return Options(
            seed,
            seconds=self.seconds,
            faults=frozenset(self.faults),
            steady=self.steady,
            mortals=self.mortals,
            life=self.life,
            settle=60.0,
            tree=tree,
            until_found=True,
        )


def build(mutant: Mutant, folder: Path) -> Path:
    """Copy the product as it would be installed, with the changes; return where it is."""
    tree = folder / mutant.name
    shutil.rmtree(tree, ignore_errors=True)
    leave_out = shutil.ignore_patterns("__pycache__")
    for one in _folders():
        source, target = ROOT / one, tree / _place(one)
        shutil.copytree(source, target, ignore=leave_out, dirs_exist_ok=True)
    for change in mutant.changes:
        change.apply(tree)
    return tree


def _folders() -> Iterator[str]:
    """Yield the root folders that ship."""
    for file in ROOT.glob("*/__init__.py"):
        if file.parent.name != "faults":
            yield file.parent.name


def _place(folder: str) -> Path:
    """Return where a root folder is installed."""
    return Path("tenantcron") if folder == "package" else Path("tenantcron") / folder


_FIRE, _DUE = "store/sql/fire.sql", "store/sql/due.sql"
_NOT_EXISTS = """WHERE NOT EXISTS (
    SELECT FROM tenantcron.execution AS e WHERE e.id = o.id AND e.scheduled_for = o.scheduled_for
)
"""
_FORWARDS = """    times = []
    while following is not None and following <= now:
        times.append(following)
        following = _following(cursor.cron_expr, cursor.timezone, following)
"""
_BACKWARDS = """    times = _looked_back(cursor, following, now)
    following = _following(cursor.cron_expr, cursor.timezone, now)
"""
_LOOKED_BACK = """def _looked_back(
    cursor: DueCursor, first: datetime | None, now: datetime
) -> list[datetime]:
    from croniter import croniter

    if first is None or cursor.cron_expr.startswith("@"):
        times = []
        while first is not None and first <= now:
            times.append(first)
            first = _following(cursor.cron_expr, cursor.timezone, first)
        return times
    walk = croniter(cursor.cron_expr, now.astimezone(zone(cursor.timezone)))
    times = []
    while (time := walk.get_prev(datetime).astimezone(now.tzinfo)) >= first:
        times.append(time)
    return times[::-1]


def _was_fired("""
_EARLY = """    def _start_early(self, claim: Claim) -> None:
        known = self._replica.definitions.known({one.definition_id for one in claim.started})
        for claimed in claim.started:
            self._start(claimed, (known or {})[claimed.definition_id])

    async def _settle_doubt("""

MUTANTS = (
    Mutant(
        "unique-key",
        "the unique keys of executions are gone, and so is the look at what exists",
        (
            Change(
                "migrations/control/versions/initial/tables.sql",
                "execution_live PARTITION OF tenantcron.execution (\n"
                "    CONSTRAINT execution_live_pkey PRIMARY KEY (id)\n) FOR",
                "execution_live PARTITION OF tenantcron.execution FOR",
            ),
            Change(
                "migrations/control/versions/initial/tables.sql",
                "execution_past PARTITION OF tenantcron.execution (\n"
                "    CONSTRAINT execution_past_pkey PRIMARY KEY (id, scheduled_for)\n) FOR",
                "execution_past PARTITION OF tenantcron.execution FOR",
            ),
            Change(_FIRE, _NOT_EXISTS, ""),
        ),
        (*_KILLS, "cursors set back"),
    ),
    Mutant(
        "move-before-insert",
        "the cursor moves in a transaction of its own, before the insert",
        (
            Change(
                "scheduler/fire.py",
                "        inserted = await write(connection, replica, taken, batch)\n"
                "        _blame(batch)\n"
                "        await firing.set_aside(connection, batch.faults)\n",
                "        await write(connection, replica, taken, replace(batch, executions=[]))\n"
                "        _blame(batch)\n"
                "        await firing.set_aside(connection, batch.faults)\n"
                "    moved = [one._replace(found_at=one.next_run_at) for one in batch.moves]\n"
                "    async with replica.database.transaction(by_key=True) as connection:\n"
                "        moves = replace(batch, moves=moved)\n"
                "        inserted = await write(connection, replica, taken, moves)\n",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "no-fence",
        "a result is written whatever its lease",
        (
            Change(
                "store/sql/finish.sql",
                "AND e.state = 'RUNNING' AND e.lease_token = g.token",
                "AND e.state = 'RUNNING'",
            ),
        ),
        _STOPS,
        steady=8,
    ),
    Mutant(
        "machine-clock",
        "the time is the machine's and not the database's",
        (
            Change(
                "scheduler/replica.py",
                "from dataclasses import dataclass, field\n",
                "from dataclasses import dataclass, field\nfrom datetime import UTC, datetime\n",
            ),
            Change(
                "scheduler/replica.py",
                "clock: Clock = database_clock",
                "clock: Clock = lambda: datetime.now(UTC)",
            ),
        ),
        ("kill", "clock"),
        steady=24,
        life=3.0,
    ),
    Mutant(
        "slots-in-memory",
        "a slot is given back only by the process that has it",
        (
            Change(
                "scheduler/finish.py",
                "        return await _recover(replica, _finish)\n    except",
                "        return 0\n    except",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "upsert",
        "what is fired again replaces what was there",
        (
            Change(
                "store/firing.py",
                '    inserted = await connection.exec_driver_sql(statement("fire"), parameters)\n',
                '    ids = {"ids": parameters["ids"]}\n'
                '    gone = "DELETE FROM tenantcron.execution WHERE id = ANY(%(ids)s::uuid[])"\n'
                "    await connection.exec_driver_sql(gone, ids)\n"
                '    inserted = await connection.exec_driver_sql(statement("fire"), parameters)\n',
            ),
        ),
        (*_KILLS, "cursors set back"),
    ),
    Mutant(
        "backwards",
        "missed occurrences are looked for backwards from now",
        (
            Change("scheduler/due.py", _FORWARDS, _BACKWARDS),
            Change("scheduler/due.py", "def _was_fired(", _LOOKED_BACK),
        ),
        ("kill", "weeks to make up for"),
    ),
    Mutant(
        "no-lock",
        "due cursors are read without a lock, and moved wherever they are by then",
        (
            Change(_DUE, "\nFOR NO KEY UPDATE SKIP LOCKED", ""),
            Change(_FIRE, " AND c.next_run_at = to_.found_at", ""),
        ),
        ("kill", *_STOPS),
    ),
    Mutant(
        "lease-too-short",
        "a lease is shorter than the pause between two heartbeats",
        (
            Change(
                "scheduler/lease_thread.py",
                "_EVERY: Final = 1 / 3",
                "_EVERY: Final = 1.5",
            ),
        ),
        ("kill",),
        steady=16,
    ),
    Mutant(
        "claim-after-call",
        "handlers are called before the claim is committed",
        (
            Change(
                "scheduler/claim.py",
                'after: str = "") -> Claim:\n    """Start what may start',
                'after: str = "", early=None) -> Claim:\n    """Start what may start',
            ),
            Change(
                "scheduler/claim.py",
                "    claim = replace(claim, skipped=claim.skipped + skipped)\n",
                "        if early is not None:\n"
                "            import asyncio\n"
                "            early(claim)\n"
                "            await asyncio.sleep(0.02)\n"
                "    claim = replace(claim, skipped=claim.skipped + skipped)\n",
            ),
            Change(
                "scheduler/run.py",
                "await claim_batch(self._replica, batch, self._sweep.after)\n",
                "await claim_batch(self._replica, batch, self._sweep.after, self._start_early)\n",
            ),
            Change(
                "scheduler/run.py",
                "        for claimed in await self._runnable(claim.started, definitions):\n"
                "            self._start(claimed, definitions[claimed.definition_id])\n"
                "        self._in_doubt = False\n",
                "        del definitions\n        self._in_doubt = False\n",
            ),
            Change("scheduler/run.py", "    async def _settle_doubt(", _EARLY),
            # Not before the commit, or the result would find nothing to end and be lost each time.
            Change(
                "scheduler/run.py",
                "        self._results.add(attempt)\n",
                "        loop = asyncio.get_running_loop()\n"
                "        loop.call_later(0.1, self._results.add, attempt)\n",
            ),
            Change(
                "scheduler/run.py",
                "from tenantcron.store.claiming import CANCEL, Claimed\n",
                "from tenantcron.store.claiming import CANCEL, Claim, Claimed\n",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "second-pass",
        "a fixed time in an hour that the clock shows twice fires twice",
        (
            Change(
                "cron/occurrences.py",
                "find = next_shown if timetable.follows_clock else next_fixed",
                "find = next_shown",
            ),
        ),
        ("kill", "weeks to make up for"),
    ),
    Mutant(
        "ids-from-now",
        "the id of an execution is made from the time of firing",
        (
            Change(
                "store/firing.py",
                "execution_id_hex(one.schedule_id, one.scheduled_for) for one",
                "execution_id_hex(one.schedule_id, now) for one",
            ),
        ),
        (*_KILLS, "cursors set back"),
    ),
    Mutant(
        "suspects-together",
        "executions that were lost with a worker are retried all at once",
        (
            Change(
                "store/sql/claim.sql",
                "<= (SELECT room.suspects FROM room)",
                "<= (SELECT 1000 + room.suspects FROM room)",
            ),
            Change(
                "store/sql/claim.sql",
                "AND (in_line.suspects = 0 OR in_line.suspects_so_far <= room.suspects)",
                "AND in_line.suspects_so_far >= 0",
            ),
        ),
        (POISON,),
        steady=16,
        mortals=1,
        seconds=40.0,
    ),
    Mutant(
        "capability-filter",
        "a claim takes whatever is pending, and a second look before the start is gone, too",
        (
            Change(
                "scheduler/claim.py",
                "    if not own.patterns:\n"
                "        return own.named\n"
                "    return own.among(await requirements.unnamed(",
                "    everything = (\n"
                '        "SELECT DISTINCT requires FROM tenantcron.execution_live"\n'
                "        \" WHERE state <> 'RUNNING' AND requires IS NOT NULL\"\n"
                "    )\n"
                "    if own.named:\n"
                "        return [row[0] for row in await connection.exec_driver_sql(everything)]\n"
                "    return own.among(await requirements.unnamed(",
            ),
            Change(
                "scheduler/run.py",
                "for claimed in await self._runnable(claim.started, definitions):",
                "for claimed in claim.started:",
            ),
        ),
        ("kill",),
        steady=24,
        life=3.0,
    ),
)

# The same hunt on a build with nothing taken out. Whatever is found there is the harness's mistake.
CONTROL = Mutant(
    "control",
    "nothing",
    (),
    tuple(dict.fromkeys(fault for mutant in MUTANTS for fault in mutant.faults)),
)
