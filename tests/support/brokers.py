"""A real RabbitMQ and a real Redis on loopback, which can be killed and started on their files.

Without their programs the tests that need them are skipped. With `CELERY_TESTS=required`, as in CI,
they fail instead.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.ports import free_port

from faults import brokers
from faults.brokers import Broker

REQUIRED = "CELERY_TESTS"


def require_celery() -> Any:
    """Import Celery, or skip the test without it."""
    if os.environ.get(REQUIRED) == "required":
        __import__("celery")
    return pytest.importorskip("celery")


def require_rabbitmq() -> None:
    """Skip the test without RabbitMQ and Celery."""
    require_celery()
    if (missing := brokers.missing_program()) is not None:
        _missing(missing)


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Broker]:
    """Run RabbitMQ for the duration of the block."""
    require_rabbitmq()
    with brokers.rabbitmq(folder, free_port) as broker:
        yield broker


@contextmanager
def redis(folder: Path) -> Iterator[Broker]:
    """Run Redis, which writes every command to a file, for the duration of the block."""
    program, port = _program("redis-server"), free_port()
    command = (
        *(program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
        *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
    )
    broker = Broker(f"redis://127.0.0.1:{port}/0", port, command)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _program(name: str) -> str:
    return shutil.which(name) or _missing(name)


def _missing(name: str) -> str:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{name} is missing: apt-get install rabbitmq-server redis-server")
    pytest.skip(f"needs {name}")
