"""The computation of a cursor, from values alone."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from support.cursors import utc

from tenantcron.core.names import TenantId
from tenantcron.core.values import JsonValue
from tenantcron.provider.align import Circumstances, align, quarantine, rezone
from tenantcron.provider.protocol import ProvidedSchedule
from tenantcron.store.rows.schedule_cursors import CursorRow

APPLIED = utc(2026, 3, 2, 12)
NOW = utc(2026, 3, 10, 9, 30)
HERE = Circumstances("tenant", TenantId("acme"), NOW, "2026a")
NIGHTLY = ProvidedSchedule(
    schedule_id=UUID(int=1),
    schedule_name="nightly",
    saga_name="report",
    cron_expr="0 2 * * *",
    timezone="Europe/London",
    enabled=True,
    definition={"timeout": "5m"},
    effective_from=APPLIED,
)
# Fired last night, and due next night.
CURSOR = replace(
    align(NIGHTLY, None, HERE),
    last_run_at=utc(2026, 3, 10, 2),
    next_run_at=utc(2026, 3, 11, 2),
    consecutive_failures=4,
    paused_at=utc(2026, 3, 9),
    paused_by="maria",
    paused_reason="partner is down",
)


def after(provided: ProvidedSchedule, cursor: CursorRow | None = CURSOR) -> CursorRow:
    return align(provided, cursor, HERE)


@pytest.mark.parametrize(
    ("applied", "first"),
    [
        (utc(2026, 3, 2, 1, 59, 59), utc(2026, 3, 2, 2)),
        (utc(2026, 3, 2, 2), utc(2026, 3, 3, 2)),
        (utc(2026, 3, 2, 2, 0, 1), utc(2026, 3, 3, 2)),
    ],
)
def test_a_new_schedule_counts_from_its_apply_strictly(applied: datetime, first: datetime) -> None:
    assert after(NIGHTLY._replace(effective_from=applied), None).next_run_at == first


def test_a_new_schedule_has_no_past() -> None:
    row = after(NIGHTLY, None)

    assert (row.last_run_at, row.consecutive_failures, row.paused_at, row.fault) == (
        None,
        0,
        None,
        None,
    )
    assert (row.provider, row.tz_version, row.effective_from) == ("tenant", "2026a", APPLIED)


def test_a_schedule_without_a_start_time_counts_from_now() -> None:
    row = after(NIGHTLY._replace(effective_from=None), None)

    assert (row.next_run_at, row.effective_from) == (utc(2026, 3, 11, 2), NOW)


def test_a_tenant_that_was_deprovisioned_counts_from_its_return() -> None:
    returned = replace(HERE, returned_at=utc(2026, 3, 9, 12))

    assert align(NIGHTLY, None, returned).next_run_at == utc(2026, 3, 10, 2)


def test_an_unchanged_schedule_has_an_equal_cursor() -> None:
    assert after(NIGHTLY) == CURSOR


def test_an_edit_of_other_settings_keeps_the_state_of_the_cursor() -> None:
    row = after(NIGHTLY._replace(saga_name="other", definition={"timeout": "6m"}))

    assert row == replace(CURSOR, saga_name="other", definition_id=row.definition_id)
    assert row.definition_id != CURSOR.definition_id


EDITS = {
    "cron": {"cron_expr": "0 9 * * *"},
    "zone": {"timezone": "Asia/Kolkata", "cron_expr": "0 9 * * *"},
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_timetable_counts_from_the_apply_and_never_before(edit: str) -> None:
    applied = utc(2026, 3, 10, 9, 10)
    row = after(NIGHTLY._replace(effective_from=applied, **EDITS[edit]))  # type: ignore[arg-type] # the columns above

    assert row.next_run_at is not None
    assert applied < row.next_run_at <= applied + timedelta(days=1)
    assert (row.effective_from, row.last_run_at) == (applied, CURSOR.last_run_at)
    assert (row.paused_by, row.consecutive_failures) == ("maria", 4)


def test_occurrences_between_an_edit_and_the_refresh_are_due() -> None:
    edited = NIGHTLY._replace(cron_expr="0 9 * * *", effective_from=utc(2026, 3, 10, 8, 59))

    assert after(edited).next_run_at == utc(2026, 3, 10, 9)


def test_an_edit_never_fires_an_occurrence_again() -> None:
    fired = replace(CURSOR, last_run_at=utc(2026, 3, 10, 9))
    edited = NIGHTLY._replace(cron_expr="0 9 * * *", effective_from=utc(2026, 3, 10, 8, 59))

    assert after(edited, fired).next_run_at == utc(2026, 3, 11, 9)


@pytest.mark.parametrize("declared", [APPLIED, utc(2020, 1, 1)])
def test_a_manual_edit_counts_from_now(declared: datetime) -> None:
    edited = NIGHTLY._replace(cron_expr="0 9 * * *", effective_from=declared)

    assert after(edited).next_run_at == utc(2026, 3, 11, 9)


def test_a_start_time_set_back_manually_fires_no_past_occurrence() -> None:
    row = after(NIGHTLY._replace(effective_from=utc(2020, 1, 1)))

    assert row.next_run_at == CURSOR.next_run_at


def test_a_timetable_changed_and_reverted_counts_from_the_revert() -> None:
    overdue = replace(CURSOR, next_run_at=utc(2026, 3, 9, 2), last_run_at=None)
    row = after(NIGHTLY._replace(effective_from=utc(2026, 3, 10, 9)), overdue)

    assert row.next_run_at == utc(2026, 3, 11, 2)


def test_a_disabled_schedule_has_no_next_occurrence_and_counts_from_when_it_is_enabled() -> None:
    off = after(NIGHTLY._replace(enabled=False, effective_from=utc(2026, 3, 10, 4)))
    on = after(NIGHTLY._replace(effective_from=utc(2026, 3, 10, 9)), off)

    assert (off.next_run_at, off.enabled, off.fault) == (None, False, None)
    assert (on.next_run_at, on.last_run_at) == (utc(2026, 3, 11, 2), CURSOR.last_run_at)


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "@at 2026-01-01T00:00:00Z"])
def test_a_timetable_without_future_occurrences_has_no_next_one(cron: str) -> None:
    row = after(NIGHTLY._replace(cron_expr=cron), None)

    assert (row.next_run_at, row.fault) == (None, None)


BROKEN: dict[str, tuple[dict[str, JsonValue], str]] = {
    "cron": ({"cron_expr": "61 * * * *"}, "cron_expr: "),
    "zone": ({"timezone": "Mars/Base"}, "timezone: unknown time zone 'Mars/Base'"),
    "definition": ({"definition": [1]}, "the definition is not an object"),
    "null": ({"definition": None}, "the definition is not an object"),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("before", [None, CURSOR], ids=["new", "known"])
def test_an_invalid_schedule_has_a_fault_and_counts_from_when_it_is_fixed(
    what: str, before: CursorRow | None
) -> None:
    edit, words = BROKEN[what]
    broken = after(NIGHTLY._replace(**edit), before)  # type: ignore[arg-type] # the columns above
    mended = after(NIGHTLY, broken)

    assert broken.fault is not None
    assert broken.fault.startswith(words)
    assert broken.next_run_at is None
    assert after(NIGHTLY._replace(**edit), broken) == broken  # type: ignore[arg-type] # as above
    assert (mended.fault, mended.next_run_at) == (None, utc(2026, 3, 11, 2))


def test_the_cursors_of_an_unreadable_tenant_are_quarantined() -> None:
    overdue = replace(CURSOR, next_run_at=utc(2026, 3, 9, 2))
    held = quarantine(overdue)

    assert held == replace(overdue, fault="the tenant's schedules cannot be read")
    assert quarantine(held) == held
    assert after(NIGHTLY, held) == overdue, "what was missed is the catch-up's business"


def test_a_fault_of_the_fire_step_stays_until_the_schedule_changes() -> None:
    held = replace(CURSOR, fault="overlap: unknown")
    mended = after(NIGHTLY._replace(definition={"overlap": "skip"}), held)

    assert after(NIGHTLY, held) == held
    assert (mended.fault, mended.next_run_at) == (None, CURSOR.next_run_at)


def test_new_zones_recompute_the_next_occurrence() -> None:
    row = rezone(replace(CURSOR, next_run_at=utc(2026, 3, 11, 3)), NOW, "2026b")

    placed = utc(2026, 3, 11, 2)
    assert row == replace(CURSOR, next_run_at=placed, tz_version="2026b", counts_after=NOW)


def test_new_zones_with_the_same_result_change_only_the_version() -> None:
    placed = replace(CURSOR, next_run_at=utc(2026, 3, 11, 2))

    assert rezone(placed, NOW, "2026b") == replace(placed, tz_version="2026b")


def test_an_unchanged_cursor_keeps_its_zone_version() -> None:
    later = replace(HERE, tz_version="2026b")

    assert align(NIGHTLY, CURSOR, later).tz_version == "2026a"
