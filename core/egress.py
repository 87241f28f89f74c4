"""Egress rules: which URLs HTTP targets may call. Manifest checks and calls share them.

A URL must match one strict pattern. A lenient parser is not enough: attackers exploit URLs that two
parsers read differently. The host, port and scheme must be allowed. Every address that the host
resolves to must be public, or in a network that the policy lists. An IPv6 address that embeds an
IPv4 address is checked as that IPv4 address.

The tables of special networks are our own: `is_global` and `is_private` of `ipaddress` differ
between Python versions and are incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from tenantcron.core.suggest import close_match
from tenantcron.core.words import shortened

# Only URLs with an IP address need it, and it doubles the import time of this module.
if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

# So many entries are searched for a similar name.
_MANY_HOSTS = 500

DEFAULT_PORTS = {"http": 80, "https": 443}

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_URL = (
    rf"(?P<scheme>https?)://(?P<host>{_LABEL}(\.{_LABEL})*|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{{1,5}}))?"
    r"(?P<target>[/?]([!$&'()*+,\-./0-9:;=?@A-Z_a-z~]|%[0-9a-f]{2})*)?"
)
# Resolvers accept many spellings of an address: 2130706433, 0x7f.1, 127.1.
_ENDS_IN_A_NUMBER = r"(.*\.)?([0-9]+|0x[0-9a-f]*)"

# Networks outside the public internet, with the reason (IANA special-purpose registries).
_SPECIAL = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared address space of a provider"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved for documentation"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("168.63.129.16/32", "the metadata of a cloud"),
    ("198.18.0.0/15", "reserved for benchmarks"),
    ("198.51.100.0/24", "reserved for documentation"),
    ("203.0.113.0/24", "reserved for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::1/128", "loopback"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
    ("2001::/32", "Teredo"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "reserved for documentation"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "reserved for documentation"),
)
# Every other IPv6 network is special, too.
_PUBLIC_IPV6 = "2000::/3"
_NAT64 = "64:ff9b::/96"


class Url(NamedTuple):
    """A URL that can be called; scheme and host are in lower case."""

    scheme: str
    host: str
    port: int
    # Path and query, unchanged.
    target: str

    @property
    def origin(self) -> str:
        """Scheme and host, and the port if it is not the default."""
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    @property
    def place(self) -> str:
        """The URL without its query, which may contain secrets."""
        return f"{self.origin}{self.target.partition('?')[0]}"

    def __str__(self) -> str:
        """Return the full URL."""
        return f"{self.origin}{self.target}"


def read_url(text: str) -> Url | None:
    """Parse a URL; None if it cannot be called safely."""
    # Without ASCII, the Kelvin sign would match k. `re` caches the compiled pattern.
    match = re.fullmatch(_URL, text, re.ASCII | re.IGNORECASE)
    if match is None:
        return None
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"]) if match["port"] else DEFAULT_PORTS[scheme]
    if not 1 <= port <= 65_535 or _is_odd_address(host):
        return None
    target = match["target"] or "/"
    return Url(scheme, host, port, target if target.startswith("/") else f"/{target}")


class EgressRefusal(NamedTuple):
    """Why a URL may not be called, and how to fix it."""

    kind: Literal["scheme", "host", "port", "address"]
    message: str
    hint: str


class Egress(NamedTuple):
    """Allowed hosts, networks besides the public ones, and ports; None: the default ports."""

    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    ports: tuple[int, ...] | None = None

    def refusal(self, url: Url) -> EgressRefusal | None:
        """Return why a URL may not be called, before its host is resolved; None if it may."""
        return self._host_refusal(url) or self._port_refusal(url) or self._literal_refusal(url)

    def forbids(self, address: str) -> EgressRefusal | None:
        """Return why an address may not be called; None if it may."""
        found = _carried(_address(address))
        if any(found in network for network in map(_network, self.networks)):
            return None
        why = _special(found)
        if why is None:
            return None
        entry = f"{found}/{found.max_prefixlen}"
        return EgressRefusal(
            "address", f"{address} is not a public address: {why}", _add_network(entry)
        )

    def _host_refusal(self, url: Url) -> EgressRefusal | None:
        if is_listed(url.scheme, url.host, self.hosts):
            return None
        if url.scheme == "http" and is_listed("https", url.host, self.hosts):
            message = f"{url.host} may be called by https only"
            return EgressRefusal("scheme", message, "write https instead")
        entry = url.host if url.scheme == "https" else f"http://{url.host}"
        message = f"{url.host} is not among the hosts that may be called"
        meant = _similar_host(url.host, self.hosts)
        hint = f'the platform team can add "{entry}" to allowed_hosts in the [policy] table'
        return EgressRefusal(
            "host", message, f"did you mean {meant}? Otherwise, {hint}" if meant else hint
        )

    def _port_refusal(self, url: Url) -> EgressRefusal | None:
        ports = (DEFAULT_PORTS[url.scheme],) if self.ports is None else self.ports
        if url.port in ports:
            return None
        listed = ", ".join(str(port) for port in sorted({*ports, url.port}))
        return EgressRefusal(
            "port",
            f"port {url.port} is not among those that may be called",
            f"the platform team can write allowed_ports = [{listed}] in the [policy] table",
        )

    def _literal_refusal(self, url: Url) -> EgressRefusal | None:
        return self.forbids(bare(url.host)) if is_address(url.host) else None


def _similar_host(host: str, entries: Iterable[str]) -> str | None:
    """Return an allowed host with almost the same name; `*` represents its first labels."""
    labels, hosts = host.split("."), []
    for entry in islice(entries, _MANY_HOSTS):
        name = entry.lower().removeprefix("http://")
        if not name.startswith("*."):
            hosts.append(name)
        elif own := labels[: -name.count(".")]:
            hosts.append(".".join([*own, name[2:]]))
    return close_match(host, hosts)


def is_listed(scheme: str, host: str, hosts: Iterable[str]) -> bool:
    """Whether a host is listed; plain http needs an entry that begins with http://."""
    entries = (entry.lower() for entry in hosts)
    prefix = "http://" if scheme == "http" else ""
    listed = [
        entry.removeprefix(prefix)
        for entry in entries
        if entry.startswith("http://") == (scheme == "http")
    ]
    return any(
        host.endswith(entry[1:]) and host != entry[1:] if entry.startswith("*.") else host == entry
        for entry in listed
    )


