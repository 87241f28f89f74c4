"""Shared fixtures of the tests of events."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nats_server import NatsServer, nats_server
from support.scheduling_fixtures import real, scheduling

__all__ = ["nats", "real", "scheduling"]


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A real NATS server with JetStream; each test uses its own stream."""
    folder: Path = tmp_path_factory.mktemp("nats")
    with nats_server(folder) as server:
        yield server
