"""Checks many manifests on all cores; a few are checked here, for a process is not free either."""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tenantcron.manifests.files import CheckedFile, Policies, read_files

# From here on the time saved is worth the processes: about two seconds' work.
WORTH_PROCESSES = 200
_CHUNK = 50


class Checker(NamedTuple):
    """How manifests are checked: by which policy, for which tenant, at what time."""

    policy: Path | None
    asked_for: str | None
    now: datetime
    # What is desired is costly to send back from another process, and few ask for it.
    keeps_desired: bool = False

    def check_all(self, paths: Sequence[Path]) -> Iterator[CheckedFile]:
        """Check manifests in their order."""
        cores = os.cpu_count() or 1
        if len(paths) < WORTH_PROCESSES or cores == 1:
            yield from self._check(paths, Policies(self.policy))
            return
        # Only here: a hook pays for no pool.
        from tenantcron.core.processes import forks_safely, process_pool  # noqa: PLC0415

        chunks = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
        with process_pool("fork" if forks_safely() else "spawn") as pool:
            for files in pool.map(self._check_chunk, chunks):
                yield from files

    def _check(self, paths: Sequence[Path], policies: Policies) -> Iterator[CheckedFile]:
        for manifest in read_files(paths, policies, self.asked_for):
            yield manifest.check(self.now)

    def _check_chunk(self, paths: Sequence[Path]) -> list[CheckedFile]:
        """Check a chunk in another process."""
        files = self._check(paths, _policies_of_this_process(self.policy))
        if self.keeps_desired:
            return list(files)
        return [file._replace(checked=file.checked._replace(desired=None)) for file in files]


@cache
def _policies_of_this_process(given: Path | None) -> Policies:
    """Return the policies, read once in each of the processes, not for each chunk."""
    return Policies(given)
