"""Why a schedule did not run, as JSON; the keys are stable."""

from collections.abc import Sequence

from tenantcron.scheduler.inspect.schedule_status import ScheduleRef
from tenantcron.scheduler.inspect.why import Reason
from tenantcron.service.responses.shapes import WhyResponse


def why_as_json(ref: ScheduleRef, reasons: Sequence[Reason]) -> WhyResponse:
    """Return the reasons; the first one is the answer."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "answer": reasons[0].message,
        "findings": [
            {"code": reason.code, "message": reason.message, "hint": reason.hint}
            for reason in reasons
        ],
    }
