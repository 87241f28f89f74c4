"""Checks manifests that the database does not know yet; many of them on all cores.

Nothing here may import a database driver: each of the processes would pay for it.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tenantcron.core.batches import batches
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile
from tenantcron.manifests.many import WORTH_PROCESSES
from tenantcron.reconciler.document import Stored, checksum, document, stored
from tenantcron.schedules.definition import define

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

# Small enough that all cores end at about the same time.
_CHUNK = 20
_MOST_SERVING = 4
_NICENESS = 5


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
        desired = found.checked.desired
        if desired is None:
            return Found(found.checked.tenant, None, "", diagnostics)
        return Found(found.checked.tenant, *_defined(desired), diagnostics)


class CheckLostError(TenantcronError):
    """A process ended in the middle of a check; nothing is wrong with the manifest."""


class Checking:
    """Checks manifests: a few in a thread, others in processes, which start when they are needed.

    The processes are kept until the end. A server has all manifests checked by processes of low
    priority, however few: one thread that checks would slow down all that the server does.
    """

    def __init__(self, *, serving: bool = False) -> None:
        self._serving = serving
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
            self._pool = None

    async def all(self, check: Check, files: Sequence[ManifestFile]) -> list[Found]:
        """Check manifests in their order."""
        is_fleet = len(files) >= WORTH_PROCESSES and (os.cpu_count() or 1) > 1
        if is_fleet or self._serving:
            return await self._in_processes(check, files)
        # One at a time, so that other tasks continue meanwhile.
        return [found for file in files for found in await asyncio.to_thread(check.some, [file])]

    async def _in_processes(self, check: Check, files: Sequence[ManifestFile]) -> list[Found]:
        from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415 -- few need it

        loop, pool = asyncio.get_running_loop(), self._processes()
        chunks = batches(files, _CHUNK)
        try:
            running = [loop.run_in_executor(pool, check.some, chunk) for chunk in chunks]
            return [found for chunk in running for found in await chunk]
        except BrokenProcessPool as error:
            # The next call starts new processes.
            if self._pool is pool:
                self._pool = None
            raise CheckLostError("a process that checked manifests was ended") from error

    def _processes(self) -> "ProcessPoolExecutor":
        from tenantcron.core.processes import process_pool  # noqa: PLC0415 -- few need it

        if self._pool is None and self._serving:
            # One core is left to the server itself.
            workers = max(1, min(_MOST_SERVING, (os.cpu_count() or 1) - 1))
            self._pool = process_pool(
                "forkserver", workers=workers, niceness=_NICENESS, preload=[__name__]
            )
        elif self._pool is None:
            # Fresh processes: a forked one would share the connections to the database.
            self._pool = process_pool("spawn")
        return self._pool


def _defined(desired: Desired) -> tuple[Stored, str]:
    written = document(map(define, desired.schedules))
    return stored(written), checksum(written)
