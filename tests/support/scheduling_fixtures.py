"""Fixtures of tests that take the steps of a scheduler."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.scheduling import Scheduling

from tenantcron.core.settings import Settings
from tenantcron.scheduler.replica import polling_loops
from tenantcron.store.connection.engine import Database


@pytest.fixture
async def scheduling(database: Database, tmp_path: Path) -> Scheduling:
    """An empty database at noon on the first of December 2026."""
    scheduling = Scheduling(database, Settings(folder=tmp_path))
    await scheduling.prepare()
    return scheduling


@pytest.fixture
def real(scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch) -> Scheduling:
    """The same with the real clock of the database. Tests make its schedules due with SQL."""
    # No notification is sent when a test makes a cursor due.
    monkeypatch.setattr(polling_loops, "LONGEST_SLEEP", 0.3)
    # A stalled machine must not let a lease or a drain expire.
    patient = timedelta(minutes=1)
    settings = replace(scheduling.settings, lease=patient, drain=patient)
    return replace(scheduling, settings=settings)
