"""Where time comes from. None means the database's clock, the only one that all replicas share.

Every step takes a clock and passes what it says on to its statements, which fall back to the
database's own time. So nothing reads the machine's clock, and a test can say what time it is.
"""

from collections.abc import Callable
from datetime import datetime

Clock = Callable[[], datetime | None]


def database_clock() -> None:
    """Leave the time to the database."""
