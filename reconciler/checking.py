"""Checks manifests that the database does not know yet; many of them on all cores.

Nothing here may import a database driver: each of the processes would pay for it.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tenantcron.core.batches import batches
from tenantcron.core.memory import FLEET, collect_rarely
from tenantcron.core.names import TenantId
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile
from tenantcron.manifests.many import WORTH_PROCESSES
from tenantcron.reconciler.definition import Stored, checksum, define, document, stored

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

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

    def some(self, files: Sequence[ManifestFile]) -> list[Found]:
        """Check a chunk, perhaps in another process."""
        return [self.one(file) for file in files]

    def one(self, file: ManifestFile) -> Found:
        """Check one manifest."""
        capped = file._replace(policy=file.policy._replace(caps=self.caps))
        found = capped.check(self.now)
        diagnostics = tuple(found.diagnostics)
        wanted = found.checked.desired
        if wanted is None:
            return Found(found.checked.tenant, None, "", diagnostics)
        return Found(found.checked.tenant, *_defined(wanted), diagnostics)


class Checking:
    """Checks manifests batch by batch; processes start with the first large batch and are kept."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    async def all(self, files: Sequence[ManifestFile]) -> list[Found]:
        """Check manifests in their order."""
        if len(files) >= WORTH_PROCESSES and (os.cpu_count() or 1) > 1:
            return await self._in_processes(files)
        # One at a time, so that a server continues to serve meanwhile.
        return [
            found for file in files for found in await asyncio.to_thread(self.check.some, [file])
        ]

    async def _in_processes(self, files: Sequence[ManifestFile]) -> list[Found]:
        loop, pool = asyncio.get_running_loop(), self._processes()
        chunks = batches(files, _CHUNK)
        running = [loop.run_in_executor(pool, self.check.some, chunk) for chunk in chunks]
        return [found for chunk in running for found in await chunk]

    def _processes(self) -> "ProcessPoolExecutor":
        if self._pool is None:
            from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 -- few need it
            from multiprocessing import get_context  # noqa: PLC0415 -- as above

            # Fresh processes: a forked one would share the connections to the database.
            self._pool = ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_settle)
        return self._pool


def _defined(desired: Desired) -> tuple[Stored, str]:
    written = document(map(define, desired.schedules))
    return stored(written), checksum(written)


def _settle() -> None:
    """Make a process fit for its work, which makes many objects and no cycles."""
    # Ctrl-C reaches all processes of a terminal; the one that started them ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely(FLEET)
