"""Check manifests, many of them in parallel processes."""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tenantcron.manifests.files import (
    STDIN,
    CheckedFile,
    ManifestFile,
    Policies,
    read_files,
    require_tenant,
)

# About two seconds of work; for less, starting processes takes longer than it saves.
WORTH_PROCESSES = 200
_CHUNK = 50


class ManifestChecker(NamedTuple):
    """Checks manifests with a policy, for a tenant, at a time."""

    policy: Path | None
    asked_for: str | None
    now: datetime
    # Desired schedules are expensive to return from another process, and few callers need them.
    keeps_desired: bool = False

    def check_all(self, paths: Sequence[Path]) -> Iterator[CheckedFile]:
        """Check manifests in order."""
        cores = os.cpu_count() or 1
        if len(paths) < WORTH_PROCESSES or cores == 1:
            yield from self._check(paths, Policies(self.policy))
            return
        # Imported only here, so a hook does not pay for the pool.
        from tenantcron.core.processes import forks_safely, process_pool  # noqa: PLC0415

        chunks = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
        with process_pool("fork" if forks_safely() else "spawn") as pool:
            for files in pool.map(self._check_chunk, chunks):
                yield from files

    def check_stdin(self, content: bytes) -> CheckedFile:
        """Check a manifest from standard input, with the policy of the working folder."""
        require_tenant(self.asked_for)
        policy = Policies(self.policy).of(STDIN)
        return ManifestFile(STDIN, content, policy, self.asked_for).check(self.now)

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
    """Return the policies, which each process reads once, not for each chunk."""
    return Policies(given)
