"""A starting scheduler records the changes by its settings in the audit log."""

from pathlib import Path

from support.fleet import Shell
from support.processes import query


def test_limits_and_service_of_the_settings_are_recorded_as_one_change(
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
