"""Health: what is wrong with the whole, each finding with what to do about it.

`examine` judges the vitals: values in, values out. An error is work that is not done, a warning
work that may not be done soon.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from tenantcron.core.durations import format_duration
from tenantcron.core.errors import TenantcronError
from tenantcron.core.words import number_of
from tenantcron.scheduler.inspect.cluster_status import LATELY, NOT_FOLLOWED, SHOWN, Vitals
from tenantcron.scheduler.inspect.findings import Finding, Severity
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
    """Return what is wrong, errors first."""
    found = [finding for check in _CHECKS for finding in check(vitals)]
    return sorted(found, key=lambda one: list(Severity).index(one.severity))


def _no_replica(vitals: Vitals) -> Iterator[Finding]:
    if vitals.replicas or not vitals.has_schedules:
        return
    silent = format_duration(LEASES_TO_BE_GONE * vitals.lease)
    yield Finding(
        "no-replica",
        Severity.ERROR,
        f"there are schedules, and no scheduler was heard of for {silent}: nothing fires",
        "start one with `tenantcron run`; if one runs, look at its log and its database",
    )


def _no_runner(vitals: Vitals) -> Iterator[Finding]:
    waiting = vitals.without_runner
    if not waiting:
        return
    number = sum(one.number for one in waiting)
    sagas = tuple(dict.fromkeys(one.saga for one in waiting))
    longest = format_duration(max(vitals.now - min(one.oldest for one in waiting), timedelta()))
    yield Finding(
        "no-runner",
        Severity.ERROR,
        f"no live replica can run {number_of(len(sagas), 'saga')}, and "
        f"{number_of(number, 'execution')} of {'it' if len(sagas) == 1 else 'them'} "
        f"cannot start, one for {longest}",
        "start a replica with the handler (`tenantcron run --handlers`) or that serves such "
        "targets (`--targets`); executions with a start deadline are SKIPPED after it",
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
        Severity.ERROR if stopped else Severity.WARNING,
        f"{number_of(vitals.overdue.number, 'schedule')} should have fired and did not, one "
        f"{late} ago" + (", twice its interval or more" if stopped else ""),
        "see that a scheduler runs and can write; its log tells what the step `fire` meets",
        _names(rows),
        vitals.overdue.number,
    )


def _missed_twice(row: CursorRow, now: datetime) -> bool:
    """Whether it has not fired in twice its interval, as far as that can be told."""
    if row.next_run_at is None:
        return False
    try:
        after = zoned_timetable(row.cron_expr, row.timezone).next_after(row.next_run_at)
    except TenantcronError:
        return True
    return after is None or now - row.next_run_at > _INTERVALS * (after - row.next_run_at)


def _set_aside(vitals: Vitals) -> Iterator[Finding]:
    rows = vitals.set_aside.rows
    if rows:
        yield Finding(
            "cursor-set-aside",
            Severity.ERROR,
            f"{number_of(vitals.set_aside.number, 'schedule')} cannot be evaluated, and so cannot "
            f"fire; the first: {rows[0].fault}",
            "apply the tenant's manifest again, which puts right what a hand has changed; if that "
            "changes nothing, change a word of the schedule's description, too",
            _names(rows),
            vitals.set_aside.number,
        )


def _left_out(vitals: Vitals) -> Iterator[Finding]:
    rows, number = vitals.left_out.rows, vitals.left_out.number
    if rows:
        yield Finding(
            "tenant-left-out",
            Severity.ERROR,
            f"{number_of(number, 'tenant')} cannot be followed in full; the first: {rows[0].fault}",
            "mend what it names, with `tenantcron migrate` if a table is missing; the scheduler "
            "tries again every minute",
            tuple(row.tenant_id for row in rows),
            number,
        )


def _not_followed(vitals: Vitals) -> Iterator[Finding]:
    late = vitals.not_followed
    if late.rows:
        yield Finding(
            "tenant-not-followed",
            Severity.WARNING,
            f"the schedules of {number_of(late.number, 'tenant')} have changed, and no scheduler "
            f"has followed for more than {format_duration(NOT_FOLLOWED)}",
            "see that a scheduler runs; its log tells what the step `refresh` meets",
            tuple(row.tenant_id for row in late.rows),
            late.number,
        )


def _dead_leases(vitals: Vitals) -> Iterator[Finding]:
    rows = vitals.dead_leases
    if rows:
        yield Finding(
            "lease-expired",
            Severity.ERROR,
            "executions run by their rows, but their workers have been silent for more than two "
            "leases and nobody has taken them over: they hold slots",
            "a running scheduler recovers them within a quarter of a lease: see that one runs",
            tuple(str(row.id) for row in rows),
            len(rows),
        )


def _abandoned(vitals: Vitals) -> Iterator[Finding]:
    holders = [one for one in vitals.replicas if one.abandoned]
    if holders:
        number = sum(one.abandoned for one in holders)
        yield Finding(
            "handlers-abandoned",
            Severity.WARNING,
            f"{number_of(number, 'handler')} run on in threads after their time was up, outside of "
            "all limits",
            "have such handlers look at `execution.cancelled`; restarting the replica ends them",
            tuple(one.id for one in holders[:SHOWN]),
            number,
        )


def _auto_paused(vitals: Vitals) -> Iterator[Finding]:
    rows = vitals.auto_paused.rows
    if rows:
        yield Finding(
            "schedule-auto-paused",
            Severity.WARNING,
            f"{number_of(vitals.auto_paused.number, 'schedule')} failed too often in a row and got "
            "paused",
            "see `tenantcron execution list --state DEAD`, mend the cause, then `tenantcron "
            "schedule resume`",
            _names(rows),
            vitals.auto_paused.number,
        )


def _no_history(vitals: Vitals) -> Iterator[Finding]:
    missing = vitals.months_missing
    # Without a scheduler nobody has made them yet, and `no-replica` says all.
    if missing and vitals.replicas:
        is_now = month_of(vitals.now) in missing
        yield Finding(
            "history-missing",
            Severity.ERROR if is_now else Severity.WARNING,
            "executions of "
            + " and ".join(f"{one.start:%Y-%m}" for one in missing)
            + (" cannot be written: nothing fires" if is_now else " could not be written"),
            "a scheduler makes months ahead by itself: see that one runs and may create tables",
            tuple(f"{one.start:%Y-%m}" for one in missing),
            len(missing),
        )


def _long_wait(vitals: Vitals) -> Iterator[Finding]:
    # No limit is in the way of what has no runner.
    unserved = sum(one.number for one in vitals.without_runner)
    if vitals.lag > LONG_WAIT and vitals.queue.number > unserved:
        yield Finding(
            "long-wait",
            Severity.WARNING,
            f"{number_of(vitals.queue.number, 'execution')} may start and wait, one for "
            f"{format_duration(vitals.lag)}",
            "see `tenantcron limits`: raise them, or give handlers less to do",
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
            Severity.WARNING,
            f"an operator has set {' and '.join(closed)} to 0: nothing starts",
            f"`tenantcron limits {closed[0]} default` lets executions start again",
            tuple(closed),
            len(closed),
        )


def _webhook_behind(vitals: Vitals) -> Iterator[Finding]:
    on = {one.name for one in vitals.webhooks if one.disabled_at is None}
    behind = [
        one
        for one in vitals.backlogs
        if one.webhook in on and vitals.now - one.oldest > WEBHOOK_BEHIND
    ]
    if behind:
        worst = min(behind, key=lambda one: one.oldest)
        yield Finding(
            "webhook-behind",
            Severity.WARNING,
            f"{number_of(len(behind), 'webhook')} did not take events that wait, one for "
            f"{format_duration(vitals.now - worst.oldest)}"
            + (f": {worst.error}" if worst.error else ""),
            "see `tenantcron webhook list`, and that the receiver answers 2xx to `tenantcron "
            "webhook test`; events are kept for outbox_retention",
            tuple(one.webhook for one in behind[:SHOWN]),
            len(behind),
        )


def _webhook_dropped(vitals: Vitals) -> Iterator[Finding]:
    losers = [
        one
        for one in vitals.webhooks
        if one.dropped_at is not None and vitals.now - one.dropped_at < LATELY
    ]
    if losers:
        yield Finding(
            "webhook-events-dropped",
            Severity.ERROR,
            f"events waited longer than outbox_retention, and {number_of(len(losers), 'webhook')} "
            "will never be told of them",
            "mend the receiver, and read what it missed with `tenantcron execution list`",
            tuple(one.name for one in losers[:SHOWN]),
            len(losers),
        )


def _webhook_gone(vitals: Vitals) -> Iterator[Finding]:
    gone = [one for one in vitals.webhooks if one.disabled_reason == GONE]
    if gone:
        yield Finding(
            "webhook-gone",
            Severity.WARNING,
            f"{number_of(len(gone), 'webhook')} answered 410 Gone and got switched off",
            "`tenantcron webhook remove` it, or `tenantcron webhook enable` it once it is back",
            tuple(one.name for one in gone[:SHOWN]),
            len(gone),
        )


def _failover_losses(vitals: Vitals) -> Iterator[Finding]:
    found = vitals.failover_losses
    if found.rows:
        yield Finding(
            "failover-results-lost",
            Severity.WARNING,
            f"{number_of(found.number, 'execution')} may have run twice: their starts or results "
            f"were lost in the failover to timeline {found.rows[0].timeline}",
            "list them with `tenantcron audit`; check what they did if their targets ignore the "
            "Idempotency-Key",
            tuple(str(row.execution_id) for row in found.rows),
            found.number,
        )


def _no_signing(vitals: Vitals) -> Iterator[Finding]:
    if vitals.signing_fault is not None:
        yield Finding(
            "signing-key-unusable",
            Severity.ERROR,
            f"no execution can get a token: {vitals.signing_fault}",
            "mend the settings of keys, the same for every scheduler; see docs/identity.md",
        )


_CHECKS = (
    _no_replica,
    _no_runner,
    source_findings,
    _no_signing,
    _no_history,
    _overdue,
    _set_aside,
    _left_out,
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
