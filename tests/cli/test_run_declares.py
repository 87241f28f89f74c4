"""What `run` declares in the database, from the policy of its scheduler."""

from pathlib import Path

from support.fleet import Shell, manifest, query

POLICY = """
[policy]
target_kinds = ["grpc"]
[policy.quotas]
pending_tasks = 50
[policy.tenants.acme]
weight = 3
quotas = {stored_bytes = "2MiB"}
"""


def test_a_scheduler_declares_the_weights_quotas_and_kinds_of_its_policy(
    database_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, database_url)
    (tmp_path / "acme.yaml").write_text(manifest("acme", {}), encoding="utf-8")
    (tmp_path / "tenantcron.toml").write_text(POLICY, encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0

    assert shell("run", "--once").code == 0

    shown = shell("tenant", "show", "acme").out
    assert any(line.split() == ["pending_tasks", "50", "policy"] for line in shown.splitlines())
    assert any(line.split()[:2] == ["stored_bytes", "2MiB"] for line in shown.splitlines())
    assert query(database_url, "SELECT weight FROM tenantcron.tenant") == [{"weight": 3}]
    kinds = query(database_url, "SELECT target_kinds FROM tenantcron.limits")
    assert kinds == [{"target_kinds": ["grpc"]}]
    changed = "SELECT actor_type FROM tenantcron.audit_record WHERE after ->> 'weight' = '3'"
    assert query(database_url, changed) == [{"actor_type": "scheduler"}]


def test_a_weight_outside_its_range_is_an_error_of_the_policy(
    database_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, database_url)
    (tmp_path / "tenantcron.toml").write_text(
        "[policy.tenants.acme]\nweight = 101\n", encoding="utf-8"
    )
    failed = shell("run", "--once")
    assert failed.code == 2
    assert "policy.tenants.acme.weight" in failed.err
