"""The page of log events lists exactly what the scheduler and the API log."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOGGED = re.compile(
    r"(?:\blog\.(?:debug|info|warning|error|exception)\(|_Line\(|log, \w+\.level\)\()"
    r'\s*f?"(\w+(?:\{[^}]*\})?)"'
)
LISTED = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def logged() -> set[str]:
    folders = ("scheduler", "events", "store", "targets", "tenants", "service", "api", "cli")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    # Handlers that `init` writes are examples.
    files = [file for file in files if "starter" not in file.parts]
    sources = [file.read_text(encoding="utf-8") for file in files]
    events = {event for source in sources for event in LOGGED.findall(source)}
    # The one event whose name is put together: an execution ends without a start in two ways.
    return {event for event in events if "{" not in event} | {"execution_skipped"}


def listed() -> set[str]:
    return set(LISTED.findall((ROOT / "docs" / "events.md").read_text(encoding="utf-8")))


def test_the_page_lists_exactly_the_logged_events() -> None:
    assert logged() == listed()


@pytest.mark.parametrize("event", ["cursor_set_aside", "stale_result_refused", "execution_dead"])
def test_events_are_found_in_the_sources(event: str) -> None:
    assert event in logged()
