"""Event buses: the contract of an adapter, and its settings.

A bus is a service that stores messages for any number of readers, such as NATS JetStream or Kafka.
One adapter publishes to one bus. `publisher` calls it, and does everything that is the same for all
buses: it leases the bus, keeps the order, records progress, and retries.

The setting `event_bus` is a URL. Its scheme names the adapter: a folder of this package, or an
entry point of the group `tenantcron.events` in another distribution:

    [project.entry-points."tenantcron.events"]
    rabbit = "my_platform.rabbit:open_bus"

The entry point is a callable that takes a `BusConfig` and returns an `EventBus`. It opens no
connection, and raises a UsageError that lists everything wrong with the settings.

What an adapter promises:

- `publish` returns when the bus has stored the message durably, and not before. Otherwise it raises
  `BusError`. The publisher then closes the adapter and publishes the message again later.
- It raises `EventRefusedError` for a message that the bus can never accept, such as one that is too
  large. The publisher skips this event and counts it as dropped.
- Messages that are published one after the other are stored in that order. The publisher has at
  most one message of a tenant in flight, and messages of many tenants concurrently.
- If the bus can detect duplicates, it does so by `BusMessage.id`, which never changes.
- It never blocks the event loop, and logs neither credentials nor events.
- Every call may be cancelled at any time. After `close` it can connect again.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import parse_qsl
from uuid import UUID

from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.names import TenantId

SETTING: Final = "event_bus"
EXPECTED: Final = "scheme://host:port, such as nats://nats.internal:4222"

_URL: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9]{0,15})(?P<tls>\+tls)?://(?P<hosts>[^/?#@\s]+)"
    r"(/(?P<path>[^?#\s]*))?(\?(?P<query>[^#\s]*))?"
)
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


class BusError(TenantcronError):
    """A bus is unavailable or has rejected a message; the message says why."""


class EventRefusedError(TenantcronError):
    """A bus will never accept an event."""


@dataclass(frozen=True, slots=True)
class BusAddress:
    """The parts of the URL of a bus. It has no credentials."""

    scheme: str
    uses_tls: bool
    # Each with its port.
    hosts: tuple[str, ...]
    # Without the leading slash; empty: none.
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether all hosts are this machine, so nothing is sent over a network."""
        return all(map(_is_loopback, self.hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class BusConfig:
    """What an adapter gets."""

    address: BusAddress
    # Reads the credentials at each connect, because they may be rotated; None: there are none.
    read_credentials: Callable[[], Awaitable[str]] | None = field(default=None, repr=False)
    # CA certificates in addition to the public ones.
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class BusMessage:
    """An event as a bus gets it: a CloudEvent in JSON, and what routes it."""

    # The id of the event.
    id: UUID
    tenant: TenantId
    # Without `dev.tenantcron.`: execution.dead.
    type: str
    body: bytes = field(repr=False)


class EventBus(Protocol):
    """A connection to a bus, which is opened by `connect` and closed by `close`."""

    @property
    def destination(self) -> str:
        """The stream or topic. With the scheme it names the position in the database."""

    async def connect(self) -> None:
        """Connect, unless connected; raise BusError if that fails."""

    async def publish(self, message: BusMessage) -> None:
        """Return when the bus has stored the message."""

    async def close(self) -> None:
        """Disconnect; messages in flight may or may not be stored."""


def read_address(text: str) -> BusAddress:
    """Parse the URL of a bus; raise a UsageError that lists all its problems."""
    match = _URL.fullmatch(text)
    if match is None:
        # The text is not shown: it may contain a password.
        hint = " Put credentials into event_bus_credentials." if "@" in text else ""
        raise UsageError(f"{SETTING}: not the URL of a bus: write {EXPECTED}.{hint}")
    hosts = tuple(match["hosts"].split(","))
    problems = [
        f"{SETTING}: {host!a} is not host:port with a port from 1 to 65535"
        for host in hosts
        if not _is_host(host)
    ]
    if problems:
        raise UsageError("\n".join(problems))
    return BusAddress(
        match["scheme"],
        match["tls"] is not None,
        hosts,
        match["path"] or "",
        dict(parse_qsl(match["query"] or "", keep_blank_values=True)),
    )


def unknown_options(address: BusAddress, known: tuple[str, ...]) -> list[str]:
    """Return a problem for each option that an adapter does not have."""
    there_are = f"there are {', '.join(known)}" if known else "there are none"
    return [
        f"{SETTING}: {address.scheme} has no option {option!a}; {there_are}"
        for option in address.options
        if option not in known
    ]


def _is_host(text: str) -> bool:
    match = _HOST.fullmatch(text)
    return match is not None and 1 <= int(match[2]) <= 65_535


def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0].strip("[]")
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
