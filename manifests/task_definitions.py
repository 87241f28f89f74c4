"""Check what a client submits with a task, with the rules and the policy of manifests.

A task has the settings of a schedule that concern a single execution. So it is checked as the saga
of a manifest whose timetable does not matter: the same structure, the same limits, and the same
egress rules for its target. Faults point to the fields of the submission.

The payload is not checked here. It is data, not configuration: its placeholders are not replaced,
and it may contain anything that can be stored.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tenantcron.core.names import TenantId
from tenantcron.core.targets import Target
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.rules import RULES, Severity
from tenantcron.manifests.language.structure import check_structure, unusable
from tenantcron.manifests.language.timetable_rules import TimetableRules
from tenantcron.manifests.language.timing import TimingReader
from tenantcron.manifests.normalise import normalise
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.view import View
from tenantcron.schedules.settings import ScheduleSettings

# The settings of a schedule that a task has as well.
SETTINGS_OF_TASKS: Final = ("priority", "timeout", "retry", "owner")
_SAGA: Final[Pointer] = ("sagas", 0)
_TIMING: Final[Pointer] = (*_SAGA, "trigger", "scheduled")
# The limit of schedules does not concern tasks.
_NOT_OF_TASKS: Final = frozenset({"TC302", "TC309"})
_ANY_TIMETABLE: Final = "0 0 * * *"
_ANY_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
_NO_INTERVAL: Final = timedelta(0)


class TaskDefinition(NamedTuple):
    """The settings of a task with their defaults, and its target if no Python handler runs it."""

    settings: ScheduleSettings
    target: Target | None


class CheckedTask(NamedTuple):
    """The definition of a task, or None and what is wrong with it."""

    definition: TaskDefinition | None
    faults: tuple[Fault, ...]


def saga_of(options: JsonObject) -> JsonValue:
    """Return the saga of a submission: the kind of its target if it names none."""
    saga, target = options.get("saga"), options.get("target")
    return next(iter(target), None) if saga is None and isinstance(target, dict) else saga


def check_task(tenant: TenantId, options: JsonObject, policy: Policy) -> CheckedTask:
    """Check the fields `saga`, `target` and `SETTINGS_OF_TASKS` of a submission."""
    if saga_of(options) is None:
        return CheckedTask(None, (Fault("TC102", "`saga` or `target` is missing", ("saga",)),))
    document = _manifest(tenant, options)
    faults: list[Fault] = check_structure("manifest", document)
    view = View(document, (), unusable(faults))
    reader = TimingReader(TimetableRules(_NO_INTERVAL, _ANY_TIME), policy.max_timeout, faults)
    schedules = normalise(view, tenant, policy, reader)
    errors = tuple(_of_submission(fault) for fault in faults if _is_relevant(fault))
    if errors or not schedules:
        return CheckedTask(None, errors)
    (schedule,) = schedules
    return CheckedTask(TaskDefinition(schedule.timing.settings, schedule.target), ())


def _manifest(tenant: TenantId, options: JsonObject) -> JsonObject:
    scheduled: JsonObject = {"name": "task", "cron": _ANY_TIMETABLE}
    scheduled |= {key: options[key] for key in SETTINGS_OF_TASKS if key in options}
    trigger: JsonObject = {"scheduled": scheduled}
    saga: JsonObject = {"name": saga_of(options), "trigger": trigger}
    if options.get("target") is not None:
        saga["target"] = options["target"]
    sagas: list[JsonValue] = [saga]
    return {"version": "1.0", "tenant": tenant, "sagas": sagas}


def _is_relevant(fault: Fault) -> bool:
    return fault.code not in _NOT_OF_TASKS and RULES[fault.code].severity is Severity.ERROR


def _of_submission(fault: Fault) -> Fault:
    return fault._replace(pointer=_field(fault.pointer))


def _field(pointer: Pointer) -> Pointer:
    """Return the field of the submission of a place in the manifest."""
    if pointer[: len(_TIMING)] == _TIMING:
        return pointer[len(_TIMING) :]
    inner = pointer[len(_SAGA) :] if pointer[: len(_SAGA)] == _SAGA else ()
    return ("saga", *inner[1:]) if inner[:1] == ("name",) else inner
