"""The size of a tenant's schedules: all parts that can be long, as JSON in UTF-8.

A value that sagas share, such as the payload of a named schedule, is stored with each of them and
counts for each of them. It is measured once.
"""

from collections.abc import Iterable, Iterator

from tenantcron.core.targets import OtherTarget
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.payload import size_of
from tenantcron.manifests.policy import Policy
from tenantcron.schedules.schedule import DesiredSchedule


def check_size(
    schedules: Iterable[tuple[DesiredSchedule, Pointer]], policy: Policy
) -> Iterator[Fault]:
    """Yield a fault at the first schedule that exceeds the total size."""
    payloads: dict[int, int] = {}
    total, first = 0, None
    for schedule, at in schedules:
        payload = schedule.timing.settings.payload
        if id(payload) not in payloads:
            payloads[id(payload)] = size_of(payload)
        total += payloads[id(payload)] + _rest(schedule)
        if first is None and total > policy.max_size_per_tenant:
            first = at
    if first is not None:
        allowed = f"{policy.max_size_per_tenant:,} are allowed"
        hint = "pass references to the data instead"
        yield Fault("TC308", f"the schedules have {total:,} bytes, {allowed}", first, hint)


def _rest(schedule: DesiredSchedule) -> int:
    target = schedule.target
    size = len(schedule.timing.settings.description.encode())
    if target is None:
        return size
    if isinstance(target, OtherTarget):
        return size + size_of(target.options)
    return size + len(target.url) + size_of({**target.headers})
