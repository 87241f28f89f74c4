"""A signal that wakes a sleeping loop."""

import asyncio
from contextlib import suppress


class WakeSignal:
    """Wakes a loop early. Several calls of `set` before the loop runs wake it once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        # Whether the signal ended the last wait. Otherwise the wait timed out.
        self.was_set = True

    def set(self) -> None:
        """Wake the loop, or end its next wait at once."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the signal, at most that long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self.was_set = self._event.is_set()
        self._event.clear()
