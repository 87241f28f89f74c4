"""Opens the event bus of the settings: finds its adapter, and checks everything at start."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from tenantcron.core.errors import UsageError
from tenantcron.core.plugins import load_plugin
from tenantcron.core.secret_refs import SecretRef
from tenantcron.core.settings import Settings
from tenantcron.events.bus import (
    SETTING,
    BusAddress,
    BusConfig,
    BusError,
    EventBus,
    read_address,
)
from tenantcron.targets.http.secrets import read_secret
from tenantcron.targets.responses import FailCall, RetryCall

GROUP: Final = "tenantcron.events"
# The adapters of this package, each behind an extra of the same name.
BUILT_IN: Final = ("kafka", "nats")
_LONGEST_NAME: Final = 255
_METHODS: Final = ("connect", "publish", "close")


@dataclass(frozen=True, slots=True)
class NamedBus:
    """A bus, and the name of its position in the database."""

    name: str
    bus: EventBus


def open_bus(settings: Settings) -> NamedBus | None:
    """Return the bus of the settings, not connected yet; None: there is none."""
    if settings.event_bus is None:
        if settings.event_bus_credentials is not None:
            raise UsageError("event_bus_credentials needs event_bus: set it, or remove them")
        return None
    address = read_address(settings.event_bus)
    ref = settings.event_bus_credentials
    if ref is not None and not address.uses_tls and not address.is_local:
        raise UsageError(
            "event_bus_credentials would be sent unencrypted: write "
            f"{address.scheme}+tls:// in {SETTING}"
        )
    config = BusConfig(
        address=address,
        read_credentials=None if ref is None else _reader(ref),
        ca_file=settings.ca_file,
    )
    bus = _adapter(address)(config)
    return NamedBus(_name(address, bus), bus)


def _adapter(address: BusAddress) -> Callable[[BusConfig], EventBus]:
    scheme = address.scheme
    if scheme not in BUILT_IN:
        found = load_plugin(GROUP, scheme, SETTING)
        if not callable(found):
            raise UsageError(f"{SETTING}: the entry point {scheme!r} is not callable")
        return found
    try:
        opener: Callable[[BusConfig], EventBus] = import_module(
            f"tenantcron.events.{scheme}.adapter"
        ).open_bus
    except ImportError as error:
        raise UsageError(
            f"{SETTING}: {scheme} needs an extra: pip install 'tenantcron[{scheme}]' ({error})"
        ) from error
    return opener


def _name(address: BusAddress, bus: EventBus) -> str:
    missing = [name for name in _METHODS if not callable(getattr(bus, name, None))]
    if missing:
        raise UsageError(
            f"{SETTING}: the adapter of {address.scheme!r} has no {', '.join(missing)}"
        )
    name = f"{address.scheme}/{bus.destination}"
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError(f"{SETTING}: the stream or topic has more than {_LONGEST_NAME} characters")
    return name


def _reader(ref: SecretRef) -> Callable[[], Awaitable[str]]:
    async def read() -> str:
        try:
            # An operator sets it, so the policy of tenants does not apply.
            return (await read_secret(ref, (str(ref),))).decode()
        except (RetryCall, FailCall) as error:
            raise BusError(error.reason) from error
        except UnicodeDecodeError:
            raise BusError(f"the credentials {ref} are not UTF-8 text") from None

    return read
