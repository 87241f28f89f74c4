"""The files that `tenantcron dev` watches, by polling: a project has few, and it needs no library.

A change counts when the files look the same twice in a row, since editors save in several steps.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from tenantcron.core.settings import FILE_NAME

_MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
_FOREIGN_FOLDERS = ("node_modules", "__pycache__", "build", "dist")

Fingerprint = dict[Path, tuple[int, int]]


class Change(Enum):
    """What was edited."""

    MANIFESTS = auto()
    HANDLERS = auto()
    CONFIGURATION = auto()


@dataclass(slots=True)
class WatchedFiles:
    """The files of a project, compared with the last accepted state."""

    folder: Path
    manifests: tuple[Path, ...]
    _accepted: dict[Change, Fingerprint] = field(init=False)
    _seen: dict[Change, Fingerprint] = field(init=False)

    def __post_init__(self) -> None:
        self._accepted = self._seen = self._read()

    def changes(self) -> set[Change]:
        """Return what has changed since the last call that returned something."""
        before, self._seen = self._seen, self._read()
        if self._seen != before:
            return set()
        changed = {kind for kind in Change if self._seen[kind] != self._accepted[kind]}
        self._accepted = self._seen
        return changed

    def _read(self) -> dict[Change, Fingerprint]:
        return {
            Change.MANIFESTS: _fingerprint(self._manifest_files()),
            Change.HANDLERS: _fingerprint(_python_files(self.folder)),
            Change.CONFIGURATION: _fingerprint([self.folder / FILE_NAME]),
        }

    def _manifest_files(self) -> Iterator[Path]:
        for place in self.manifests:
            found = place.rglob("*") if place.is_dir() else [place]
            yield from (file for file in found if file.suffix in _MANIFEST_SUFFIXES)


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _is_own(Path(place) / name)]
        yield from (Path(place) / name for name in names if name.endswith(".py"))


def _is_own(folder: Path) -> bool:
    """Whether a folder has code of the project: not hidden, not installed, not built."""
    is_environment = (folder / "pyvenv.cfg").exists()
    return not (folder.name.startswith(".") or folder.name in _FOREIGN_FOLDERS or is_environment)


def _fingerprint(files: "Iterator[Path] | list[Path]") -> Fingerprint:
    found: Fingerprint = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:  # it was removed meanwhile
            continue
        found[file] = (status.st_mtime_ns, status.st_size)
    return found
