"""The source of time. None means the database's clock, the only one that all replicas share.

Every step takes a clock and passes its time to the statements, which default to the database's
time. Nothing reads the machine's clock, and a test can set the time.
"""

from collections.abc import Callable
from datetime import datetime

Clock = Callable[[], datetime | None]


def database_clock() -> None:
    """Use the database's clock."""
