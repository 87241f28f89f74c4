"""What the tests of the dashboard share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser
from support.browser import browser
from support.dashboard import furnish
from support.serving import Api, api_on

from tenantcron.store.connection.engine import Database


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """One browser for all tests of a worker: to start it takes longer than most of them."""
    async with browser() as running:
        yield running


@pytest.fixture
async def api(database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """A server on a database of the test's own, with something to see in it."""
    async with api_on(database, tmp_path) as running:
        await furnish(running)
        yield running
