"""Actions that a run executes later, ordered by time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from time import monotonic


@dataclass(slots=True)
class Timers:
    """Actions with the times at which they are due."""

    heap: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=count)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule an action in this many seconds."""
        heappush(self.heap, (monotonic() + seconds, next(self.numbers), action))

    def run_due(self) -> None:
        """Run all actions that are due."""
        while self.heap and self.heap[0][0] <= monotonic():
            heappop(self.heap)[2]()
