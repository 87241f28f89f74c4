"""Health of the cluster: findings, each with its fix.

`examine` derives the findings from the vitals: values in, values out. An error means that work is
not being done, a warning that work may soon not be done.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from tenantcron.core.durations import format_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.core.words import number_of
from tenantcron.scheduler.inspect.cluster_status import LATELY, NOT_FOLLOWED, SHOWN, Vitals
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.scheduler.inspect.health_source import source_findings
from tenantcron.scheduler.inspect.schedule_status import LEASES_TO_BE_GONE
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.history import month_of
from tenantcron.store.rows.schedule_cursors import CursorRow
from tenantcron.store.rows.webhooks import GONE

LONG_WAIT = timedelta(minutes=5)
WEBHOOK_BEHIND = timedelta(minutes=15)
_INTERVALS = 2


def examine(vitals: Vitals) -> list[Finding]:
    """Return the findings, errors first."""
    found = [finding for check in _CHECKS for finding in check(vitals)]
    return sorted(found, key=lambda finding: list(FindingSeverity).index(finding.severity))


def _no_replica(vitals: Vitals) -> Iterator[Finding]:
    if vitals.replicas or not vitals.has_schedules:
        return
    silent = format_duration(LEASES_TO_BE_GONE * vitals.lease)
    yield Finding(
        "no-replica",
        FindingSeverity.ERROR,
        f"no scheduler has sent a heartbeat for {silent}, so no schedule fires",
        "start one with `tenantcron run`; if one is running, check its log and its database",
    )


def _no_runner(vitals: Vitals) -> Iterator[Finding]:
    waiting = vitals.without_runner
    if not waiting:
        return
    number = sum(entry.number for entry in waiting)
    sagas = tuple(dict.fromkeys(entry.saga for entry in waiting))
    oldest = min(entry.oldest for entry in waiting)
    longest = format_duration(max(vitals.now - oldest, timedelta()))
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


def _overdue(vitals: Vitals) -> Iterator[Finding]:
    rows = vitals.overdue.rows
    if not rows:
        return
    worst = rows[0]
    late = format_duration(vitals.now - (worst.next_run_at or vitals.now))
    stopped = any(_missed_twice(row, vitals.now) for row in rows)
    yield Finding(
        "schedule-overdue",
        FindingSeverity.ERROR if stopped else FindingSeverity.WARNING,
        f"{number_of(vitals.overdue.number, 'schedule')} overdue, the first by {late}"
        + (", at least twice its interval" if stopped else ""),
        "check that a scheduler runs and can write; its log shows errors of the step `fire`",
        _names(rows),
        vitals.overdue.number,
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


def _quarantined(vitals: Vitals) -> Iterator[Finding]:
    rows = vitals.set_aside.rows
    if rows:
        yield Finding(
            "cursor-set-aside",
            FindingSeverity.ERROR,
            f"{number_of(vitals.set_aside.number, 'schedule')} cannot be evaluated and cannot "
            f"fire; the first: {rows[0].fault}",
            "apply the tenant's manifest again, which reverts manual changes; if nothing changes, "
            "edit the schedule's description as well",
            _names(rows),
            vitals.set_aside.number,
        )


def _not_synced(vitals: Vitals) -> Iterator[Finding]:
    rows, number = vitals.left_out.rows, vitals.left_out.number
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


def _not_followed(vitals: Vitals) -> Iterator[Finding]:
    late = vitals.not_followed
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


def _dead_leases(vitals: Vitals) -> Iterator[Finding]:
    rows = vitals.dead_leases
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


def _abandoned(vitals: Vitals) -> Iterator[Finding]:
    holders = [replica for replica in vitals.replicas if replica.abandoned]
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


def _auto_paused(vitals: Vitals) -> Iterator[Finding]:
    rows = vitals.auto_paused.rows
    if rows:
        yield Finding(
            "schedule-auto-paused",
            FindingSeverity.WARNING,
            f"{number_of(vitals.auto_paused.number, 'schedule')} auto-paused after repeated "
            "failures",
            "see `tenantcron execution list --state DEAD`, fix the cause, then run `tenantcron "
            "schedule resume`",
            _names(rows),
            vitals.auto_paused.number,
        )


def _no_history(vitals: Vitals) -> Iterator[Finding]:
    missing = vitals.months_missing
    # Schedulers create the partitions. Without one, `no-replica` covers this.
    if missing and vitals.replicas:
        is_now = month_of(vitals.now) in missing
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


def _long_wait(vitals: Vitals) -> Iterator[Finding]:
    # Executions without a runner do not wait for a limit.
    unserved = sum(entry.number for entry in vitals.without_runner)
    if vitals.lag > LONG_WAIT and vitals.queue.number > unserved:
        yield Finding(
            "long-wait",
            FindingSeverity.WARNING,
            f"{number_of(vitals.queue.number, 'execution')} waiting for a slot, the oldest for "
            f"{format_duration(vitals.lag)}",
            "see `tenantcron limits`: raise the limits, or make handlers faster",
            count=vitals.queue.number,
        )


def _closed(vitals: Vitals) -> Iterator[Finding]:
    closed = [
        option
        for option, value in (
            ("--max-concurrent", vitals.limits.overall),
            ("--max-concurrent-per-tenant", vitals.limits.per_tenant),
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


def _webhook_behind(vitals: Vitals) -> Iterator[Finding]:
    enabled = {webhook.name for webhook in vitals.webhooks if webhook.disabled_at is None}
    behind = [
        backlog
        for backlog in vitals.backlogs
        if backlog.webhook in enabled and vitals.now - backlog.oldest > WEBHOOK_BEHIND
    ]
    if behind:
        worst = min(behind, key=lambda backlog: backlog.oldest)
        yield Finding(
            "webhook-behind",
            FindingSeverity.WARNING,
            f"{number_of(len(behind), 'webhook')} with undelivered events, the oldest for "
            f"{format_duration(vitals.now - worst.oldest)}"
            + (f": {worst.error}" if worst.error else ""),
            "see `tenantcron webhook list`, and check that the receiver answers `tenantcron "
            "webhook test` with 2xx; events are kept for outbox_retention",
            tuple(backlog.webhook for backlog in behind[:SHOWN]),
            len(behind),
        )


def _webhook_dropped(vitals: Vitals) -> Iterator[Finding]:
    losers = [
        webhook
        for webhook in vitals.webhooks
        if webhook.dropped_at is not None and vitals.now - webhook.dropped_at < LATELY
    ]
    if losers:
        yield Finding(
            "webhook-events-dropped",
            FindingSeverity.ERROR,
            f"events of {number_of(len(losers), 'webhook')} were dropped undelivered after "
            "outbox_retention",
            "fix the receiver, and list what it missed with `tenantcron execution list`",
            tuple(webhook.name for webhook in losers[:SHOWN]),
            len(losers),
        )


def _webhook_gone(vitals: Vitals) -> Iterator[Finding]:
    gone = [webhook for webhook in vitals.webhooks if webhook.disabled_reason == GONE]
    if gone:
        yield Finding(
            "webhook-gone",
            FindingSeverity.WARNING,
            f"{number_of(len(gone), 'webhook')} disabled after answering 410 Gone",
            "run `tenantcron webhook remove`, or `tenantcron webhook enable` once it is back",
            tuple(webhook.name for webhook in gone[:SHOWN]),
            len(gone),
        )


def _failover_losses(vitals: Vitals) -> Iterator[Finding]:
    found = vitals.failover_losses
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


def _no_signing(vitals: Vitals) -> Iterator[Finding]:
    if vitals.signing_fault is not None:
        yield Finding(
            "signing-key-unusable",
            FindingSeverity.ERROR,
            f"execution tokens cannot be signed: {vitals.signing_fault}",
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
    _failover_losses,
    _not_followed,
    _closed,
    _auto_paused,
    _long_wait,
    _abandoned,
    _webhook_dropped,
    _webhook_behind,
    _webhook_gone,
)


def _names(rows: Iterable[CursorRow]) -> tuple[str, ...]:
    return tuple(f"{row.tenant_id}/{row.schedule_name}" for row in rows)
