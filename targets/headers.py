"""The headers of an attempt, which all kinds of targets send: as HTTP headers or as metadata."""

from datetime import UTC, datetime
from typing import Final

from tenantcron.targets.execution import Execution

FENCE: Final = "X-Tenantcron-Fence"


def attempt_headers(execution: Execution, key: str) -> dict[str, str]:
    """Return the idempotency key, the fence, and what identifies the attempt."""
    return {
        "Idempotency-Key": key,
        FENCE: str(execution.fence),
        "X-Tenantcron-Execution": str(execution.id),
        "X-Tenantcron-Tenant": execution.tenant_id,
        "X-Tenantcron-Schedule": execution.schedule_name,
        "X-Tenantcron-Saga": execution.saga_name,
        "X-Tenantcron-Scheduled-For": utc(execution.scheduled_for),
        "X-Tenantcron-Attempt": str(execution.attempt),
        **({"X-Tenantcron-Owner": execution.owner} if execution.owner else {}),
    }


def utc(moment: datetime) -> str:
    """Format a time in UTC."""
    return moment.astimezone(UTC).isoformat()
