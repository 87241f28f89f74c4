"""The schedules of workloads whose work runs at remote workers, which report its end."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from faults.expectation import Every
from faults.remote_records import (
    HEARTBEAT,
    LATE,
    OVERDUE,
    OVERDUE_TIMEOUT,
    QUICK,
    SILENT,
    TWICE,
)
from faults.workload import Schedule, Workload, policy

QUEUE = "faults"


class Remote(StrEnum):
    """Where the work runs."""

    CALLBACK = "callback"
    CELERY = "celery"


# Long enough for 20 attempts to last until a killed broker is back.
_BACKOFF = ("1s", "15s")
# Seconds between two occurrences. An attempt at Celery occupies a process of the worker, so there
# are fewer long ones.
_KINDS = {
    Remote.CALLBACK: {QUICK: 2, LATE: 4, TWICE: 4, OVERDUE: 9, SILENT: 12},
    Remote.CELERY: {QUICK: 2, LATE: 6, TWICE: 4, OVERDUE: 17, SILENT: 19},
}


def remote_workload(remote: Remote, ports: Sequence[int]) -> Workload:
    """Return a tenant for each port, with a saga of each kind."""
    return Workload(
        tuple(
            schedule
            for place, port in enumerate(ports)
            for schedule in _schedules(remote, f"remote{place}", port)
        )
    )


def _schedules(remote: Remote, tenant: str, port: int) -> Iterator[Schedule]:
    for kind, seconds in _KINDS[remote].items():
        timeout = f"{OVERDUE_TIMEOUT}s" if kind == OVERDUE else "60s"
        target = _target(remote, kind, port)
        yield Schedule(
            tenant, kind, Every(seconds), timeout=timeout, target=target, backoff=_BACKOFF
        )


def _target(remote: Remote, kind: str, port: int) -> dict[str, object]:
    heartbeat = f"{HEARTBEAT}s"
    if remote is Remote.CELERY:
        options = {"task": "faults.work", "queue": QUEUE, "heartbeat": heartbeat}
        return {"celery": {**options, "queue_wait": "8s"}}
    url = f"http://127.0.0.1:{port}/{kind}"
    return {"http": {"url": url, "completion": "callback", "heartbeat": heartbeat}}


def remote_policy(remote: Remote, ports: Sequence[int]) -> str:
    """Return the policy that allows the workers."""
    if remote is Remote.CALLBACK:
        return policy(*ports)
    kinds = f'target_kinds = ["celery"]\nallowed_celery_tasks = ["{QUEUE}/faults.*"]\n'
    return f'{policy(*ports)}{kinds}[settings]\ncelery_broker = "env:BROKER"\n'
