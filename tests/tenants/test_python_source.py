"""A tenant source in Python: an entry point of an installed distribution."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from support.distribution import install
from support.patience import PATIENCE
from support.platform import Platform

from tenantcron.core.errors import UsageError
from tenantcron.store.connection.engine import Database
from tenantcron.tenants.source import reading
from tenantcron.tenants.source.reading import SourceError, TenantSource, tenant_source

GROUP = "tenantcron.tenants"
MODULE = '''
"""The registry of a platform."""

def plain():
    return [{"id": "acme", "labels": {"tier": "gold"}}, {"id": "globex", "status": "suspended"}]

async def later():
    return ({"id": name} for name in ("acme", "globex"))

def broken():
    raise ConnectionError("the registry is away")

def odd():
    return [{"id": "acme"}, "globex"]

def unwritable():
    return [{"id": "acme", "labels": {"since": object()}}]

def leaving():
    raise SystemExit("bye")

import threading
released = threading.Event()

def hanging():
    released.wait()
    return []

nothing = 5
'''
NAMES = (*("plain", "later", "broken", "odd", "unwritable", "leaving", "hanging", "nothing"),)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution whose functions are sources."""
    entries = "\n".join(f"{name} = platform_registry:{name}" for name in NAMES)
    entries += "\nabsent = platform_registry:absent"
    install(tmp_path / "site", "platform_registry", MODULE, {GROUP: entries})
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.fixture
def platform(database: Database, database_url: str) -> Platform:
    """A database to follow them with."""
    return Platform(database, database_url)


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_a_function_returns_the_tenants(platform: Platform, name: str) -> None:
    done = await platform.refresh(f"python:{name}")
    assert (done.registered, done.problems) == (("acme", "globex"), ())
    expected = "suspended" if name == "plain" else "active"
    assert [status for status, _ in platform.statuses().values()] == ["active", expected]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("broken", "ConnectionError: the registry is away"),
        ("odd", "row 2 is a str, not a mapping"),
        ("unwritable", "a row cannot be written as JSON"),
        ("leaving", "RuntimeError: SystemExit: bye"),
    ],
)
async def test_a_function_that_fails_changes_nothing(
    platform: Platform, name: str, problem: str
) -> None:
    with pytest.raises(SourceError, match=problem):
        await platform.refresh(f"python:{name}")
    assert platform.registered() == {}


async def test_a_function_that_hangs_times_out_and_is_not_called_again_meanwhile(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PATIENCE", timedelta(milliseconds=50))
    source = tenant_source("python:hanging")
    with pytest.raises(SourceError, match="no answer within"):
        await source.compare(platform.database)
    with pytest.raises(SourceError, match="the last call has not returned yet"):
        await source.compare(platform.database)
    monkeypatch.setattr(reading, "PATIENCE", timedelta(seconds=PATIENCE))
    sys.modules["platform_registry"].released.set()
    async with asyncio.timeout(PATIENCE):
        while not await is_read(source, platform):
            await asyncio.sleep(0)


async def is_read(source: TenantSource, platform: Platform) -> bool:
    try:
        return (await source.compare(platform.database)).given == 0
    except SourceError:
        return False


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("planes", "there are absent, broken, hanging"),
        ("absent", "cannot be loaded: AttributeError"),
        ("nothing", "is not callable"),
    ],
)
def test_an_unusable_entry_point_is_a_usage_error(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        tenant_source(f"python:{name}")
