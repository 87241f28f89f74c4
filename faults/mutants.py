"""Builds of the product with one guard removed. Each of them has to be caught.

Where the product has two guards for one thing, removing one of them has no visible effect. Such a
mutant removes both, and its description says so.
"""

from faults.mutant import Change, Mutant
from faults.remote_workload import Remote
from faults.task_mutants import TASK_MUTANTS
from faults.workload import POISON

_KILLS = ("kill", "kill at a point")
_STOPS = ("stop", "stop at a point")
_FIRE, _DUE = "store/steps/fire.sql", "store/steps/due.sql"
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
    from tenantcron.cron.zones import zone

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
        known = self._replica.definitions.cached({one.definition_id for one in claim.started})
        for claimed in claim.started:
            self._start(claimed, (known or {})[claimed.definition_id])

    async def release_uncertain("""

MUTANTS = (
    Mutant(
        "unique-key",
        "the unique keys of executions and the check for existing rows are removed",
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
        "the cursor moves in a separate transaction, before the insert",
        (
            Change(
                "scheduler/steps/fire.py",
                "        inserted = await write(connection, replica, taken, batch)\n"
                "        _blame(batch)\n"
                "        await firing.quarantine(connection, batch.faults)\n",
                "        await write(connection, replica, taken, replace(batch, executions=[]))\n"
                "        _blame(batch)\n"
                "        await firing.quarantine(connection, batch.faults)\n"
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
        "a result is written without checking its lease",
        (
            Change(
                "store/steps/finish.sql",
                "AND e.state = 'RUNNING' AND e.lease_token = g.token",
                "AND e.state = 'RUNNING'",
            ),
        ),
        _STOPS,
        steady=8,
    ),
    Mutant(
        "machine-clock",
        "the machine clock is used instead of the database clock",
        (
            Change(
                "scheduler/replica/shared_state.py",
                "from dataclasses import dataclass, field\n",
                "from dataclasses import dataclass, field\nfrom datetime import UTC, datetime\n",
            ),
            Change(
                "scheduler/replica/shared_state.py",
                "clock: Clock = database_clock",
                "clock: Clock = lambda: datetime.now(UTC)",
            ),
        ),
        ("kill", "clock"),
        steady=24,
        lifetime=3.0,
    ),
    Mutant(
        "slots-in-memory",
        "a slot is released only by the process that holds it",
        (
            Change(
                "scheduler/steps/finish.py",
                "        return await _recover(replica, write_results)\n    except",
                "        return 0\n    except",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "upsert",
        "an execution that is fired again replaces the existing one",
        (
            Change(
                "store/steps/firing.py",
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
        "missed occurrences are searched backwards from now",
        (
            Change("scheduler/steps/due.py", _FORWARDS, _BACKWARDS),
            Change("scheduler/steps/due.py", "def _was_fired(", _LOOKED_BACK),
        ),
        ("kill", "backlog"),
    ),
    Mutant(
        "no-lock",
        "due cursors are read without a lock, and moved without compare-and-set",
        (
            Change(_DUE, "\nFOR NO KEY UPDATE SKIP LOCKED", ""),
            Change(_FIRE, " AND c.next_run_at = to_.found_at", ""),
        ),
        ("kill", *_STOPS),
    ),
    Mutant(
        "lease-too-short",
        "a lease is shorter than the heartbeat interval",
        (
            Change(
                "scheduler/steps/lease_thread.py",
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
                "scheduler/steps/claim.py",
                'after: str = "") -> Claim:\n    """Start at most a batch',
                'after: str = "", early=None) -> Claim:\n'
                "    _EARLY[:] = [early] if early else []\n"
                '    """Start at most a batch',
            ),
            Change("scheduler/steps/claim.py", "class Sweep:\n", "_EARLY = []\n\n\nclass Sweep:\n"),
            Change(
                "scheduler/steps/claim.py",
                "            await workers.want(connection, replica.worker_id, requires, "
                "replica.clock())\n",
                "            await workers.want(connection, replica.worker_id, requires, "
                "replica.clock())\n"
                "        if _EARLY:\n"
                "            import asyncio\n"
                "            _EARLY[0](claim)\n"
                "            await asyncio.sleep(0.02)\n",
            ),
            Change(
                "scheduler/replica/claim_loop.py",
                "await claim_batch(self._replica, batch, self._sweep.after)\n",
                "await claim_batch(self._replica, batch, self._sweep.after, self._start_early)\n",
            ),
            Change(
                "scheduler/replica/claim_loop.py",
                "        for claimed in await self._runnable("
                "claim.started, definitions, limited):\n"
                "            self._start(claimed, definitions[claimed.definition_id])\n"
                "        self._is_uncertain = False\n",
                "        del definitions\n        self._is_uncertain = False\n",
            ),
            Change("scheduler/replica/claim_loop.py", "    async def release_uncertain(", _EARLY),
            # After the commit, or the result would find no row and be lost each time.
            Change(
                "scheduler/replica/claim_loop.py",
                "        self._results.add(attempt)\n",
                "        loop = asyncio.get_running_loop()\n"
                "        loop.call_later(0.1, self._results.add, attempt)\n",
            ),
        ),
        _KILLS,
    ),
    Mutant(
        "second-pass",
        "a fixed time in a repeated hour fires twice",
        (
            Change(
                "cron/occurrences.py",
                "find = next_shown if timetable.follows_clock else next_fixed",
                "find = next_shown",
            ),
        ),
        ("kill", "backlog"),
    ),
    Mutant(
        "ids-from-now",
        "the id of an execution is derived from the time of firing",
        (
            Change(
                "store/steps/firing.py",
                "execution_id_hex(row.schedule_id, row.scheduled_for) for row",
                "execution_id_hex(row.schedule_id, now) for row",
            ),
        ),
        (*_KILLS, "cursors set back"),
    ),
    Mutant(
        "suspects-together",
        "executions that were lost with a worker are all retried at once",
        (
            Change(
                "store/steps/claim.sql",
                "<= (SELECT free.suspects FROM free)",
                "<= (SELECT 1000 + free.suspects FROM free)",
            ),
            Change(
                "store/steps/claim.sql",
                "AND (in_line.suspects = 0 OR in_line.suspects_so_far <= free.suspects)",
                "AND in_line.suspects_so_far >= 0",
            ),
        ),
        (POISON,),
        steady=16,
        victims=1,
        seconds=40.0,
    ),
    Mutant(
        "capability-filter",
        "a claim takes any pending execution, and the second check before the start is removed",
        (
            Change(
                "scheduler/steps/claim.py",
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
                "scheduler/replica/claim_loop.py",
                "for claimed in await self._runnable(claim.started, definitions, limited):",
                "for claimed in claim.started:",
            ),
        ),
        ("kill",),
        steady=24,
        lifetime=3.0,
    ),
    Mutant(
        "report-without-fence",
        "a report of a remote worker ends the current attempt, whichever attempt it is of",
        (
            Change(
                "store/steps/remote_attempt.sql",
                "e.handed_over_lease = %(digest)s\n",
                "%(digest)s::text IS NOT NULL\n",
            ),
        ),
        (),
        seconds=30.0,
        remote=Remote.CALLBACK,
    ),
    Mutant(
        "hand-over-without-lease",
        "the lease of an attempt is not handed over to its remote worker",
        (
            Change(
                "store/steps/hand_over.sql",
                "    handed_over_attempt = e.attempt,\n",
                "    handed_over_attempt = NULL,\n",
            ),
        ),
        (),
        remote=Remote.CALLBACK,
    ),
    Mutant(
        "stale-messages",
        "a Celery worker runs messages of attempts that are over",
        (
            Change(
                "client/celery.py",
                "        if begun.is_over:\n",
                "        begun = AttemptWork()\n        if begun.is_over:\n",
            ),
        ),
        (),
        seconds=40.0,
        remote=Remote.CELERY,
    ),
    *TASK_MUTANTS,
)

# The same hunt on an unmodified build. Every finding there is a bug of the harness.
CONTROL = Mutant(
    "control",
    "nothing",
    (),
    tuple(dict.fromkeys(fault for mutant in MUTANTS for fault in mutant.faults)),
)
