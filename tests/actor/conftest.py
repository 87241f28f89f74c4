"""A migrated database of its own for each test that needs one."""

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, Engine, create_engine, make_url


@pytest.fixture
def url(database_url: str) -> URL:
    """Give the URL of the test's database."""
    return make_url(database_url).set(drivername="postgresql+psycopg")


@pytest.fixture
def engine(url: URL) -> Iterator[Engine]:
    """Give an engine with one connection, which every transaction uses in turn."""
    engine = create_engine(url, pool_size=1, max_overflow=0)
    yield engine
    engine.dispose()
