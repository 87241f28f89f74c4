"""The tables that a statement of the product touches: enough to know which steps commute.

Two steps commute if neither can see or block the other. Then an order with both swapped ends in the
same state, and one of the two orders is enough. The rules err on the side of "they do not commute":

- A statement that only changes its own session (`SET LOCAL`, `set_config`) commutes with
  everything, and so does `pg_notify`, which Postgres sends at COMMIT.
- Plain reads commute with each other.
- Everything else is a write, and so is a locking read. A write commutes with a step that names none
  of its tables. A table includes those that it references, because a foreign key locks them.
- `take_lock` and `try_lock` lock a row, read the workers, and may take an advisory lock.
- `submit_tasks` writes tasks, executions and counts, and reads their tenant and its quotas.
- Triggers only append, to their own tables. A read of such a table commutes with no write.
- A COMMIT commutes only if its transaction has neither written nor locked anything.
"""

import re
from dataclasses import dataclass

COMMIT = "COMMIT"

_LOCAL = re.compile(
    r"\s*(SET LOCAL\b|SELECT (pg_catalog\.)?(set_config|pg_notify)\()", re.IGNORECASE
)
_PLAIN_READ = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
_EFFECT = re.compile(
    r"\b(INSERT|UPDATE|DELETE|MERGE)\b|\bFOR (SHARE|KEY SHARE)\b"
    r"|\b(pg_advisory|nextval|setval|take_lock|try_lock|submit_tasks)",
    re.IGNORECASE,
)
_TABLE = re.compile(r"\b(tenantcron|tenant_\w+)\.(\w+)")
# The partitions of a table count as the table.
_EXECUTION = re.compile(r"execution(_live|_past\w*|_\d\w*)?")
# Tables that foreign keys lock, by table.
REFERENCES = {
    "manifest_version": {"tenant"},
    "schedule_cursor": {"tenant"},
    "tenant_schedule": {"manifest_version", "tenant"},
}
# Every write may append to these, through triggers.
_APPENDED = frozenset(
    {"audit_record", "schedule_change", "identity", "outbox", "event_lane", "event"}
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The tables that a step names, and whether it can change or lock anything."""

    tables: frozenset[str]
    writes: bool
    # The end of a transaction: its writes become visible, its locks are released.
    publishes: bool = False


NOTHING = Footprint(frozenset(), writes=False)


def is_local(statement: str) -> bool:
    """Whether a statement only changes the session that sends it."""
    return _LOCAL.match(statement) is not None


def footprint(statement: str) -> Footprint:
    """Return what a statement touches."""
    names = (match.group(2) for match in _TABLE.finditer(statement))
    tables = {"execution" if _EXECUTION.fullmatch(name) else name for name in names}
    if "pg_advisory" in statement:
        tables.add("advisory lock")
    if "submit_tasks" in statement:
        tables |= {"task", "execution", "tenant", "limits", "tenant_pending", "worker"}
    if "take_lock" in statement or "try_lock" in statement:
        tables |= {"lock", "worker", "advisory lock"}
    is_plain = _PLAIN_READ.match(statement) and not _EFFECT.search(statement)
    for table in tuple(tables):
        tables |= REFERENCES.get(table, set())
    return Footprint(frozenset(tables), writes=not is_plain)


def commute(first: Footprint, second: Footprint) -> bool:
    """Whether both orders of two steps of different sessions lead to the same state."""
    if NOTHING in (first, second) or not (first.writes or second.writes):
        return True
    if first.publishes or second.publishes or first.tables & second.tables:
        return False
    reads = [step for step in (first, second) if not step.writes]
    return not any(step.tables & _APPENDED for step in reads)
