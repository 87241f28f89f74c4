"""The policies that checked manifests, for the reports of `plan` and `apply-manifest`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tenantcron.core.words import visible
from tenantcron.manifests.files import shown_path
from tenantcron.manifests.policy import Policy
from tenantcron.manifests.policy_digests import policy_digest
from tenantcron.service.responses.shapes import PolicyResponse

DEFAULT: Final = "default"
_SHOWN = 3


def policies_as_json(used: Mapping[Path | None, Policy]) -> list[PolicyResponse]:
    """Return policies by file; None is the default policy."""
    return [
        {"origin": shown_path(file) if file else DEFAULT, "digest": policy_digest(policy)}
        for file, policy in used.items()
    ]


def policy_lines(policies: Sequence[PolicyResponse]) -> Iterator[str]:
    """Yield which policies were used; the default policy goes without saying."""
    named = [policy for policy in policies if policy["origin"] != DEFAULT]
    for policy in named[:_SHOWN]:
        origin = visible(policy["origin"])
        yield f"checked with the policy of {origin} (digest {visible(policy['digest'])})"
    if len(named) > _SHOWN:
        yield f"checked with {len(named) - _SHOWN} more policies"
