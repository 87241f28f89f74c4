"""Close idle connections of the pool, except for two.

A burst of work opens one connection per concurrent step, and every idle connection costs the server
memory and one of its `max_connections`. The pool reuses the last returned connection, so the others
stay idle after a burst. Whenever a connection is returned to the pool, connections that have been
idle for too long are closed. The pool opens new ones on demand.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final
from weakref import WeakSet

from sqlalchemy import Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

KEPT: Final = 2
LONGEST_IDLE: Final = 30.0
# Seconds between two checks: a busy pool gets connections back thousands of times per second.
_LOOK_EVERY: Final = 1.0
_SINCE: Final = "tenantcron_idle_since"


def close_idle_connections(engine: Engine, clock: Callable[[], float] = monotonic) -> None:
    """Watch the pool of an engine during its lifetime."""
    watch = _Watch(clock)
    event.listen(engine, "connect", watch.connected)
    event.listen(engine, "checkin", watch.returned)


class _Watch:
    """The connections of one pool, and since when each is idle."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: WeakSet[ConnectionPoolEntry] = WeakSet()
        self._next_look = clock() + _LOOK_EVERY

    def connected(self, _: object, entry: ConnectionPoolEntry) -> None:
        self._entries.add(entry)

    def returned(self, _: object, entry: ConnectionPoolEntry) -> None:
        now = self._clock()
        entry.info[_SINCE] = now
        if now >= self._next_look:
            self._next_look = now + _LOOK_EVERY
            self._close_idle(now)

    def _close_idle(self, now: float) -> None:
        idle = [entry for entry in self._entries if _is_idle(entry)]
        idle.sort(key=_since, reverse=True)
        for entry in idle[KEPT:]:
            if now - _since(entry) > LONGEST_IDLE:
                entry.close()


def _is_idle(entry: ConnectionPoolEntry) -> bool:
    return entry.dbapi_connection is not None and not entry.in_use and _SINCE in entry.info


def _since(entry: ConnectionPoolEntry) -> float:
    return float(entry.info[_SINCE])
