"""Time zones from the `tzdata` package only, so every replica computes the same instants.

The operating system's database is never read: it differs from machine to machine. A name is valid
only if the package lists it, which also excludes paths, folders and special files such as
`localtime` that `zoneinfo` would open.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped] # data with a version, it ships no types

from tenantcron.core.errors import TenantcronError
from tenantcron.core.suggest import close_match

_FOLDER = Path(tzdata.__path__[0])
# Means "no zone was set" in the database; it is not a place.
_NOT_A_PLACE = "Factory"
_SHOWN = 64
_OFFSET = r"(?:UTC|GMT)?([+-])0?([0-9]|1[0-4])(?::?00)?"


class UnknownZoneError(TenantcronError):
    """The name is not a time zone; `suggestion` is a similar name."""

    def __init__(self, name: str, suggestion: str | None) -> None:
        """Build the message, with the name in ASCII and cut to a readable length."""
        hint = f"did you mean {suggestion}?" if suggestion else "use a name such as Europe/London"
        super().__init__(f"unknown time zone {name[:_SHOWN]!a}: {hint}")
        self.name = name
        self.suggestion = suggestion


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Return the zone of this name, aliases included; names are spelled as in the database."""
    if name not in zone_names():
        raise UnknownZoneError(name, _suggestion(name))
    with _FOLDER.joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def zone_names() -> frozenset[str]:
    """Return every name that `zone` accepts."""
    names = (_FOLDER / "zones").read_text(encoding="ascii").split()
    return frozenset(names) - {_NOT_A_PLACE}


def zone_of_offset(text: str) -> str | None:
    """Return the zone of an offset in hours, such as +02:00; the sign in its name is inverted."""
    offset = re.fullmatch(_OFFSET, text, re.ASCII | re.IGNORECASE)
    if offset is None:
        return None
    name = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{offset[2]}"
    return name if name in zone_names() else None


def tz_version() -> str:
    """Return the version of the zones, as IANA counts them."""
    return str(tzdata.IANA_VERSION)


def _suggestion(name: str) -> str | None:
    """Return the name that differs by case or a typo, or the only zone of that city."""
    wanted = name.lower().replace(" ", "_")
    names = sorted(zone_names())
    for known in names:
        if known.lower() == wanted:
            return known
    return close_match(wanted, names) or _by_city(wanted, names)


def _by_city(wanted: str, names: list[str]) -> str | None:
    cities = [known for known in names if known.lower().rpartition("/")[2] == wanted]
    return cities[0] if len(cities) == 1 else None
