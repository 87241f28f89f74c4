"""Egress rules: every spelling of a forbidden address is rejected, public addresses are allowed."""

import pytest

from tenantcron.core.egress import Egress, Url, read_url

NO_NETWORKS = Egress(hosts=("billing.internal",))

FORBIDDEN = (
    "0.0.0.0",  # noqa: S104 -- nothing is bound to it
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:0:a9fe:a9fe::1",
    "2001:db8::1",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
)
PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2001:200::1",
    "2606:4700::1111",
    "2a00:1450:4001::1",
)


@pytest.mark.parametrize("address", FORBIDDEN)
def test_special_addresses_are_forbidden(address: str) -> None:
    refusal = NO_NETWORKS.forbids(address)
    assert refusal is not None
    assert "allowed_networks" in refusal.hint


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert NO_NETWORKS.forbids(address) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.20.1.1", "10.20.0.0/16"),
        ("::ffff:10.20.1.1", "10.20.0.0/16"),
        ("64:ff9b::10.20.1.1", "10.20.0.0/16"),
        ("fd00::5", "fd00::/8"),
        ("127.0.0.1", "127.0.0.0/8"),
    ],
)
def test_a_network_of_the_policy_is_allowed(address: str, network: str) -> None:
    assert Egress(networks=(network,)).forbids(address) is None


def test_a_network_of_the_policy_allows_no_other_address() -> None:
    egress = Egress(networks=("10.20.0.0/16",))
    assert egress.forbids("10.21.0.1") is not None
    assert egress.forbids("fd00::1") is not None


def test_the_displayed_url_has_no_query() -> None:
    url = read_url("HTTPS://Billing.Internal:8443/run?token=abc")
    assert url == Url("https", "billing.internal", 8443, "/run?token=abc")
    assert (url.origin, url.place) == (
        "https://billing.internal:8443",
        "https://billing.internal:8443/run",
    )


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("https://billing.internal", "https://billing.internal/"),
        ("https://billing.internal:443/a", "https://billing.internal/a"),
        ("https://billing.internal?a=1", "https://billing.internal/?a=1"),
        ("http://[::1]:80/a%20b", "http://[::1]/a%20b"),
    ],
)
def test_a_url_is_normalised(text: str, normalised: str) -> None:
    assert str(read_url(text)) == normalised
