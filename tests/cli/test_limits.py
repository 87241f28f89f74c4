"""`tenantcron limits`."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.cursors import run
from support.fleet import Shell, footprint


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def json_of(shell: Shell, *arguments: str) -> Any:
    called = shell("limits", *arguments, "--format", "json")
    assert (called.code, called.err) == (0, "")
    return json.loads(called.out)


def test_the_effective_limits_are_shown_with_the_declared_ones(
    shell: Shell, database_url: str
) -> None:
    before = footprint(database_url)
    assert json_of(shell) == {
        "max_concurrent": 20,
        "max_concurrent_per_tenant": 5,
        "declared": {"max_concurrent": 20, "max_concurrent_per_tenant": 5},
        "operator": {"max_concurrent": None, "max_concurrent_per_tenant": None},
        "running": 0,
    }
    text = shell("limits").out
    assert text.splitlines()[1].split() == ["max", "concurrent", "20", "20", "no"]
    assert "running now: 0" in text
    assert footprint(database_url) == before


def test_the_limit_of_an_operator_overrides_the_settings_until_it_is_reset(shell: Shell) -> None:
    assert json_of(shell, "--max-concurrent", "50")["max_concurrent"] == 50
    both = json_of(shell, "--max-concurrent-per-tenant", "0")
    assert (both["max_concurrent"], both["max_concurrent_per_tenant"]) == (50, 0)
    assert "no execution starts" in shell("limits").out
    back = json_of(shell, "--max-concurrent", "default", "--max-concurrent-per-tenant", "default")
    assert (back["max_concurrent"], back["max_concurrent_per_tenant"]) == (20, 5)


def test_the_actor_and_the_reason_of_a_limit_are_recorded(shell: Shell, database_url: str) -> None:
    json_of(shell, "--max-concurrent", "0", "--reason", "incident", "--actor", "maria")
    records = run(
        database_url,
        "SELECT entity_id, changed_by, after, correlation_id FROM tenantcron.audit_record"
        " WHERE entity_type = 'limits' ORDER BY id",
    )
    change, reason = records
    assert (change["changed_by"], change["after"]["operator"]) == ("maria", 0)
    assert reason["after"] == {"reason": "incident"}
    assert change["correlation_id"] == reason["correlation_id"]
    assert change["entity_id"] == reason["entity_id"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-concurrent", "-1"],
        ["--max-concurrent", "many"],
        ["--max-concurrent", "100001"],
        ["--reason", "nothing to set"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_changes_nothing(
    shell: Shell, database_url: str, arguments: list[str]
) -> None:
    before = footprint(database_url)
    assert shell("limits", *arguments).code == 2
    assert footprint(database_url) == before
