"""The effect of the Kubernetes network policies: which pods reach which addresses."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest
from support.deploy_files import Yaml, resources, templates

from tenantcron.core.egress import _SPECIAL, Egress

SCHEDULER = "tenantcron-scheduler"
API = "tenantcron-api"
MIGRATE = "tenantcron-migrate"


def labels(app: str) -> dict[str, str]:
    found = [template["metadata"]["labels"] for template in templates()]
    (of_app,) = [labels for labels in found if labels["app"] == app]
    assert isinstance(of_app, dict)
    return of_app


def policies(app: str) -> list[Yaml]:
    """Return the policies that select the pods of an app."""
    return [
        policy["spec"]
        for policy in resources("NetworkPolicy")
        if policy["spec"]["podSelector"]["matchLabels"].items() <= labels(app).items()
    ]


def rules(app: str, direction: str) -> Iterator[Yaml]:
    for policy in policies(app):
        if direction.capitalize() in policy["policyTypes"]:
            yield from policy.get(direction, [])


def reaches(app: str, address: str, port: int) -> bool:
    """Whether a pod may connect to an address outside the cluster."""
    return any(
        contains(peer["ipBlock"], address)
        for rule in rules(app, "egress")
        if port in [entry["port"] for entry in rule["ports"]]
        for peer in rule["to"]
        if "ipBlock" in peer
    )


def contains(block: Yaml, address: str) -> bool:
    found = ip_address(address)
    excepted = any(found in ip_network(network) for network in block["except"])
    return found in ip_network(block["cidr"]) and not excepted


@pytest.mark.parametrize("app", [SCHEDULER, API, MIGRATE])
def test_a_pod_is_denied_all_traffic_that_no_policy_lists(app: str) -> None:
    assert {"podSelector", "policyTypes"} in [policy.keys() for policy in policies(app)]
    (denying,) = [
        policy for policy in policies(app) if policy.keys() == {"podSelector", "policyTypes"}
    ]
    assert denying["policyTypes"] == ["Ingress", "Egress"]
    # A rule without peers or ports would allow all of them.
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in rules(app, direction):
            assert rule[peers]
            assert rule["ports"]
            assert {} not in rule[peers]


@pytest.mark.parametrize("app", [SCHEDULER, API, MIGRATE])
def test_every_pod_reaches_the_database_and_dns(app: str) -> None:
    ports = {
        (entry["protocol"], entry["port"])
        for rule in rules(app, "egress")
        for entry in rule["ports"]
    }
    assert {("UDP", 53), ("TCP", 53), ("TCP", 5432)} <= ports


@pytest.mark.parametrize(("app", "port"), [(SCHEDULER, "metrics"), (API, "http"), (MIGRATE, None)])
def test_only_the_port_that_a_pod_serves_can_be_reached(app: str, port: str | None) -> None:
    reached = [entry["port"] for rule in rules(app, "ingress") for entry in rule["ports"]]
    assert reached == [port] * (port is not None)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_only_schedulers_reach_public_addresses_and_only_by_https(address: str) -> None:
    assert Egress().forbids(address) is None
    assert reaches(SCHEDULER, address, 443)
    assert not reaches(SCHEDULER, address, 80)
    assert not reaches(API, address, 443)
    assert not reaches(MIGRATE, address, 443)


@pytest.mark.parametrize("network", [network for network, _ in _SPECIAL])
def test_the_network_also_denies_addresses_that_targets_may_not_have(network: str) -> None:
    special = ip_network(network)
    for address in (special[0], special[-1]):
        assert Egress().forbids(str(address))
        assert not reaches(SCHEDULER, str(address), 443)
