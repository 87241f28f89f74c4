"""A separate, migrated database for each test."""

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, Engine, create_engine, make_url


@pytest.fixture
def url(database_url: str) -> URL:
    """The URL of the test's database."""
    return make_url(database_url).set(drivername="postgresql+psycopg")


@pytest.fixture
def engine(url: URL) -> Iterator[Engine]:
    """An engine with one connection, which all transactions share."""
    engine = create_engine(url, pool_size=1, max_overflow=0)
    yield engine
    engine.dispose()
