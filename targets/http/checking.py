"""Check the addresses of a host before a connection, for every kind of target that calls hosts."""

from collections.abc import Sequence

from tenantcron.core.egress import Egress, EgressRefusal, is_address
from tenantcron.targets.http.resolving import Resolve, ResolvingError


class ForbiddenAddressError(Exception):
    """A name resolves to an address that may not be called."""

    def __init__(self, host: str, refusal: EgressRefusal) -> None:
        super().__init__(f"{host} may not be called: {refusal.message}; {refusal.hint}")


async def checked_addresses(host: str, egress: Egress, resolve: Resolve) -> Sequence[str]:
    """Return the addresses of a host; one forbidden address is enough to reject the host."""
    literal = ":" in host or is_address(host)
    addresses = [host] if literal else await resolve(host)
    if not addresses:
        raise ResolvingError(f"{host} cannot be resolved: it has no address")
    for address in addresses:
        refusal = egress.forbids(address)
        if refusal is not None:
            raise ForbiddenAddressError(host, refusal)
    return addresses
