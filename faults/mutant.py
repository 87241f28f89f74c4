"""A build of the product with one guard removed.

A mutant is a copy of the tree with some exact texts replaced. If a text no longer exists, building
the mutant fails, and so does a test: the guard has moved, and the mutant has to be updated.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from faults.options import Options
from faults.remote_workload import Remote
from faults.testbed import ROOT


class OutdatedMutantError(Exception):
    """The text that a mutant replaces does not exist, or exists more than once."""


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement in one file."""

    file: str
    old: str
    new: str

    def apply(self, tree: Path) -> None:
        """Make the change in an installed tree."""
        folder, _, rest = self.file.partition("/")
        file = tree / _place(folder) / rest
        text = file.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            times = text.count(self.old)
            raise OutdatedMutantError(f"{self.file} contains {times} times: {self.old}")
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken build, and the faults that should reveal it."""

    name: str
    broken: str
    changes: tuple[Change, ...]
    faults: tuple[str, ...]
    steady: int = 80
    # Mean lifetime of the victims, in seconds.
    lifetime: float = 0.5
    victims: int = 4
    seconds: float = 20.0
    # Where the work runs that reveals it; None: in handlers.
    remote: Remote | None = None

    def options(self, seed: int, tree: Path) -> Options:
        """Return the options of a run that targets the broken part."""
        return Options(
            seed,
            seconds=self.seconds,
            faults=frozenset(self.faults),
            steady=self.steady,
            victims=self.victims,
            lifetime=self.lifetime,
            stall_timeout=60.0,
            tree=tree,
            until_found=True,
            remote=self.remote,
        )


def build(mutant: Mutant, folder: Path) -> Path:
    """Copy the product as installed, with the changes; return the folder."""
    tree = folder / mutant.name
    shutil.rmtree(tree, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in _folders():
        source, target = ROOT / name, tree / _place(name)
        shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
    for change in mutant.changes:
        change.apply(tree)
    return tree


def _folders() -> Iterator[str]:
    """Yield the root folders that ship."""
    for file in ROOT.glob("*/__init__.py"):
        if file.parent.name != "faults":
            yield file.parent.name


def _place(folder: str) -> Path:
    """Return where a root folder is installed."""
    return Path("tenantcron") if folder == "package" else Path("tenantcron") / folder
