"""Fixtures of the tests of the reconciler."""

from pathlib import Path

import pytest
from support.fleet import Fleet

from tenantcron.store.connection.engine import Database


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Fleet:
    """An empty folder of manifests, for the database of the test."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    return Fleet(database, folder)
