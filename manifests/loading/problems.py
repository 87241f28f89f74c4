"""The problems of a document while it is read, with a limit per code."""

from collections import Counter

from tenantcron.manifests.diagnostics import AND_MORE, MAX_OF_ONE_CODE, Pointer, Problem
from tenantcron.manifests.loading.events import Unreadable
from tenantcron.manifests.loading.source import Source


class Problems:
    """Collects problems in the order of reading, with a limited number per code."""

    __slots__ = ("_counts", "_found", "source")

    def __init__(self, source: Source) -> None:
        """Start empty; positions are offsets in the source."""
        self.source = source
        self._counts: Counter[str] = Counter()
        self._found: list[Problem] = []

    def add(
        self,
        code: str,
        message: str,
        place: tuple[int, int],
        *,
        pointer: Pointer = (),
        hint: str | None = None,
    ) -> None:
        """Add a problem, or above the limit of its code once a note that there are more."""
        self._counts[code] += 1
        if self._counts[code] > MAX_OF_ONE_CODE + 1:
            return
        if self._counts[code] == MAX_OF_ONE_CODE + 1:
            message, hint = AND_MORE, None
        span = self.source.span(*place)
        self._found.append(Problem(code, message, pointer, span, hint))

    def add_unreadable(self, error: Unreadable) -> None:
        """Add the error that stopped reading."""
        self.add(error.code, error.message, (error.start, error.end), hint=error.hint)

    def is_full(self, code: str) -> bool:
        """Whether another problem of this code would not be listed."""
        return self._counts[code] > MAX_OF_ONE_CODE

    def copy(self) -> "Problems":
        """Return an independent copy."""
        twin = Problems(self.source)
        twin._counts, twin._found = self._counts.copy(), self._found.copy()
        return twin

    def found(self) -> tuple[Problem, ...]:
        """Return the problems."""
        return tuple(self._found)
