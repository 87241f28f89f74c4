"""Prepared sources, kept on disk until all of a fleet are prepared.

A tenant that two files declare is refused in both, so nothing can be planned before the last file
was checked. What was checked waits in a temporary file, which only this process can open and which
ends with it. Memory holds one id and one number per tenant.
"""

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from tempfile import SpooledTemporaryFile, gettempdir
from types import TracebackType
from typing import Self

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.manifests.files import declared_in_several
from tenantcron.reconciler.sources import Prepared

# A few hundred tenants never reach the disk.
_BYTES_IN_MEMORY = 4 * 1024 * 1024


class Spool:
    """Takes sources as they are prepared, then yields them in that order."""

    def __init__(self) -> None:
        self._kept = SpooledTemporaryFile(_BYTES_IN_MEMORY)  # noqa: SIM115 -- closed by `close`
        self._files: Counter[TenantId] = Counter()
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._kept.close()

    def add(self, prepared: Prepared) -> None:
        """Keep a source."""
        try:
            pickle.dump(prepared, self._kept, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            place = f"{gettempdir()}: checked manifests cannot be kept here: {error.strerror}"
            raise UsageError(f"{place}; free some space or set TMPDIR") from error
        self._number += 1
        if prepared.tenant is not None:
            self._files[prepared.tenant] += 1

    def __len__(self) -> int:
        """Count the sources."""
        return self._number

    def __iter__(self) -> Iterator[Prepared]:
        """Yield the sources; all files of a tenant that has more than one are refused."""
        self._kept.seek(0)
        for _ in range(self._number):
            prepared: Prepared = pickle.load(self._kept)  # noqa: S301 -- written by `add`
            yield self._unless_double(prepared)

    def _unless_double(self, prepared: Prepared) -> Prepared:
        if prepared.tenant is None or self._files[prepared.tenant] == 1:
            return prepared
        number = self._files[prepared.tenant]
        double = declared_in_several(prepared.tenant, number, prepared.file)
        return replace(prepared, wanted=None, diagnostics=(*prepared.diagnostics, double))
