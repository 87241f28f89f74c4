"""Providers of a platform: entry points of an installed distribution, loaded by `run`."""

import json
import signal
from pathlib import Path

import pytest
from support.distribution import install
from support.fleet import Shell
from support.processes import query, until

from tenantcron.core.errors import UsageError
from tenantcron.provider.plugins import load_providers

EXAMPLE = Path(__file__).parents[2] / "examples" / "platform"
GROUP = "tenantcron.providers"
BROKEN = '''
"""Providers that are none."""

class Nothing:
    name = "nothing"

class Static:
    name = "static"
    has_moved = tenants = settle = lambda *_: None

class Loud(Static):
    name = "LOUD"

def failing():
    raise ValueError("no licence")
'''


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the path with the distribution of the example and a broken one."""
    site = tmp_path / "site"
    module = (EXAMPLE / "my_platform.py").read_text(encoding="utf-8")
    entries = {
        GROUP: "trials = my_platform:TrialReminders",
        "tenantcron.tenants": "platform = my_platform:tenants",
    }
    install(site, "my_platform", module, entries)
    names = ("nothing", "static", "loud")
    broken = "\n".join(f"{name} = broken_providers:{name.title()}" for name in names)
    broken += "\nfailing = broken_providers:failing\nabsent = no_such_module:x"
    install(site, "broken_providers", BROKEN, {GROUP: broken})
    monkeypatch.syspath_prepend(site)
    return site


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("trial", "did you mean 'trials'"),
        ("nothing", "is not a schedule provider: it has no has_moved, tenants, settle"),
        ("static", "two providers have the name 'static'"),
        ("loud", "the name of 'loud' must be a-z first"),
        ("failing", "'failing' cannot be created: ValueError: no licence"),
        ("absent", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_provider_that_cannot_be_used_fails_the_start(
    site: Path, name: str, problem: str
) -> None:
    assert site.is_dir()
    with pytest.raises(UsageError, match=problem):
        load_providers([name])


def test_run_syncs_the_example_and_lists_show_its_schedules(
    site: Path, tmp_path: Path, database_url: str
) -> None:
    shell = Shell(tmp_path, database_url)
    settings = {
        "TENANTCRON_TENANT_SOURCE": "python:platform",
        "TENANTCRON_PROVIDERS": "trials",
        "TENANTCRON_REFRESH_INTERVAL": "1s",
        "PYTHONPATH": str(site),
    }
    process = shell.start("run", **settings)
    try:
        provided = "SELECT schedule_name FROM tenantcron.schedule_cursor WHERE provider = 'trials'"
        until(lambda: bool(query(database_url, provided)))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0
    listed = json.loads(shell("schedule", "list", "--format", "json").out)["schedules"]
    assert [(row["tenant"], row["name"], row["provider"]) for row in listed] == [
        ("globex", "trial-reminder", "trials")
    ]
    assert "trial-reminder (trials)" in shell("schedule", "list", "globex").out
    started = shell("run", "--once", TENANTCRON_PROVIDERS="failing")
    assert started.code == 2
    assert "no licence" in started.err
