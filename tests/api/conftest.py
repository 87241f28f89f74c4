"""Fixtures of the tests of the API."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.serving import Api, api_on

from tenantcron.store.connection.engine import Database


@pytest.fixture
async def api(database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """A server on the database of the test."""
    async with api_on(database, tmp_path) as running:
        yield running
