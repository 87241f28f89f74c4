"""The lock files: locked versions with their hashes."""

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parents[2] / "locks"
NAMES = ("build", "dev", "docs", "runtime", "tools")
# Each package has continued lines with its version and hashes.
_ENTRY = re.compile(
    r"^(?P<requirement>[^#\s].*?)(?P<hashes>(?: \\\n    --hash=\S+)*)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of a lock file."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (pin,) = self.requirement.specifier
        assert pin.operator == "=="
        return pin.version

    @property
    def is_wanted_here(self) -> bool:
        """Whether it applies to this Python on this platform."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate()


def read_lock(name: str) -> list[Locked]:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [
        Locked(
            Requirement(match["requirement"]),
            tuple(re.findall(r"--hash=(\S+)", match["hashes"])),
        )
        for match in _ENTRY.finditer(text)
    ]


def pins(name: str) -> list[str]:
    """Return the versions of a lock without hashes, as constraints for pip."""
    return [str(locked.requirement) for locked in read_lock(name)]
