"""A spool on disk for the sources of a fleet, until all of them are prepared.

If two files declare a tenant, both are refused, so planning starts after the last file is checked.
Until then, checked sources are in a temporary file, which only this process can open and which is
deleted with it. Memory holds an id and a count per tenant.
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
    """Stores values one by one and yields them in the same order, any number of times."""

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
        """Delete all values."""
        self._kept.close()

    def add(self, value: T) -> None:
        """Store a value."""
        try:
            self._kept.seek(0, SEEK_END)
            pickle.dump(value, self._kept, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            message = f"{gettempdir()}: checked manifests cannot be stored: {error.strerror}"
            raise UsageError(f"{message}; free some space or set TMPDIR") from error
        self._number += 1

    def __len__(self) -> int:
        """Count the values."""
        return self._number

    def __iter__(self) -> Iterator[T]:
        """Yield the values; concurrent iterations are independent."""
        offset = 0
        for _ in range(self._number):
            self._kept.seek(offset)
            value: T = pickle.load(self._kept)  # noqa: S301 -- written by `add`
            offset = self._kept.tell()
            yield value


class Spool(Spooled[Prepared]):
    """Stores prepared sources; if a tenant has several files, all of them are refused."""

    def __init__(self) -> None:
        super().__init__()
        self._files: Counter[TenantId] = Counter()

    def add(self, prepared: Prepared) -> None:
        """Store a source."""
        super().add(prepared)
        if prepared.tenant is not None:
            self._files[prepared.tenant] += 1

    def __iter__(self) -> Iterator[Prepared]:
        """Yield the sources."""
        return map(self._refuse_duplicate, super().__iter__())

    def _refuse_duplicate(self, prepared: Prepared) -> Prepared:
        if prepared.tenant is None or self._files[prepared.tenant] == 1:
            return prepared
        number = self._files[prepared.tenant]
        duplicate = declared_in_several(prepared.tenant, number, prepared.file)
        return replace(prepared, desired=None, diagnostics=(*prepared.diagnostics, duplicate))
