"""Sources of a fleet, kept on disk until all of them are prepared.

A tenant that two files declare is refused in both, so nothing can be planned before the last file
was checked. What was checked waits in a temporary file, which only this process can open and which
ends with it. Memory holds one id and one number per tenant.
"""

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from io import SEEK_END
from tempfile import SpooledTemporaryFile, gettempdir
from types import TracebackType
from typing import Generic, Self, TypeVar

from tenantcron.core.errors import UsageError
from tenantcron.core.names import TenantId
from tenantcron.manifests.files import declared_in_several
from tenantcron.reconciler.sources import Prepared

# A few hundred tenants never reach the disk.
_BYTES_IN_MEMORY = 4 * 1024 * 1024

T = TypeVar("T")


class Spooled(Generic[T]):
    """Takes values one by one, and yields them in that order, as often as it is asked."""

    def __init__(self) -> None:
        self._kept = SpooledTemporaryFile(_BYTES_IN_MEMORY)  # noqa: SIM115 -- closed by `close`
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget all."""
        self._kept.close()

    def add(self, value: T) -> None:
        """Keep a value."""
        try:
            self._kept.seek(0, SEEK_END)
            pickle.dump(value, self._kept, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            place = f"{gettempdir()}: checked manifests cannot be kept here: {error.strerror}"
            raise UsageError(f"{place}; free some space or set TMPDIR") from error
        self._number += 1

    def __len__(self) -> int:
        """Count the values."""
        return self._number

    def __iter__(self) -> Iterator[T]:
        """Yield the values; several may read at the same time, each at its own place."""
        place = 0
        for _ in range(self._number):
            self._kept.seek(place)
            value: T = pickle.load(self._kept)  # noqa: S301 -- written by `add`
            place = self._kept.tell()
            yield value


class Spool(Spooled[Prepared]):
    """Keeps prepared sources; all files of a tenant that has more than one are refused."""

    def __init__(self) -> None:
        super().__init__()
        self._files: Counter[TenantId] = Counter()

    def add(self, prepared: Prepared) -> None:
        """Keep a source."""
        super().add(prepared)
        if prepared.tenant is not None:
            self._files[prepared.tenant] += 1

    def __iter__(self) -> Iterator[Prepared]:
        """Yield the sources."""
        return map(self._unless_double, super().__iter__())

    def _unless_double(self, prepared: Prepared) -> Prepared:
        if prepared.tenant is None or self._files[prepared.tenant] == 1:
            return prepared
        number = self._files[prepared.tenant]
        double = declared_in_several(prepared.tenant, number, prepared.file)
        return replace(prepared, desired=None, diagnostics=(*prepared.diagnostics, double))
