"""Compare the rows of a schedule with its expected occurrences. Values in, values out.

The audit computes the occurrences of the timetable up to the last one that the cursor has fired.
Exactly one row must have the time of each occurrence or cover it, from `covers_from` to
`scheduled_for`. Otherwise there is a finding:

- **lost**: no row covers the occurrence;
- **doubled**: two rows cover it;
- **unexpected**: a row is neither an occurrence nor a manual trigger.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, takewhile

from tenantcron.core.words import in_utc
from tenantcron.scheduler.inspect.audit_findings import AuditCode, AuditFinding
from tenantcron.schedules.timetable import zoned_timetable
from tenantcron.store.rows.executions import execution_id
from tenantcron.store.rows.recorded_occurrences import Recorded
from tenantcron.store.rows.schedule_cursors import CursorRow


def expected_occurrences(cursor: CursorRow, after: datetime) -> list[datetime]:
    """Return the occurrences that were fired according to the cursor."""
    last = cursor.last_run_at
    if last is None or last <= after:
        return []
    occurrences = zoned_timetable(cursor.cron_expr, cursor.timezone).upcoming(after)
    return list(takewhile(lambda time: time <= last, occurrences))


def compare_occurrences(
    cursor: CursorRow, expected: Sequence[datetime], after: datetime, rows: Sequence[Recorded]
) -> list[AuditFinding]:
    """Compare the rows of a schedule with its occurrences after a time."""
    own = [row for row in rows if _is_audited(row, cursor, after)]
    covers = _covers(expected, own)
    return [
        *_spans(cursor, expected, covers, AuditCode.LOST, lambda count: count == 0),
        *_spans(cursor, expected, covers, AuditCode.DOUBLED, lambda count: count > 1),
        *_unexpected(cursor, expected, own),
    ]


def _is_audited(row: Recorded, cursor: CursorRow, after: datetime) -> bool:
    # Ignore rows of a deleted schedule with the same name.
    if row.schedule_id != cursor.schedule_id or cursor.last_run_at is None:
        return False
    return after < row.scheduled_for <= cursor.last_run_at


def _covers(expected: Sequence[datetime], rows: Sequence[Recorded]) -> list[int]:
    """Return for each occurrence the number of rows that cover it."""
    steps = [0] * (len(expected) + 1)
    for row in rows:
        steps[bisect_left(expected, row.covers_from or row.scheduled_for)] += 1
        steps[bisect_right(expected, row.scheduled_for)] -= 1
    covers, number = [], 0
    for step in steps[:-1]:
        number += step
        covers.append(number)
    return covers


def _spans(
    cursor: CursorRow,
    expected: Sequence[datetime],
    covers: Sequence[int],
    code: AuditCode,
    is_wrong: Callable[[int], bool],
) -> Iterator[AuditFinding]:
    """Yield one finding per group of neighbouring occurrences with the same fault."""
    pairs = zip(expected, covers, strict=True)
    for wrong, neighbours in groupby(pairs, key=lambda pair: is_wrong(pair[1])):
        if not wrong:
            continue
        times = [time for time, _ in neighbours]
        words = {AuditCode.LOST: "no row covers", AuditCode.DOUBLED: "two rows cover"}
        yield AuditFinding(
            code,
            cursor.tenant_id,
            cursor.schedule_name,
            f"{words[code]} {_occurrences(times)}",
            times[0],
            times[-1],
            len(times),
        )


def _occurrences(times: Sequence[datetime]) -> str:
    if len(times) == 1:
        return f"the occurrence of {in_utc(times[0])}"
    return f"{len(times)} occurrences from {in_utc(times[0])} to {in_utc(times[-1])}"


def _is_unexpected(row: Recorded, expected: Sequence[datetime]) -> bool:
    place = bisect_left(expected, row.scheduled_for)
    is_occurrence = place < len(expected) and expected[place] == row.scheduled_for
    return not is_occurrence or row.id != execution_id(row.schedule_id, row.scheduled_for)


def _unexpected(
    cursor: CursorRow, expected: Sequence[datetime], rows: Sequence[Recorded]
) -> Iterator[AuditFinding]:
    """Yield one finding per group of neighbouring rows that are not occurrences."""
    timetable = f"of the timetable `{cursor.cron_expr}` in {cursor.timezone}"
    for wrong, neighbours in groupby(rows, key=lambda row: _is_unexpected(row, expected)):
        if not wrong:
            continue
        group = list(neighbours)
        first, last = group[0], group[-1]
        what = (
            f"execution {first.id} of {in_utc(first.scheduled_for)} is not an occurrence "
            f"{timetable}"
        )
        if len(group) > 1:
            others = f"nor are the {len(group) - 1} after it, up to {in_utc(last.scheduled_for)}"
            what = f"{what}, {others}"
        yield AuditFinding(
            AuditCode.UNEXPECTED,
            cursor.tenant_id,
            cursor.schedule_name,
            what,
            first.scheduled_for,
            last.scheduled_for,
            len(group),
        )
