"""Check Celery targets: whether the policy allows the task, and the limits of durations."""

from collections.abc import Iterator

from tenantcron.core.celery_targets import may_send, read_celery_target
from tenantcron.core.targets import OtherTarget
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.policy import Policy
from tenantcron.schedules.targets import HEARTBEAT, QUEUE_WAIT


def check_celery_target(target: OtherTarget, policy: Policy, at: Pointer) -> Iterator[Fault]:
    """Yield the faults that the structure check cannot find."""
    read = read_celery_target(target.options)
    if read is None:
        return
    if not may_send(read, policy.allowed_celery_tasks):
        entry = f"{read.queue}/{read.task}"
        message = f"{read.task} in the queue {read.queue} is not a task that this tenant may send"
        hint = f'the platform team can add "{entry}" to allowed_celery_tasks in the [policy] table'
        yield Fault("TC412", message, (*at, "task"), hint)
    if (limits := HEARTBEAT.refusal(read.heartbeat)) is not None:
        yield Fault("TC305", f"`heartbeat` must be {limits}", (*at, "heartbeat"))
    if (limits := QUEUE_WAIT.refusal(read.queue_wait)) is not None:
        yield Fault("TC305", f"`queue_wait` must be {limits}", (*at, "queue_wait"))
