"""Health findings about locked tables, if nothing else can be read."""

from collections.abc import Sequence
from datetime import timedelta

from tenantcron.core.durations import format_duration
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.store.connection.lock_waits import HeldLock

_CODE = "table-locked"
_HINT = (
    "wait for that transaction to end, or terminate it: SELECT pg_terminate_backend({pid}); "
    "until then nothing fires or starts"
)


def locked_findings(locks: Sequence[HeldLock]) -> list[Finding]:
    """Return a finding for each session that locks control tables."""
    by_session: dict[int, list[HeldLock]] = {}
    for lock in locks:
        by_session.setdefault(lock.pid, []).append(lock)
    found = [_finding(held) for held in by_session.values()]
    return found or [_unknown()]


def _finding(held: Sequence[HeldLock]) -> Finding:
    first, tables = held[0], [f"tenantcron.{lock.table}" for lock in held]
    holds = "is locked by" if first.granted else "has an exclusive lock requested by"
    age = "" if first.age is None else f", in a transaction of {_age(first.age)}"
    message = f"{tables[0]} {holds} {first.session}{age}"
    hint = _HINT.format(pid=first.pid)
    return Finding(_CODE, FindingSeverity.ERROR, message, hint, tuple(tables), len(tables))


def _unknown() -> Finding:
    message = "a control table was locked for more than 2 s, and is now unlocked"
    return Finding(_CODE, FindingSeverity.ERROR, message, "run the command again")


def _age(seconds: float) -> str:
    return format_duration(timedelta(seconds=round(seconds)))
