"""The problems of one document while it is read, bounded so that reports stay short."""

from collections import Counter

from tenantcron.manifests.diagnostics import AND_MORE, MAX_OF_ONE_CODE, Pointer, Problem
from tenantcron.manifests.loading.events import Unreadable
from tenantcron.manifests.loading.source import Source


class Problems:
    """Collects problems in the order of reading, at most fifty of one code and a last word."""

    __slots__ = ("_counts", "_found", "source")

    def __init__(self, source: Source) -> None:
        """Start with none; places are offsets in the source."""
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
        """Keep a problem, or after fifty of its code say once that there are more."""
        self._counts[code] += 1
        if self._counts[code] > MAX_OF_ONE_CODE + 1:
            return
        if self._counts[code] == MAX_OF_ONE_CODE + 1:
            message, hint = AND_MORE, None
        span = self.source.span(*place)
        self._found.append(Problem(code, message, pointer, span, hint))

    def add_unreadable(self, error: Unreadable) -> None:
        """Keep the place where reading stopped."""
        self.add(error.code, error.message, (error.start, error.end), hint=error.hint)

    def is_full(self, code: str) -> bool:
        """Whether another problem of this code would leave no trace."""
        return self._counts[code] > MAX_OF_ONE_CODE

    def copy(self) -> "Problems":
        """Return the same problems, to which others can be added independently."""
        twin = Problems(self.source)
        twin._counts, twin._found = self._counts.copy(), self._found.copy()
        return twin

    def found(self) -> tuple[Problem, ...]:
        """Return what was kept."""
        return tuple(self._found)
