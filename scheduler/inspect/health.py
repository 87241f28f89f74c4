"""Health of the cluster: findings, each with its fix.

`examine` derives the findings from the status: values in, values out. An error means that work is
not being done, a warning that work may soon not be done.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from tenantcron.core.durations import format_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.core.words import number_of
from tenantcron.scheduler.inspect.cluster_status import NOT_FOLLOWED, SHOWN, SKIPS, ClusterStatus
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.scheduler.inspect.health_events import event_findings
from tenantcron.scheduler.inspect.health_source import source_findings
from tenantcron.scheduler.inspect.start_conditions import LEASES_TO_BE_GONE
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.history_months import month_of
from tenantcron.store.rows.schedule_cursors import CursorRow

LONG_WAIT = timedelta(minutes=5)
_INTERVALS = 2


def examine(status: ClusterStatus) -> list[Finding]:
    """Return the findings, errors first."""
    found = [finding for check in _CHECKS for finding in check(status)]
    return sorted(found, key=lambda finding: list(FindingSeverity).index(finding.severity))


def _no_replica(status: ClusterStatus) -> Iterator[Finding]:
    if status.replicas or not status.has_schedules:
        return
    silent = format_duration(LEASES_TO_BE_GONE * status.lease)
    yield Finding(
        "no-replica",
        FindingSeverity.ERROR,
        f"no scheduler has sent a heartbeat for {silent}, so no schedule fires",
        "start one with `tenantcron run`; if one is running, check its log and its database",
    )


def _no_runner(status: ClusterStatus) -> Iterator[Finding]:
    waiting = status.without_runner
    if not waiting:
        return
    number = sum(entry.number for entry in waiting)
    sagas = tuple(dict.fromkeys(entry.saga for entry in waiting))
    oldest = min(entry.oldest for entry in waiting)
    longest = format_duration(max(status.now - oldest, timedelta()))
    yield Finding(
        "no-runner",
        FindingSeverity.ERROR,
        f"no live replica can run {number_of(len(sagas), 'saga')}; "
        f"{number_of(number, 'execution')} cannot start, the oldest for {longest}",
        "start a replica with the handler (`tenantcron run --handlers`) or one that serves such "
        "targets (`--targets`); executions are SKIPPED after their start deadline",
        sagas[:SHOWN],
        number,
    )


def _overdue(status: ClusterStatus) -> Iterator[Finding]:
    rows = status.overdue.rows
    if not rows:
        return
    worst = rows[0]
    late = format_duration(status.now - (worst.next_run_at or status.now))
    stopped = any(_missed_twice(row, status.now) for row in rows)
    yield Finding(
        "schedule-overdue",
        FindingSeverity.ERROR if stopped else FindingSeverity.WARNING,
        f"{number_of(status.overdue.number, 'schedule')} overdue, the first by {late}"
        + (", at least twice its interval" if stopped else ""),
        "check that a scheduler runs and can write; its log shows errors of the step `fire`",
        _names(rows),
        status.overdue.number,
    )


def _missed_twice(row: CursorRow, now: datetime) -> bool:
    """Whether a schedule has not fired in twice its interval; True if that is unknown."""
    if row.next_run_at is None:
        return False
    try:
        after = zoned_timetable(row.cron_expr, row.timezone).next_after(row.next_run_at)
    except TenantcronError:
        return True
    return after is None or now - row.next_run_at > _INTERVALS * (after - row.next_run_at)


def _quarantined(status: ClusterStatus) -> Iterator[Finding]:
    rows = status.set_aside.rows
    if rows:
        yield Finding(
            "cursor-set-aside",
            FindingSeverity.ERROR,
            f"{number_of(status.set_aside.number, 'schedule')} cannot be evaluated and cannot "
            f"fire; the first: {rows[0].fault}",
            "apply the tenant's manifest again, which reverts manual changes; if nothing changes, "
            "edit the schedule's description as well",
            _names(rows),
            status.set_aside.number,
        )


def _not_synced(status: ClusterStatus) -> Iterator[Finding]:
    rows, number = status.left_out.rows, status.left_out.number
    if rows:
        yield Finding(
            "tenant-left-out",
            FindingSeverity.ERROR,
            f"{number_of(number, 'tenant')} cannot be synced completely; the first: "
            f"{rows[0].fault}",
            "fix the error, with `tenantcron migrate` if a table is missing; the scheduler "
            "retries every minute",
            tuple(row.tenant_id for row in rows),
            number,
        )


def _not_followed(status: ClusterStatus) -> Iterator[Finding]:
    late = status.not_followed
    if late.rows:
        yield Finding(
            "tenant-not-followed",
            FindingSeverity.WARNING,
            f"the schedules of {number_of(late.number, 'tenant')} have changed, and no scheduler "
            f"has picked up the change for more than {format_duration(NOT_FOLLOWED)}",
            "check that a scheduler runs; its log shows errors of the step `refresh`",
            tuple(row.tenant_id for row in late.rows),
            late.number,
        )


def _dead_leases(status: ClusterStatus) -> Iterator[Finding]:
    rows = status.dead_leases
    if rows:
        yield Finding(
            "lease-expired",
            FindingSeverity.ERROR,
            "executions are RUNNING, but their workers have sent no heartbeat for more than two "
            "leases and no scheduler has recovered them: they hold slots",
            "check that a scheduler runs: it recovers them within a quarter of a lease",
            tuple(str(row.id) for row in rows),
            len(rows),
        )


def _missed_heartbeats(status: ClusterStatus) -> Iterator[Finding]:
    rows = status.missed_heartbeats
    if rows:
        yield Finding(
            "heartbeat-missed",
            FindingSeverity.WARNING,
            "remote workers accepted executions and then sent no heartbeat; they are retried",
            "check that the workers run, and that they reach the API (`tenantcron serve`) at the "
            "setting callback_url",
            tuple(str(row.id) for row in rows),
            len(rows),
        )


def _abandoned(status: ClusterStatus) -> Iterator[Finding]:
    holders = [replica for replica in status.replicas if replica.abandoned]
    if holders:
        number = sum(replica.abandoned for replica in holders)
        yield Finding(
            "handlers-abandoned",
            FindingSeverity.WARNING,
            f"{number_of(number, 'handler')} still running in threads after cancellation, outside "
            "all limits",
            "check `execution.cancelled` in such handlers; restart the replica to end them",
            tuple(replica.id for replica in holders[:SHOWN]),
            number,
        )


def _auto_paused(status: ClusterStatus) -> Iterator[Finding]:
    rows = status.auto_paused.rows
    if rows:
        yield Finding(
            "schedule-auto-paused",
            FindingSeverity.WARNING,
            f"{number_of(status.auto_paused.number, 'schedule')} auto-paused after repeated "
            "failures",
            "see `tenantcron execution list --state DEAD`, fix the cause, then run `tenantcron "
            "schedule resume`",
            _names(rows),
            status.auto_paused.number,
        )


def _always_skipped(status: ClusterStatus) -> Iterator[Finding]:
    found = status.always_skipped
    if found:
        reasons = sorted({schedule.reason_code for schedule in found})
        yield Finding(
            "schedule-always-skipped",
            FindingSeverity.WARNING,
            f"the last {SKIPS} occurrences of {number_of(len(found), 'schedule')} were all skipped "
            f"({', '.join(reasons)})",
            "see `tenantcron why`: raise the limits, set `start_within` or `overlap: queue`, or "
            "run them less often",
            tuple(f"{row.tenant_id}/{row.schedule_name}" for row in found[:SHOWN]),
            len(found),
        )


def _no_history(status: ClusterStatus) -> Iterator[Finding]:
    missing = status.months_missing
    # Schedulers create the partitions. Without one, `no-replica` covers this.
    if missing and status.replicas:
        is_now = month_of(status.now) in missing
        yield Finding(
            "history-missing",
            FindingSeverity.ERROR if is_now else FindingSeverity.WARNING,
            "no history partition for "
            + " and ".join(f"{month.start:%Y-%m}" for month in missing)
            + (": no schedule can fire" if is_now else ": no schedule can fire then"),
            "check that a scheduler runs and may create tables: it creates partitions in advance",
            tuple(f"{month.start:%Y-%m}" for month in missing),
            len(missing),
        )


def _long_wait(status: ClusterStatus) -> Iterator[Finding]:
    # Executions without a runner do not wait for a limit.
    unserved = sum(entry.number for entry in status.without_runner)
    if status.lag > LONG_WAIT and status.queue.number > unserved:
        yield Finding(
            "long-wait",
            FindingSeverity.WARNING,
            f"{number_of(status.queue.number, 'execution')} waiting for a slot, the oldest for "
            f"{format_duration(status.lag)}",
            "see `tenantcron limits`: raise the limits, or make handlers faster",
            count=status.queue.number,
        )


def _closed(status: ClusterStatus) -> Iterator[Finding]:
    closed = [
        option
        for option, value in (
            ("--max-concurrent", status.limits.overall),
            ("--max-concurrent-per-tenant", status.limits.per_tenant),
        )
        if value == 0
    ]
    if closed:
        yield Finding(
            "limit-zero",
            FindingSeverity.WARNING,
            f"an operator has set {' and '.join(closed)} to 0: nothing starts",
            f"run `tenantcron limits {closed[0]} default` to let executions start again",
            tuple(closed),
            len(closed),
        )


def _failover_losses(status: ClusterStatus) -> Iterator[Finding]:
    found = status.failover_losses
    if found.rows:
        yield Finding(
            "failover-results-lost",
            FindingSeverity.WARNING,
            f"{number_of(found.number, 'execution')} may have run twice: their starts or results "
            f"were lost in the failover to timeline {found.rows[0].timeline}",
            "list them with `tenantcron audit`; check their effects if their targets ignore the "
            "Idempotency-Key",
            tuple(str(row.execution_id) for row in found.rows),
            found.number,
        )


def _no_signing(status: ClusterStatus) -> Iterator[Finding]:
    if status.signing_fault is not None:
        yield Finding(
            "signing-key-unusable",
            FindingSeverity.ERROR,
            f"execution tokens cannot be signed: {status.signing_fault}",
            "fix the key settings, the same for every scheduler; see docs/identity.md",
        )


_CHECKS = (
    _no_replica,
    _no_runner,
    source_findings,
    _no_signing,
    _no_history,
    _overdue,
    _quarantined,
    _not_synced,
    _dead_leases,
    _missed_heartbeats,
    _failover_losses,
    _not_followed,
    _closed,
    _auto_paused,
    _always_skipped,
    _long_wait,
    _abandoned,
    event_findings,
)


def _names(rows: Iterable[CursorRow]) -> tuple[str, ...]:
    return tuple(f"{row.tenant_id}/{row.schedule_name}" for row in rows)
