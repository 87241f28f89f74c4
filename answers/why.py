"""Why a schedule did not run, for programs; the keys are stable."""

from collections.abc import Sequence

from tenantcron.answers.shapes import ToldWhy
from tenantcron.scheduler.situation import ScheduleRef
from tenantcron.scheduler.why import Reason


def why_as_json(ref: ScheduleRef, reasons: Sequence[Reason]) -> ToldWhy:
    """Return the reasons; the first of them is the answer."""
    return {
        "tenant": ref.tenant,
        "schedule": ref.schedule,
        "answer": reasons[0].message,
        "findings": [
            {"code": one.code, "message": one.message, "hint": one.hint} for one in reasons
        ],
    }
