"""What a run does later, in the order of its time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from time import monotonic


@dataclass(slots=True)
class Agenda:
    """Actions with the moments that they are due at."""

    heap: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=count)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        heappush(self.heap, (monotonic() + seconds, next(self.numbers), action))

    def do_due(self) -> None:
        """Do what is due."""
        while self.heap and self.heap[0][0] <= monotonic():
            heappop(self.heap)[2]()