def is_address(host: str) -> bool:
    """Whether the host of a URL is an IP address, which needs no lookup."""
    return host.startswith("[") or re.fullmatch(_ENDS_IN_A_NUMBER, host) is not None


def bare(host: str) -> str:
    """Return an address without the brackets that URLs need."""
    return host.removeprefix("[").removesuffix("]")


def is_network(text: str) -> bool:
    """Whether a text is a network such as 10.0.0.0/8, without host bits."""
    try:
        _network(text)
    except ValueError:
        return False
    return True


def _is_odd_address(host: str) -> bool:
    if not is_address(host):
        return False
    try:
        found = _address(bare(host))
    except ValueError:
        return True
    return host.startswith("[") != (found.version == 6)


def _address(text: str) -> Address:
    from ipaddress import ip_address  # noqa: PLC0415 -- as above

    try:
        return ip_address(text)
    except ValueError:
        raise ValueError(f"{shortened(text)} is not an address") from None


@lru_cache(maxsize=256)
def _network(text: str) -> Network:
    from ipaddress import ip_network  # noqa: PLC0415 -- as above

    return ip_network(text)


def _carried(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address embeds, else the address itself."""
    from ipaddress import IPv4Address  # noqa: PLC0415 -- as above

    if isinstance(address, IPv4Address):
        return address
    if address in _network(_NAT64):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address


def _special(address: Address) -> str | None:
    for network, why in _SPECIAL:
        if address in _network(network):
            return why
    if address.version == 6 and address not in _network(_PUBLIC_IPV6):
        return "reserved"
    return None


def _add_network(entry: str) -> str:
    return (
        f'the platform team can add "{entry}", or the network around it, to allowed_networks in '
        "the [policy] table"
    )
