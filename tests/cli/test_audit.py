"""`tenantcron audit`."""

import json
from pathlib import Path

import pytest
from support.cursors import run
from support.fleet import Shell, footprint, manifest


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    """Two tenants whose hourly schedule was fired for the last hours."""
    for tenant in ("acme", "beta"):
        text = manifest(tenant, {"hourly": "cron: '0 * * * *', catch_up: all"})
        (tmp_path / f"{tenant}.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("apply-manifest", ".", "--create-tenants").code == 0
    ago = "date_trunc('hour', now()) - interval '3 hours 30 minutes'"
    for tenant in ("acme", "beta"):
        run(
            database_url,
            f"UPDATE tenant_{tenant}.tenant_schedule SET effective_from = {ago}",  # noqa: S608 -- the test's own words
        )
    assert shell("run", "--once").code == 0
    return shell


def test_an_audit_without_findings_exits_with_0(shell: Shell, database_url: str) -> None:
    before = footprint(database_url)
    called = shell("audit")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("2 tenants, 2 schedules, 8 occurrences since ")
    assert called.out.endswith(": no findings\n")
    answer = json.loads(shell("audit", "--tenant", "acme", "--format", "json").out)
    assert answer.keys() == {"since", "until", "tenants", "schedules", "occurrences", "findings"}
    assert (answer["tenants"], answer["occurrences"], answer["findings"]) == (1, 4, [])
    assert footprint(database_url) == before


def test_a_lost_occurrence_is_named_and_exits_with_1(shell: Shell, database_url: str) -> None:
    run(database_url, "DELETE FROM tenantcron.execution WHERE tenant_id = 'beta'")

    called = shell("audit")
    (found,) = json.loads(shell("audit", "--format", "json").out)["findings"]

    assert called.code == 1
    assert "error[lost] beta/hourly: no row covers 4 occurrences from " in called.out
    assert found.keys() == {
        "code",
        "tenant",
        "schedule",
        "since",
        "until",
        "count",
        "message",
        "hint",
    }
    assert (found["code"], found["tenant"], found["count"]) == ("lost", "beta", 4)
    assert shell("audit", "--tenant", "acme").code == 0
    assert shell("audit", "--since", "2099-01-01").code == 0


def test_an_unknown_tenant_exits_with_1_and_wrong_usage_with_2(shell: Shell) -> None:
    unknown = shell("audit", "--tenant", "acne")
    assert (unknown.code, "did you mean `acme`" in unknown.err) == (1, True)
    assert shell("audit", "--tenant", "No'body").code == 2
    assert shell("audit", "--since", "lately").code == 2
