"""Several hosts in one URL: the host that answered last is tried first.

libpq and psycopg try hosts in the order of the URL. If the first host does not respond, each new
connection would wait for its `connect_timeout`. `target_session_attrs` still decides for each
connection which host is suitable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import psycopg
from psycopg.conninfo import make_conninfo

_DEFAULT_PORT = "5432"

# By the hosts and ports of the URL; shared by all connections of the process.
_answered: dict[tuple[str, str], int] = {}


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of some connection parameters, in the order of the URL."""

    parameters: Mapping[str, str | int | None]
    names: tuple[str, ...]
    ports: tuple[str, ...]

    @classmethod
    def of(cls, parameters: Mapping[str, str | int | None]) -> Self:
        """Parse the hosts; a single port applies to all."""
        names = tuple(str(parameters.get("host") or "").split(","))
        ports = tuple(str(parameters.get("port") or _DEFAULT_PORT).split(","))
        return cls(parameters, names, ports * len(names) if len(ports) == 1 else ports)

    @property
    def _key(self) -> tuple[str, str]:
        return ",".join(self.names), ",".join(self.ports)

    @property
    def _are_several(self) -> bool:
        """Whether they can be reordered; not if `hostaddr` is set in addition."""
        is_plain = len(self.names) == len(self.ports) and not self.parameters.get("hostaddr")
        return len(self.names) > 1 and is_plain

    def conninfo(self) -> str:
        """Return the parameters with the host that answered last first."""
        first = _answered.get(self._key)
        if not self._are_several or first is None:
            return make_conninfo("", **self.parameters)
        order = [first, *(number for number in range(len(self.names)) if number != first)]
        moved = {
            "host": ",".join(self.names[number] for number in order),
            "port": ",".join(self.ports[number] for number in order),
        }
        return make_conninfo("", **{**self.parameters, **moved})

    def remember(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        """Remember the host of a connection."""
        if not self._are_several:
            return
        reached = (connection.info.host, str(connection.info.port))
        places = list(zip(self.names, self.ports, strict=True))
        if reached in places:
            _answered[self._key] = places.index(reached)
