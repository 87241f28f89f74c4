"""Why a schedule did not run, for programs; the keys are stable."""

from collections.abc import Sequence

from tenantcron.scheduler.inspect.schedule_status import ScheduleRef
from tenantcron.scheduler.inspect.why import Reason
from tenantcron.service.responses.shapes import WhyResponse


def why_as_json(ref: ScheduleRef, reasons: Sequence[Reason]) -> WhyResponse:
    """Return the reasons; the first of them is the answer."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "answer": reasons[0].message,
        "findings": [
            {"code": one.code, "message": one.message, "hint": one.hint} for one in reasons
        ],
    }
