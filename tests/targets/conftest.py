"""Fixtures of the tests of targets."""

from collections.abc import AsyncIterator

import pytest
from support.services import Service, service


@pytest.fixture
async def target() -> AsyncIterator[Service]:
    """A service that answers 200."""
    async with service() as running:
        yield running
