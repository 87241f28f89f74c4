"""What keeps an execution from starting, and where it runs; for schedules and tasks alike."""

from dataclasses import dataclass
from typing import Final

from tenantcron.core.requirements import described, limited_host
from tenantcron.core.words import in_utc
from tenantcron.scheduler.inspect.start_conditions import StartConditions, without_runner
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.steps.requirements import GRACE
from tenantcron.store.steps.suspects import ALONE


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason as a sentence, and the next step for the user."""

    code: str
    message: str
    hint: str


NO_REPLICA: Final = Reason(
    "no-replica",
    "No scheduler is running, so nothing fires or starts.",
    "Start one with `tenantcron run`.",
)


def runs(row: ExecutionRow, what: str) -> Reason:
    """Return where a running execution runs."""
    if row.is_remote and row.handed_over_at is not None:
        return _runs_remotely(row, what)
    since = f" since {in_utc(row.started_at)}" if row.started_at else ""
    return Reason(
        "running",
        f"{what} is running: execution {row.id}, attempt {row.attempt}{since} on {row.worker_id}.",
        f"Run `tenantcron execution cancel {row.id}` to stop it.",
    )


def _runs_remotely(row: ExecutionRow, what: str) -> Reason:
    last = row.heartbeat_at
    reported = f"its last report was at {in_utc(last)}" if last else "it has not reported yet"
    due = (
        f"; without a heartbeat it is lost at {in_utc(row.lease_until)}" if row.lease_until else ""
    )
    return Reason(
        "running",
        f"{what} is running: execution {row.id}, attempt {row.attempt} was handed over to a remote "
        f"worker at {in_utc(row.handed_over_at or row.created_at)}; {reported}{due}.",
        f"Run `tenantcron execution cancel {row.id}` to stop it. If no report arrives, check that "
        "the worker reaches the API at the setting callback_url.",
    )


def waits_for(
    row: ExecutionRow, status: StartConditions, what: str, before: ExecutionRow | None = None
) -> Reason:
    """Return what keeps an execution from starting now; `before` must end first."""
    if row.not_before > status.now:
        why = f"attempt {row.attempt} failed: {row.reason}" if row.attempt else "it is spread"
        return Reason(
            "waits-for-its-time",
            f"{what} starts at {in_utc(row.not_before)} at the earliest; {why}.",
            "It starts by itself.",
        )
    # Without replicas, `no-replica` covers this.
    replicas = status.replicas
    if row.requires and replicas and without_runner([row.requires], replicas):
        return _waits_for_runner(row, row.requires, what)
    if before is not None:
        return Reason(
            "waits-for-overlap",
            f"{what} waits for execution {before.id}, which is {before.state} and must end first.",
            f"Run `tenantcron execution cancel {before.id}` to end that execution.",
        )
    return _waits_for_room(row, status, what)


def _waits_for_room(row: ExecutionRow, status: StartConditions, what: str) -> Reason:
    full = _waits_for_limits(what, status)
    if full is not None:
        return full
    if row.suspicion:
        return _waits_as_suspect(row, what)
    limited = limited_host(row.requires or "")
    if limited is not None:
        return _waits_for_rate(row, limited[1], what)
    return Reason(
        "waits-for-claim",
        f"{what} may start.",
        "A running scheduler starts it within seconds.",
    )


def _waits_for_limits(what: str, status: StartConditions) -> Reason | None:
    """Return what keeps all executions of the cluster or of the tenant from starting."""
    if status.source is not None and status.source.is_stale(status.now):
        return Reason(
            "waits-for-tenant-source",
            f"{what} waits for the tenant source ({status.source.name}), which was last read at "
            f"{in_utc(status.source.refreshed_at)}. Nothing starts until it is read again.",
            "`tenantcron health` shows why it cannot be read.",
        )
    if status.running >= status.limits.overall:
        return Reason(
            "waits-for-cluster-limit",
            f"{what} waits for a slot: {status.running} of {status.limits.overall} "
            "executions of the cluster are running.",
            "Run `tenantcron limits --max-concurrent N` to raise the limit.",
        )
    limit, running = status.limit_of_tenant, status.running_of_tenant
    if running >= limit:
        return Reason(
            "waits-for-tenant-limit",
            f"{what} waits for a slot of its tenant: {running} of {limit} are running.",
            f"Run `tenantcron tenant set {status.tenant.id} --max-concurrent N` to raise the "
            "limit.",
        )
    if status.starts >= status.start_quota:
        return Reason(
            "waits-for-start-quota",
            f"{what} waits for the next minute: its tenant has started {status.starts} executions "
            f"in this one, and may start {status.start_quota}.",
            f"Run `tenantcron tenant set {status.tenant.id} --quota starts_per_minute=N` to raise "
            "the quota.",
        )
    free, kept = status.limits.overall - status.running, status.limits.kept
    if free <= kept and running >= status.tenant.weight:
        return Reason(
            "waits-for-kept-slots",
            f"{what} waits for a slot: {free} of {status.limits.overall} slots of the cluster "
            f"are free, but the last {kept} are reserved for tenants without running executions. "
            f"This tenant has {running}.",
            "Run `tenantcron limits --max-concurrent N` to raise the limit.",
        )
    return None


def _waits_for_rate(row: ExecutionRow, host: str, what: str) -> Reason:
    until = f", until {in_utc(row.start_deadline + GRACE)}" if row.start_deadline else ""
    return Reason(
        "waits-for-rate-limit",
        f"{what} waits for the rate limit of {host}{until}.",
        "It starts by itself: tenants take turns. `[policy.rate_limits]` in the schedulers' "
        "tenantcron.toml has the rate.",
    )


def _waits_for_runner(row: ExecutionRow, requires: str, what: str) -> Reason:
    until = f" until {in_utc(row.start_deadline)}" if row.start_deadline else ""
    return Reason(
        "waits-for-runner",
        f"{what} waits{until} for a replica that can run {described(requires)}. No live replica "
        "can.",
        "Start one with that handler (`tenantcron run --handlers MODULE`), or one that serves such "
        "targets (`--targets`). `tenantcron health` lists all sagas without a runner.",
    )


def _waits_as_suspect(row: ExecutionRow, what: str) -> Reason:
    turn = "to run alone" if row.suspicion >= ALONE else "to run beside a few other suspects"
    return Reason(
        "waits-as-suspect",
        f"{what} was lost with its worker and waits for its turn {turn}, because one of the lost "
        "executions may have killed the worker.",
        "A running scheduler starts it. Losses use up no attempts. "
        f"`tenantcron execution show {row.id}` shows the lost attempts.",
    )
