"""Check Temporal targets: whether the policy allows the workflow, and the audience of tokens."""

from collections.abc import Iterator

from tenantcron.core.targets import OtherTarget
from tenantcron.core.temporal_targets import read_temporal_target, refused_option
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.calls import check_audience
from tenantcron.manifests.policy import Policy


def check_temporal_target(target: OtherTarget, policy: Policy, at: Pointer) -> Iterator[Fault]:
    """Yield the faults that the structure check cannot find."""
    read = read_temporal_target(target.options)
    if read is None:
        return
    if (refused := refused_option(read, policy.allowed_temporal_workflows)) is not None:
        message = f"{read.entry} is not a workflow that this tenant may start"
        hint = (
            f'the platform team can add "{read.entry}" to allowed_temporal_workflows in the '
            "[policy] table"
        )
        # The default namespace has no place in the manifest.
        place = refused if refused in target.options else "workflow"
        yield Fault("TC413", message, (*at, place), hint)
    if read.auth is not None:
        where = (*at, "auth", "execution_token", "audience")
        yield from check_audience(read.audience, read.origin, policy, where)
