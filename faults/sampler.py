"""Query the database several times a second, and check each snapshot.

- **limits**: one statement counts running executions by tenant, so it sees one snapshot. At the
  last start in it, no more may have been running than the limit allowed; since then the number can
  only have decreased.
- **leases**: an execution that runs without a lease must be recovered within a bound, counted in
  seconds in which no fault affected all schedulers.
- **cursors** move forward: a trigger records those that do not. The harness sets some back itself,
  and those are ignored.
- **early**: nothing is fired before its time, by the database's clock. Tasks are fired seconds
  before, but do not start before.
- **ended**: an ended execution does not change; some of them are kept for the checker.
"""

from datetime import datetime, timedelta
from threading import Event, Thread
from time import monotonic
from typing import NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from faults.journal import Findings, Journal, now
from faults.testbed import Testbed

LOST_FOR = 25.0
_PAUSE = 0.15
_CURSORS_EVERY = 4
_STALLED = 1.5
_RUNNING = """
SELECT tenant_id, count(*) AS running, max(started_at) AS last
FROM tenantcron.execution WHERE state = 'RUNNING' GROUP BY tenant_id
"""
_EXPIRED = """
SELECT id, tenant_id, schedule_name, lease_token, worker_id, lease_until
FROM tenantcron.execution
WHERE state = 'RUNNING' AND lease_until < statement_timestamp() - interval '1 second'
"""
_EARLY = """
SELECT id, tenant_id, schedule_name, scheduled_for, statement_timestamp() AS now
FROM tenantcron.execution_live
WHERE scheduled_for > statement_timestamp() AND (schedule_id <> id OR state <> 'PENDING')
LIMIT 5
"""
_WENT_BACK = "SELECT * FROM public.went_back WHERE id > %s"
_CURSORS = "SELECT count(*) AS number FROM tenantcron.schedule_cursor"
# A cursor that moves back is advanced again by the next fire, too soon for any sample. So the
# database itself records it; cursors that the harness sets back on purpose are ignored.
_WATCH = """
CREATE TABLE public.went_back (
    id bigint GENERATED ALWAYS AS IDENTITY, name text, was text, became text
);
CREATE FUNCTION public.note_went_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.went_back (name, was, became) VALUES (
        concat_ws('/', NEW.tenant_id, NEW.schedule_name),
        concat_ws(' then ', OLD.last_run_at, OLD.next_run_at),
        concat_ws(' then ', NEW.last_run_at, NEW.next_run_at)
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER went_back AFTER UPDATE ON tenantcron.schedule_cursor FOR EACH ROW
WHEN (
    (NEW.next_run_at < OLD.next_run_at OR NEW.last_run_at < OLD.last_run_at)
    AND OLD.tenant_id NOT LIKE 'clock%' AND OLD.tenant_id NOT LIKE 'restored%'
)
EXECUTE FUNCTION public.note_went_back();
"""
# Schedules that get a backlog later do not come due before that: if one fired normally first, its
# cursor would never be set back.
_PARK = """
CREATE FUNCTION public.park() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.next_run_at := NULL;
    RETURN NEW;
END
$$;
CREATE TRIGGER parked BEFORE INSERT ON tenantcron.schedule_cursor FOR EACH ROW
WHEN (NEW.tenant_id LIKE 'clock%') EXECUTE FUNCTION public.park();
"""
_STOP_PARKING = "DROP TRIGGER parked ON tenantcron.schedule_cursor"
_ENDED = """
SELECT id, state, attempt, finished_at, reason
FROM tenantcron.execution_past
WHERE scheduled_for > statement_timestamp() - interval '5 seconds' LIMIT 40
"""


def watch_cursors(testbed: Testbed) -> None:
    """Have the database record cursors that move back, and park those that start later."""
    testbed.query(_WATCH)
    testbed.query(_PARK)


def stop_parking(testbed: Testbed) -> None:
    """Do not park cursors from now on."""
    testbed.query(_STOP_PARKING)


class Ended(NamedTuple):
    """How an execution ended."""

    state: str
    attempt: int
    finished_at: datetime
    reason: str | None


