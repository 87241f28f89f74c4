"""Digests of policies."""

from pathlib import Path

from tenantcron.manifests.policy import default_policy, load_policy
from tenantcron.manifests.policy_digests import policy_digest

FIELDS = (
    'minimum_interval = "30m"',
    'allowed_hosts = ["billing.internal"]',
    "max_schedules_per_tenant = 7",
)


def test_equal_policies_have_equal_digests_and_others_do_not(tmp_path: Path) -> None:
    def digest(*fields: str) -> str:
        file = tmp_path / "tenantcron.toml"
        file.write_text("\n".join(["[policy]", *fields, ""]), encoding="utf-8")
        return policy_digest(load_policy(file))

    assert digest() == policy_digest(default_policy())
    assert digest(*FIELDS) == digest(*reversed(FIELDS))
    digests = {digest(), *(digest(field) for field in FIELDS), digest(*FIELDS)}
    assert len(digests) == 5
    assert {len(text) for text in digests} == {12}
