"""The host that an attempt at a target calls."""

from tenantcron.core.egress import bare, read_url
from tenantcron.core.grpc_targets import read_address
from tenantcron.core.requirements import TargetKind
from tenantcron.core.targets import HttpTarget, Target


def host_of(target: Target | None) -> str | None:
    """Return the host in lower case; None if the target has none that tenantcron knows."""
    if target is None:
        return None
    if isinstance(target, HttpTarget):
        url = read_url(target.url)
    elif target.kind == TargetKind.GRPC:
        # The scheme does not matter here.
        url = read_address(target.options.get("address"), is_plaintext=False)
    else:
        return None
    return bare(url.host) if url is not None else None
