"""Why a schedule or a task did not run, as JSON; the keys are stable."""

from collections.abc import Sequence

from tenantcron.core.schedule_refs import ScheduleRef
from tenantcron.scheduler.inspect.why_waiting import Reason
from tenantcron.service.responses.shapes import FindingResponse, WhyResponse
from tenantcron.service.responses.task_shapes import TaskWhyResponse
from tenantcron.store.rows.tasks import TaskRow


def why_as_json(ref: ScheduleRef, reasons: Sequence[Reason]) -> WhyResponse:
    """Return the reasons; the first one is the answer."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "answer": reasons[0].message,
        "findings": _findings(reasons),
    }


def task_why_as_json(task: TaskRow, reasons: Sequence[Reason]) -> TaskWhyResponse:
    """Return the reasons; the first one is the answer."""
    return {
        "tenant": task.tenant_id,
        "task": str(task.id),
        "answer": reasons[0].message,
        "findings": _findings(reasons),
    }


def _findings(reasons: Sequence[Reason]) -> list[FindingResponse]:
    return [
        {"code": reason.code, "message": reason.message, "hint": reason.hint} for reason in reasons
    ]
