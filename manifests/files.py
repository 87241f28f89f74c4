"""Manifests on disk: find the files, read them, and check them across files."""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TENANT_EXPECTED, is_reserved, is_tenant_id
from tenantcron.manifests.check import CheckedManifest, TenantHints, check_manifest
from tenantcron.manifests.diagnostics import START, Diagnostic, Problem
from tenantcron.manifests.document import Syntax
from tenantcron.manifests.loading.source import MAX_BYTES, too_large
from tenantcron.manifests.policy import Policy, default_policy, find_policy, load_policy

SUFFIXES = (".yaml", ".yml", ".json")
# Before the suffix, for repositories that have other YAML and JSON files: `acme.manifest.json`.
_MARK = ".manifest"
# Represents standard input in diagnostics.
STDIN = Path("<stdin>")
_ONE_FILE = "move all schedules of the tenant to one file, or correct `tenant:` in the other"


class CheckedFile(NamedTuple):
    """A file and the result of its check."""

    path: Path
    checked: CheckedManifest

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The problems of this file."""
        return [Diagnostic(self.path.as_posix(), problem) for problem in self.checked.problems]


def find_files(paths: Iterable[Path]) -> list[Path]:
    """Return the manifests of files and folders, each file once."""
    found: dict[Path, Path] = {}
    for path in paths:
        for file in _below(path) if path.is_dir() else [path]:
            if not file.is_file():
                missing = "not a file" if os.path.lexists(file) else "no such file"
                raise UsageError(f"{file}: {missing}")
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _below(folder: Path) -> list[Path]:
    """Return the manifests in a folder, except in hidden folders such as .git and .github."""
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        # Do not even list hidden folders: a virtual environment has thousands of files.
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += (
            Path(place, name)
            for name in files
            if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        )
    if not found:
        raise UsageError(f"{folder}: found no manifests ({', '.join(SUFFIXES)})")
    return sorted(found)


class Policies:
    """Finds the policy of each file: the given one, else the nearest tenantcron.toml."""

    def __init__(self, given: Path | None) -> None:
        self._given = (given, load_policy(given)) if given else None
        self._of_folder: dict[Path, Policy] = {}
        self._of_file: dict[Path | None, Policy] = {}

    @property
    def used(self) -> Mapping[Path | None, Policy]:
        """The policies that were returned so far, by file; None is the default policy."""
        return self._of_file

    def of(self, manifest: Path) -> Policy:
        """Return the policy of a manifest; each policy file is read once."""
        if self._given is not None:
            file, policy = self._given
            return self._of_file.setdefault(file, policy)
        folder = manifest.parent
        if folder not in self._of_folder:
            self._of_folder[folder] = self._nearest(folder.absolute())
        return self._of_folder[folder]

    def _nearest(self, folder: Path) -> Policy:
        file = find_policy(folder)
        if file not in self._of_file:
            self._of_file[file] = default_policy() if file is None else load_policy(file)
        return self._of_file[file]


def policy_files(manifests: Iterable[Path], given: Path | None) -> list[str]:
    """Return the policy files of the manifests, relative to the working directory if below it."""
    if given is not None:
        return [given.as_posix()]
    folders = {manifest.parent.absolute() for manifest in manifests}
    found = {file for folder in folders if (file := find_policy(folder))}
    return sorted(shown_path(file) for file in found)


def shown_path(file: Path) -> str:
    """Return a path, relative to the working directory if it is below it."""
    here = Path.cwd()
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()


class ManifestFile(NamedTuple):
    """A manifest on disk with everything that determines its meaning; `asked_for` is --tenant."""

    path: Path
    content: bytes
    policy: Policy
    asked_for: str | None
    # The size of a file that is too large, so its content is not complete.
    excessive: int | None = None

    def check(self, now: datetime) -> CheckedFile:
        """Check the manifest."""
        if self.excessive is not None:
            problems = (too_large(self.excessive),)
            return CheckedFile(self.path, CheckedManifest(None, START, None, problems))
        syntax: Syntax = "json" if self.path.suffix.lower() == ".json" else "yaml"
        stem = None if self.path == STDIN else self.path.stem.removesuffix(_MARK)
        hints = TenantHints(self.asked_for, stem)
        checked = check_manifest(self.content, syntax, self.policy, hints, now)
        return CheckedFile(self.path, checked)


def read_files(
    paths: Iterable[Path], policies: Policies, asked_for: str | None
) -> Iterator[ManifestFile]:
    """Read the files one after the other, without keeping them in memory."""
    require_tenant(asked_for)
    for path in paths:
        content, excessive = _read(path)
        yield ManifestFile(path, content, policies.of(path), asked_for, excessive)


def require_tenant(asked_for: str | None) -> None:
    """Raise UsageError for a --tenant that cannot be a tenant."""
    if asked_for is not None and (not is_tenant_id(asked_for) or is_reserved(asked_for)):
        raise UsageError(f"--tenant {asked_for!r} is not {TENANT_EXPECTED}")


def _read(file: Path) -> tuple[bytes, int | None]:
    """Read a file, at most one byte more than allowed, and its size if that is too large."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
            size = os.fstat(stream.fileno()).st_size
            return content, size if MAX_BYTES < len(content) < size else None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error


def declared_in_several(tenant: str, files: int, file: Path) -> Diagnostic:
    """Return the diagnostic for a tenant with several files: each would undo the others."""
    message = f"tenant `{tenant}` is declared in {files} files"
    return Diagnostic(file.as_posix(), Problem("TC501", message, ("tenant",), START, _ONE_FILE))


class TenantsSeen:
    """Tracks which file declares which tenant."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}

    def add(self, file: CheckedFile) -> Diagnostic | None:
        """Add a file; return a diagnostic if another file already declares its tenant."""
        tenant = file.checked.tenant
        if tenant is None:
            return None
        first = self._files.setdefault(tenant, file.path)
        if first is file.path:
            return None
        message = f"tenant `{tenant}` is declared in {first.as_posix()} too"
        problem = Problem("TC501", message, ("tenant",), file.checked.tenant_span, _ONE_FILE)
        return Diagnostic(file.path.as_posix(), problem)
