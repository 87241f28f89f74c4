"""Turn the data of a manifest into the desired schedules: resolve names, fill in defaults."""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from tenantcron.core.names import Owner, SagaName, ScheduleName, TenantId
from tenantcron.core.words import allowed, number_of
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.size import check_size
from tenantcron.manifests.language.target_views import read_target
from tenantcron.manifests.language.targets import check_retention, check_target
from tenantcron.manifests.language.timing import FORMS, NamedTimings, TimingReader
from tenantcron.manifests.language.trigger import OURS, ShortTrigger, read_short_trigger
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.view import View
from tenantcron.schedules.schedule import DesiredSchedule, Timing
from tenantcron.schedules.settings import SETTINGS

# A saga may have these keys for another tool.
_OF_OTHER_TOOLS = frozenset({"description", "timeout", "retry", "priority", "owner", "payload"})
_ONLY_OF_SCHEDULES = frozenset({*FORMS, "timezone", *SETTINGS}) - _OF_OTHER_TOOLS
# Up to this many schedules over the cap, all mistakes are reported; beyond, only the number.
_EXCESS_CHECKED = 100


class _Declared(NamedTuple):
    """A schedule as a saga declares it; without a timing if that is invalid."""

    saga: View
    name: str | None
    timing: Timing | None
    at: Pointer
    refers_to: str | None
    # Declared as `scheduled:<name>`, with the name of a timetable.
    is_reference: bool = False


class _Cap(NamedTuple):
    """How many schedules the tenant may have."""

    number: int
    tenant: TenantId | None

    def exceeded(self, places: list[Pointer]) -> Fault:
        """Return the fault of so many schedules, at the first one that is too many."""
        excess = number_of(len(places) - self.number, "schedule")
        has = number_of(len(places), "schedule")
        message = f"the tenant has {has}, {allowed(self.number)}"
        hint = (
            f"remove {excess}, or have the platform team write `max_schedules = {len(places)}` in "
            f"[policy.tenants.{self.tenant or '<tenant>'}]; a limit from `tenant set "
            "--max-schedules` is in the database: plan and apply use it, validate cannot"
        )
        return Fault("TC302", message, places[self.number], hint)


def normalise(
    manifest: View, tenant: TenantId | None, platform: Policy, reader: TimingReader
) -> tuple[DesiredSchedule, ...]:
    """Return the valid schedules of a manifest by name; add faults to the reader's list."""
    sagas = manifest.get("sagas")
    views = list(sagas.items()) if sagas else []
    policy = platform.for_tenant(tenant)
    cap = _Cap(policy.max_schedules_per_tenant, tenant)
    if (excess := _far_too_many(views, cap)) is not None:
        reader.faults.append(excess)
        return ()
    own = _own_timings(manifest.get("schedules"), policy, reader)
    named = {**policy.presets, **own}
    found = (_declared(saga, named, reader) for saga in views)
    declared = list(_unshared_names(schedule for schedule in found if schedule is not None))
    reader.faults.extend(_misplaced_settings(declared))
    reader.faults.extend(_repeated_sagas(views))
    reader.faults.extend(_repeated_schedules(declared))
    reader.faults.extend(_unused(own, declared))
    reader.faults.extend(_too_many(declared, cap))
    for saga in views:
        reader.faults.extend(check_target(saga, policy))
    desired = [(_desired(entry, policy, reader), entry.at) for entry in declared]
    placed = [(schedule, at) for schedule, at in desired if schedule is not None]
    reader.faults.extend(check_size(placed, policy))
    most = policy.quotas.value("schedules_per_owner", tenant)
    reader.faults.extend(_too_many_of_owner(placed, most, tenant))
    return tuple(sorted((schedule for schedule, _ in placed), key=attrgetter("name")))


def _own_timings(view: View | None, policy: Policy, reader: TimingReader) -> NamedTimings:
    entries = view.entries() if view else ()
    return {name: reader.read(timing, policy.presets) for name, timing in entries}


def _declared(saga: View, named: NamedTimings, reader: TimingReader) -> _Declared | None:
    """Return the schedule that a saga declares, None for another tool's or an invalid one."""
    trigger = saga.get("trigger")
    if trigger is None:
        return None
    if isinstance(trigger.value, str):
        return _declared_in_one_line(saga, trigger, named, reader)
    scheduled = trigger.get("scheduled")
    if scheduled is None:
        return None
    return _Declared(
        saga=saga,
        name=scheduled.text("name") or saga.text("name"),
        timing=reader.read(scheduled, named),
        at=(*scheduled.pointer, "name") if scheduled.get("name") else scheduled.pointer,
        refers_to=scheduled.text("preset"),
    )


