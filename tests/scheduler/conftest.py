"""What the tests of the scheduler share."""

from pathlib import Path

import pytest
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.store.engine import Database


@pytest.fixture
async def scheduling(database: Database, tmp_path: Path) -> Scheduling:
    """An empty database at noon on the first of December 2026."""
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.prepare()
    return scheduling
