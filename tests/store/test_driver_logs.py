"""Log messages of the driver."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import structlog

from tenantcron.core.logs import configure_logs
from tenantcron.core.settings import LogFormat, Settings
from tenantcron.core.standard_logging import forget_standard_logging


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The JSON log of a scheduler."""
    stream = io.StringIO()
    configure_logs(Settings(folder=Path(), log_format=LogFormat.JSON), stream)
    yield stream
    structlog.reset_defaults()
    forget_standard_logging()


def test_a_message_of_psycopg_is_a_line_of_json(
    log: io.StringIO, database_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(database_url) as session:
        # A zone that Python does not know; psycopg warns once about each.
        session.execute("SET timezone TO '<ODD>-03:07'")
        session.execute("SELECT now()").fetchone()

    (line,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert line["logger"] == "psycopg"
    assert line["level"] == "warning"
    assert "ODD" in line["event"]
    assert capfd.readouterr().err == ""