def _declared_in_one_line(
    saga: View, trigger: View, named: NamedTimings, reader: TimingReader
) -> _Declared | None:
    line = read_short_trigger(str(trigger.value), trigger.pointer, saga.text("name"))
    if isinstance(line, Fault):
        reader.faults.append(line)
    if not isinstance(line, ShortTrigger):
        return None
    if line.cron is None:
        timing = reader.find(line.name, named, trigger.pointer)
    else:
        timing = reader.expression(line.cron, trigger.pointer)
    is_reference = line.cron is None
    refers_to = line.name if is_reference else None
    return _Declared(saga, line.name, timing, trigger.pointer, refers_to, is_reference)


def _unshared_names(declared: Iterable[_Declared]) -> Iterator[_Declared]:
    """Name schedules after their sagas if a saga before them refers to the same timetable.

    The first one keeps the name of the timetable: a new saga below it must not end its pause.
    """
    taken: set[str | None] = set()
    for schedule in declared:
        if schedule.is_reference and schedule.name in taken:
            yield schedule._replace(name=schedule.saga.text("name"))
        else:
            yield schedule
        if schedule.is_reference:
            taken.add(schedule.name)


def _desired(declared: _Declared, policy: Policy, reader: TimingReader) -> DesiredSchedule | None:
    saga = declared.saga.text("name")
    if not (saga and declared.name and declared.timing):
        return None
    schedule = DesiredSchedule(
        ScheduleName(declared.name), SagaName(saga), declared.timing, read_target(declared.saga)
    )
    reader.faults.extend(check_retention(schedule, policy, declared.at))
    return schedule


def _misplaced_settings(declared: list[_Declared]) -> Iterator[Fault]:
    """Yield settings beside the trigger, where they have no effect."""
    for schedule in declared:
        for key, _ in schedule.saga.entries():
            if key in _ONLY_OF_SCHEDULES:
                message = f"`{key}` has no effect here, beside the trigger"
                hint = "move it below `scheduled:` in the trigger of this saga"
                yield Fault("TC115", message, (*schedule.saga.pointer, key), hint, at_key=True)


def _repeated_sagas(sagas: list[View]) -> Iterator[Fault]:
    seen: set[str] = set()
    for saga in sagas:
        name = saga.text("name")
        if name in seen:
            yield Fault(
                "TC109", f"a saga before this one is called `{name}`", (*saga.pointer, "name")
            )
        if name is not None:
            seen.add(name)


def _repeated_schedules(declared: list[_Declared]) -> Iterator[Fault]:
    """Two sagas of the same name that both use it for their schedule are one mistake, not two."""
    first: dict[str, _Declared] = {}
    for schedule in declared:
        if schedule.name is None:
            continue
        other = first.setdefault(schedule.name, schedule)
        sagas = (schedule.saga.text("name"), other.saga.text("name"))
        if other is not schedule and sagas != (schedule.name, schedule.name):
            message = f"schedule `{schedule.name}` belongs to saga `{sagas[1]}` already"
            hint = "give it another name: `scheduled: {name: …, preset: …}`"
            yield Fault("TC110", message, schedule.at, hint)


def _unused(own: NamedTimings, declared: list[_Declared]) -> Iterator[Fault]:
    used = {schedule.refers_to for schedule in declared}
    for name in own:
        if name not in used:
            message = f"no saga refers to `{name}`, so it never fires"
            yield Fault("TC210", message, ("schedules", name), at_key=True)


def _too_many(declared: list[_Declared], cap: _Cap) -> Iterator[Fault]:
    if len(declared) > cap.number:
        yield cap.exceeded([schedule.at for schedule in declared])


def _too_many_of_owner(
    placed: list[tuple[DesiredSchedule, Pointer]], most: int, tenant: TenantId | None
) -> Iterator[Fault]:
    """Yield one fault for each owner, at its first schedule that is too many."""
    places: dict[Owner, list[Pointer]] = {}
    for schedule, at in placed:
        if (named := schedule.timing.settings.owner) is not None:
            places.setdefault(named, []).append(at)
    for owner, owned in places.items():
        if len(owned) > most:
            message = f"`{owner}` owns {number_of(len(owned), 'schedule')}, {allowed(most)}"
            hint = (
                f"remove {number_of(len(owned) - most, 'schedule')}, or have the platform team "
                f"write `schedules_per_owner = {len(owned)}` in "
                f"[policy.tenants.{tenant or '<tenant>'}.quotas]"
            )
            yield Fault("TC309", message, owned[most], hint)


def _far_too_many(sagas: list[View], cap: _Cap) -> Fault | None:
    """Refuse a manifest before its schedules are read, which takes long for thousands of them."""
    triggers = [view for saga in sagas if (view := _scheduled(saga)) is not None]
    if len(triggers) <= cap.number + _EXCESS_CHECKED:
        return None
    return cap.exceeded([trigger.pointer for trigger in triggers])


def _scheduled(saga: View) -> View | None:
    """Return the trigger of a saga if it is a schedule, valid or not."""
    trigger = saga.get("trigger")
    if trigger is None:
        return None
    if isinstance(trigger.value, str):
        return trigger if trigger.value.partition(":")[0] == OURS else None
    return trigger.get(OURS)
