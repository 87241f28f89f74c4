"""A scheduler that starts says in the audit what its settings have changed."""

from pathlib import Path

from support.fleet import Shell
from support.processes import query


def test_limits_and_service_of_the_settings_are_on_record_as_one_change_of_the_scheduler(
    tmp_path: Path, database_url: str
) -> None:
    shell = Shell(tmp_path, database_url)
    variables = {"TENANTCRON_MAX_CONCURRENT": "33", "TENANTCRON_SERVICE": "billing"}
    assert shell("run", "--once", **variables).code == 0

    records = query(database_url, "SELECT * FROM tenantcron.audit_record ORDER BY entity_type")
    assert [row["entity_type"] for row in records] == ["limits", "service"]
    assert {row["changed_by"] for row in records} == {"system:scheduler:billing"}
    assert {row["actor_type"] for row in records} == {"scheduler"}
    (correlation,) = {row["correlation_id"] for row in records}
    assert correlation is not None
