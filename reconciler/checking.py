"""Checks manifests that are new to the database, a large number of them on all cores.

This module must not import a database driver, which would slow down the start of each process.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tenantcron.core.batches import batches
from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import TenantId
from tenantcron.core.quotas import Quotas
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile
from tenantcron.manifests.many import WORTH_PROCESSES
from tenantcron.reconciler.document import Stored, checksum, document, stored
from tenantcron.schedules.definition import define

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

# Small enough that all cores finish at about the same time.
_CHUNK = 20
_MOST_SERVING = 4
_NICENESS = 5


@dataclass(frozen=True, slots=True)
class Found:
    """A checked manifest: its definitions and checksum unless it has errors."""

    tenant: TenantId | None
    definitions: Stored | None
    checksum: str
    diagnostics: tuple[Diagnostic, ...]
    # The keys of the timetables in the manifest, by schedule.
    forms: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """The parameters of a check: the caps and quotas that operators have set, and the time."""

    caps: Mapping[TenantId, int]
    now: datetime
    quotas: Mapping[TenantId, Quotas] = field(default_factory=dict)

    def check_chunk(self, files: Sequence[ManifestFile]) -> list[Found]:
        """Check several manifests, possibly in another process."""
        return [self.check(file) for file in files]

    def check(self, file: ManifestFile) -> Found:
        """Check a manifest."""
        caps = {**file.policy.caps, **self.caps}
        quotas = file.policy.quotas.overridden(self.quotas)
        capped = file._replace(policy=file.policy._replace(caps=caps, quotas=quotas))
        found = capped.check(self.now)
        diagnostics = tuple(found.diagnostics)
        desired = found.checked.desired
        if desired is None:
            return Found(found.checked.tenant, None, "", diagnostics)
        forms = {str(schedule.name): schedule.timing.form for schedule in desired.schedules}
        return Found(found.checked.tenant, *_defined(desired), diagnostics, forms)


class CheckLostError(TenantcronError):
    """A worker process ended during a check; this is not an error of the manifest."""


class Checking:
    """Checks manifests: a few in a thread, many in worker processes, which start on demand.

    The processes are kept until the end. A server always uses processes with a low priority,
    because a check in a thread would slow down all other requests.
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
        """Check manifests; return the results in the same order."""
        is_fleet = len(files) >= WORTH_PROCESSES and (os.cpu_count() or 1) > 1
        if is_fleet or self._serving:
            return await self._in_processes(check, files)
        # One at a time, so that other tasks can run in between.
        return [await asyncio.to_thread(check.check, file) for file in files]

    async def _in_processes(self, check: Check, files: Sequence[ManifestFile]) -> list[Found]:
        from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415 -- few need it

        loop, pool = asyncio.get_running_loop(), self._processes()
        chunks = batches(files, _CHUNK)
        try:
            running = [loop.run_in_executor(pool, check.check_chunk, chunk) for chunk in chunks]
            return [found for chunk in running for found in await chunk]
        except BrokenProcessPool as error:
            # The next call starts new processes.
            if self._pool is pool:
                self._pool = None
            raise CheckLostError("a worker process ended during a manifest check") from error

    def _processes(self) -> "ProcessPoolExecutor":
        from tenantcron.core.processes import process_pool  # noqa: PLC0415 -- few need it

        if self._pool is None and self._serving:
            # Leave one core to the server itself.
            workers = max(1, min(_MOST_SERVING, (os.cpu_count() or 1) - 1))
            self._pool = process_pool(
                "forkserver", workers=workers, niceness=_NICENESS, preload=[__name__]
            )
        elif self._pool is None:
            # Not forked: a forked process would share the database connections.
            self._pool = process_pool("spawn")
        return self._pool


def _defined(desired: Desired) -> tuple[Stored, str]:
    content = document(map(define, desired.schedules))
    return stored(content), checksum(content)
