"""The example handlers run the sagas of the example manifests."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenantcron.manifests.check import TenantHints, check_manifest
from tenantcron.manifests.policy import load_policy
from tenantcron.targets.python import registry
from tenantcron.targets.python.registry import Declared, Handlers, load_handlers

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Handlers:
    """The handlers, loaded like by a scheduler in that folder."""
    monkeypatch.setattr(registry, "DECLARED", Declared())
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "handlers", raising=False)
    return load_handlers(["handlers"], EXAMPLES)


def sagas() -> set[str]:
    """Return the sagas of the manifests that Python handlers run."""
    return sagas_in(EXAMPLES / "manifests") | sagas_in(EXAMPLES / "live")


def sagas_in(folder: Path) -> set[str]:
    policy = load_policy(folder / "tenantcron.toml")
    found: set[str] = set()
    for file in folder.glob("*.yaml"):
        hints = TenantHints(file_stem=file.stem)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        checked = check_manifest(file.read_bytes(), "yaml", policy, hints, now)
        assert checked.desired is not None
        schedules = checked.desired.schedules
        found |= {schedule.saga for schedule in schedules if schedule.target is None}
    return found


def test_every_saga_of_the_manifests_has_a_handler_and_every_handler_a_saga(
    handlers: Handlers,
) -> None:
    assert set(handlers.names) == sagas()


def test_there_are_async_and_plain_handlers(handlers: Handlers) -> None:
    assert {handler.is_async for handler in handlers.by_saga.values()} == {True, False}
