"""Rules that all kinds of targets share which call a host."""

import re
from collections.abc import Iterator

from tenantcron.core.auth import AUDIENCE_PATTERN, audience_refusal
from tenantcron.manifests.diagnostics import Fault, Pointer
from tenantcron.manifests.policy import Policy

_AUDIENCE = re.compile(AUDIENCE_PATTERN)

# The code for each kind of refusal of the egress rules.
CODES = {"scheme": "TC401", "host": "TC402", "port": "TC405", "address": "TC406"}


def check_audience(audience: str, origin: str, policy: Policy, at: Pointer) -> Iterator[Fault]:
    """Yield a fault if a target at an origin gets no token for the audience."""
    if _AUDIENCE.fullmatch(audience) is None:
        yield Fault("TC106", "the audience must be printable ASCII", at)
    elif (refusal := audience_refusal(audience, origin, policy.allowed_audiences)) is not None:
        yield Fault("TC409", refusal.message, at, refusal.hint)
