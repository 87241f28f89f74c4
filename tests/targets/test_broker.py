"""The connections of the publisher to a broker."""

import fcntl
import resource
import socket
from collections.abc import Iterator
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from tenantcron.targets.celery.broker import _BrokerLine

MANY = 1100


@pytest.fixture
def many_files() -> Iterator[None]:
    """Allow descriptors above 1024, which `select` cannot watch."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= MANY:
        pytest.skip("needs more open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY + 10), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def line_of(sock: socket.socket) -> _BrokerLine:
    inner = SimpleNamespace(transport=SimpleNamespace(sock=sock))
    connection: Any = SimpleNamespace(connected=True, connection=inner)
    producer: Any = None
    return _BrokerLine(connection, producer, monotonic())


def test_a_closed_connection_is_found_whatever_its_descriptor(many_files: None) -> None:  # noqa: ARG001 -- raises a limit
    ours, broker = socket.socketpair()
    with ours, broker, socket.socket(fileno=fcntl.fcntl(ours, fcntl.F_DUPFD, MANY)) as high:
        line = line_of(high)
        assert not line.is_stale
        broker.close()
        assert line.is_stale
