"""What the tests of the dashboard share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.dashboard import furnish
from support.serving import Api, api_on

from tenantcron.store.engine import Database


@pytest.fixture
async def api(database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """A server on a database of the test's own, with something to see in it."""
    async with api_on(database, tmp_path) as running:
        await furnish(running)
        yield running
