"""Checks manifests that the database does not know yet; many of them on all cores.

Nothing here may import a database driver: each of the processes would pay for it.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tenantcron.core.memory import FLEET, collect_rarely
from tenantcron.core.names import TenantId
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile
from tenantcron.manifests.many import WORTH_PROCESSES
from tenantcron.reconciler.definition import Stored, checksum, define, document, stored

# Small enough that all cores end at about the same time.
_CHUNK = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest after its check: what it wants, with its checksum, unless it has errors."""

    tenant: TenantId | None
    definitions: Stored | None
    checksum: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """How manifests are checked: with which caps of the tenants' own, and at what time."""

    caps: Mapping[TenantId, int]
    now: datetime

    async def all(self, files: Sequence[ManifestFile]) -> AsyncIterator[Found]:
        """Check manifests in their order."""
        if len(files) >= WORTH_PROCESSES and (os.cpu_count() or 1) > 1:
            async for found in self._in_processes(files):
                yield found
            return
        for file in files:
            # A server goes on serving meanwhile.
            yield await asyncio.to_thread(self._one, file)

    async def _in_processes(self, files: Sequence[ManifestFile]) -> AsyncIterator[Found]:
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 -- few need it
        from multiprocessing import get_context  # noqa: PLC0415 -- as above

        loop = asyncio.get_running_loop()
        # Fresh processes: a forked one would share the connections to the database.
        pool = ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_settle)
        try:
            chunks = (files[start : start + _CHUNK] for start in range(0, len(files), _CHUNK))
            for some in [loop.run_in_executor(pool, self._some, chunk) for chunk in chunks]:
                for found in await some:
                    yield found
        finally:
            pool.shutdown(cancel_futures=True)

    def _some(self, files: Sequence[ManifestFile]) -> list[Found]:
        """Check a chunk, in another process."""
        return [self._one(file) for file in files]

    def _one(self, file: ManifestFile) -> Found:
        capped = file._replace(policy=file.policy._replace(caps=self.caps))
        found = capped.check(self.now)
        diagnostics = tuple(found.diagnostics)
        wanted = found.checked.desired
        if wanted is None:
            return Found(found.checked.tenant, None, "", diagnostics)
        return Found(found.checked.tenant, *_defined(wanted), diagnostics)


def _defined(desired: Desired) -> tuple[Stored, str]:
    written = document(map(define, desired.schedules))
    return stored(written), checksum(written)


def _settle() -> None:
    """Make a process fit for its work, which makes many objects and no cycles."""
    # Ctrl-C reaches all processes of a terminal; the one that started them ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely(FLEET)
