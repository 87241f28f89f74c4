"""Bulk operations as JSON; the keys are stable."""

from collections.abc import Sequence
from typing import Final

from tenantcron.scheduler.operate.bulk import ExecutionBatch, ScheduleBatch
from tenantcron.service.responses.bulk_shapes import (
    BulkExecutionsResponse,
    BulkGroupResponse,
    BulkSchedulesResponse,
)
from tenantcron.service.responses.executions import as_json
from tenantcron.service.responses.outcomes import pause_as_json
from tenantcron.store.rows.bulk_executions import SagaCount
from tenantcron.store.rows.execution_history import ExecutionRow
from tenantcron.store.rows.schedule_cursors import CursorRow

# The largest number of groups in a preview.
_MOST_GROUPS: Final = 100


def executions_as_json(batch: ExecutionBatch, following: str | None) -> BulkExecutionsResponse:
    """Return the result of a batch of executions."""
    return {
        "changed": batch.changed,
        "refused": [
            {
                "execution": str(refused.row.id),
                "tenant": refused.row.tenant_id,
                "schedule": refused.row.schedule_name,
                "detail": refused.detail,
            }
            for refused in batch.refused
        ],
        "skipped": batch.skipped,
        "next": following,
        "preview": None,
    }


def execution_preview_as_json(
    counts: Sequence[SagaCount], first: Sequence[ExecutionRow], most: int
) -> BulkExecutionsResponse:
    """Return the result of a dry run."""
    matched = _matched(counts)
    return {
        "changed": 0,
        "refused": [],
        "skipped": 0,
        "next": None,
        "preview": {
            "matched": matched,
            "complete": matched < most,
            "groups": _groups(counts),
            "executions": [as_json(row) for row in first],
        },
    }


def schedules_as_json(batch: ScheduleBatch, following: str | None) -> BulkSchedulesResponse:
    """Return the result of a batch of schedules."""
    return {
        "changed": batch.changed,
        "skipped": batch.skipped,
        "ended": batch.ended,
        "passed_over": batch.skipped_occurrences,
        "next": following,
        "preview": None,
    }


def schedule_preview_as_json(
    counts: Sequence[SagaCount], first: Sequence[CursorRow], most: int
) -> BulkSchedulesResponse:
    """Return the result of a dry run."""
    matched = _matched(counts)
    return {
        "changed": 0,
        "skipped": 0,
        "ended": 0,
        "passed_over": 0,
        "next": None,
        "preview": {
            "matched": matched,
            "complete": matched < most,
            "groups": _groups(counts),
            "schedules": [
                {
                    "tenant": row.tenant_id,
                    "schedule": row.schedule_name,
                    "saga": row.saga_name,
                    "paused": pause_as_json(row.pause),
                }
                for row in first
            ],
        },
    }


def _matched(counts: Sequence[SagaCount]) -> int:
    return sum(count.number for count in counts)


def _groups(counts: Sequence[SagaCount]) -> list[BulkGroupResponse]:
    return [
        {"tenant": count.tenant, "saga": count.saga, "number": count.number}
        for count in counts[:_MOST_GROUPS]
    ]
