"""What the tests of the API share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.serving import Api, api_on

from tenantcron.store.connection.engine import Database


@pytest.fixture
async def api(database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """A server on a database of the test's own."""
    async with api_on(database, tmp_path) as running:
        yield running
