"""HTTP targets of manifests, and a policy to check them."""

from support.manifests import check_data, codes, manifest, policy_with

from tenantcron.core.values import JsonValue

POLICY = policy_with(
    hosts=(
        "billing.internal",
        "*.grid.internal",
        "http://localhost",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "10.0.0.1",
        "10.0.0.2",
        "169.254.169.254",
        "2130706433",
        "kilo.internal",
    ),
    networks=("::1/128", "10.0.0.1/32"),
    ports=(1, 443, 8080, 8443, 65535),
    secrets=("env:BILLING_*", "file:/run/secrets/{tenant}/*"),
    audiences=("billing",),
)


def check_http(policy_hosts: tuple[str, ...] | None = None, **http: JsonValue) -> list[str]:
    policy = POLICY if policy_hosts is None else policy_with(hosts=policy_hosts)
    return codes(check_data(manifest({"every": "1h"}, target={"http": http}), policy=policy))
