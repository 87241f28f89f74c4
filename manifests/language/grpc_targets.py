"""Check gRPC targets: the address by the egress rules, and the audience of tokens."""

from collections.abc import Iterator

from tenantcron.core.grpc_targets import read_grpc_target
from tenantcron.core.targets import OtherTarget
from tenantcron.core.words import shortened
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.language.calls import CODES, check_audience
from tenantcron.manifests.policy import Policy


def check_grpc_target(target: OtherTarget, policy: Policy, at: Pointer) -> Iterator[Fault]:
    """Yield the faults that the structure check cannot find."""
    address = target.options.get("address")
    if not isinstance(address, str):
        return
    read = read_grpc_target(target.options)
    if read is None:
        message = f"{shortened(address)} is not an address that can be called"
        hint = "write host or host:port, without https:// or a path"
        yield Fault("TC401", message, (*at, "address"), hint)
        return
    if (refusal := policy.egress.refusal(read.url)) is not None:
        hint = "remove `plaintext`" if refusal.kind == "scheme" else refusal.hint
        yield Fault(CODES[refusal.kind], refusal.message, (*at, "address"), hint)
    if read.auth is not None:
        where = (*at, "auth", "execution_token", "audience")
        yield from check_audience(read.audience, read.url.origin, policy, where)