class Sampler(Thread):
    """Samples until it is stopped."""

    def __init__(self, testbed: Testbed, journal: Journal, findings: Findings) -> None:
        super().__init__(name="sampler", daemon=True)
        self._testbed, self._journal, self._findings = testbed, journal, findings
        self._over = Event()
        self._went_back = 0
        # Since when leases are expired, by execution and token.
        self._lost: dict[tuple[UUID, UUID], float] = {}
        self._sampled_at = monotonic()
        self.ended: dict[UUID, Ended] = {}
        self.most_running = 0

    def stop(self) -> None:
        """Stop sampling."""
        self._over.set()
        self.join(30)

    def run(self) -> None:
        """Sample; wait while the database is down."""
        while not self._over.is_set():
            try:
                with self._testbed.connect() as connection:
                    self._sample(connection)
            except psycopg.OperationalError:
                self._lost.clear()
                self._over.wait(_PAUSE)

    def _sample(self, connection: psycopg.Connection[DictRow]) -> None:
        number = 0
        while not self._over.wait(_PAUSE):
            self._note_stalls()
            self._limits(connection.execute(_RUNNING).fetchall())
            self._leases(connection.execute(_EXPIRED).fetchall())
            if number % _CURSORS_EVERY == 0:
                self._early(connection.execute(_EARLY).fetchall())
                self._findings.examine(
                    "cursor", connection.execute(_CURSORS).fetchall()[0]["number"]
                )
                self._move(connection.execute(_WENT_BACK, (self._went_back,)).fetchall())
                self._remember(connection.execute(_ENDED).fetchall())
            number += 1

    def _note_stalls(self) -> None:
        """Record that the machine stalled, which excuses all schedulers."""
        moment = monotonic()
        if moment - self._sampled_at > _STALLED:
            self._journal.bad_for(3.0, before=moment - self._sampled_at)
        self._sampled_at = moment

    def _limits(self, rows: list[DictRow]) -> None:
        self._findings.examine("limit")
        limits = self._journal.limits
        total = sum(row["running"] for row in rows)
        self.most_running = max(self.most_running, total)
        if not rows:
            return
        last = max(row["last"] for row in rows)
        overall = limits.highest(None, last)
        if overall is not None and total > overall:
            self._findings.add(
                "limit", f"{total} running, {overall} allowed; the last since {last}"
            )
        for row in rows:
            allowed = limits.highest(row["tenant_id"], row["last"])
            if allowed is None:
                allowed = limits.highest("*", row["last"])
            if allowed is not None and row["running"] > allowed:
                message = f"{row['tenant_id']}: {row['running']} running, {allowed} allowed"
                self._findings.add("limit", f"{message}; the last since {row['last']}")

    def _leases(self, rows: list[DictRow]) -> None:
        self._findings.examine("lease")
        moment, seen = monotonic(), {}
        is_bad = self._journal.is_bad(now() - timedelta(seconds=1), now())
        for row in rows:
            key = row["id"], row["lease_token"]
            since = self._lost.get(key, moment)
            seen[key] = moment if is_bad else since
            if moment - seen[key] > LOST_FOR:
                message = f"{row['tenant_id']}/{row['schedule_name']} {row['id']}"
                owner = f"its worker {row['worker_id']}, its lease ended {row['lease_until']}"
                self._findings.add("lease", f"{message} still RUNNING; {owner}")
                seen[key] = moment
        self._lost = seen

    def _early(self, rows: list[DictRow]) -> None:
        self._findings.examine("early")
        for row in rows:
            message = f"{row['tenant_id']}/{row['schedule_name']} {row['id']}"
            self._findings.add("early", f"{message} for {row['scheduled_for']} at {row['now']}")

    def _move(self, rows: list[DictRow]) -> None:
        """Report every cursor that moved back since the last sample."""
        for row in rows:
            self._went_back = max(self._went_back, row["id"])
            self._findings.add(
                "cursor", f"{row['name']} moved back from {row['was']} to {row['became']}"
            )

    def _remember(self, rows: list[DictRow]) -> None:
        for row in rows:
            ended = Ended(row["state"], row["attempt"], row["finished_at"], row["reason"])
            self.ended.setdefault(row["id"], ended)
