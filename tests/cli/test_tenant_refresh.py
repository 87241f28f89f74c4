"""`tenantcron tenant refresh`, and a scheduler that follows the platform's registry."""

import json
import signal
from pathlib import Path

import pytest
from support.fleet import Shell, footprint
from support.platform import TABLE
from support.processes import query, until

SOURCE = {"TENANTCRON_TENANT_SOURCE": "public.tenants"}
TRIGGER = """
CREATE FUNCTION public.tenants_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tenantcron_tenants', '');
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON public.tenants
    FOR EACH STATEMENT EXECUTE FUNCTION public.tenants_changed();
"""


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    query(database_url, TABLE)
    query(database_url, "INSERT INTO public.tenants (id) VALUES ('acme'), ('globex')")
    return Shell(tmp_path, database_url)


def test_a_check_shows_the_difference_and_changes_nothing(shell: Shell, database_url: str) -> None:
    before = footprint(database_url)
    called = shell("tenant", "refresh", "--check", **SOURCE)
    assert called.code == 1
    assert called.out == "+ acme\n+ globex\npublic.tenants: 2 tenants; 2 to register, 0 to change\n"
    assert footprint(database_url) == before


def test_a_refresh_applies_the_difference_and_then_there_is_none(
    shell: Shell, database_url: str
) -> None:
    assert shell("tenant", "refresh", **SOURCE).code == 0
    query(
        database_url,
        "UPDATE public.tenants SET status = 'suspended', status_reason = 'unpaid', weight = 3,"
        " labels = '{\"tier\": \"gold\"}' WHERE id = 'acme'",
    )
    called = shell("tenant", "refresh", **SOURCE)
    assert called.code == 0
    assert called.out.splitlines() == [
        "~ acme",
        "    status: active -> suspended",
        "    reason: (none) -> unpaid",
        "    weight: 1 -> 3",
        "    label tier: (none) -> gold",
        "public.tenants: 2 tenants; 0 registered, 1 changed",
    ]
    again = shell("tenant", "refresh", "--check", **SOURCE)
    assert (again.code, again.out) == (0, "public.tenants: 2 tenants, in sync\n")
    refused = shell("tenant", "resume", "acme")
    assert refused.code == 1
    assert "belongs to the tenant source (public.tenants): change it there" in refused.err


def test_problems_are_listed_and_make_the_exit_code_1(shell: Shell, database_url: str) -> None:
    query(database_url, "INSERT INTO public.tenants (id, weight) VALUES ('Bad', 1), ('heavy', 999)")
    called = shell("tenant", "refresh", "--format", "json", **SOURCE)
    answer = json.loads(called.out)
    assert called.code == 1
    assert answer["registered"] == ["acme", "globex"]
    assert [found["tenant"] for found in answer["problems"]] == ["Bad", "heavy"]
    health = shell("health")
    assert "tenant-source-rows" in health.out


def test_an_unreadable_source_is_reported_as_an_error(shell: Shell) -> None:
    called = shell("tenant", "refresh", TENANTCRON_TENANT_SOURCE="public.nowhere")
    assert (called.code, called.out) == (1, "")
    assert 'relation "public.nowhere" does not exist' in called.err
    assert shell("tenant", "refresh").code == 2


def test_missing_tenants_are_held_until_they_are_confirmed(shell: Shell, database_url: str) -> None:
    query(
        database_url, "INSERT INTO public.tenants SELECT 't' || n FROM generate_series(1, 6) AS n"
    )
    assert shell("tenant", "refresh", **SOURCE).code == 0
    query(database_url, "TRUNCATE public.tenants")
    called = shell("tenant", "refresh", **SOURCE)
    assert called.code == 1
    assert "8 tenants are missing or lost a valid status at the same time" in called.out
    assert "add --max-missing 8" in called.out
    assert "tenants-held" in shell("health").out
    assert shell("tenant", "refresh", "--max-missing", "8", **SOURCE).code == 0
    assert "missing from the tenant source since" in shell("tenant", "list").out


def test_a_detached_source_releases_its_tenants(shell: Shell) -> None:
    assert shell("tenant", "refresh", **SOURCE).code == 0
    assert shell("tenant", "refresh", "--detach", **SOURCE).code == 2
    called = shell("tenant", "refresh", "--detach")
    assert (called.code, called.out) == (0, "detached; 2 tenants can be edited here again\n")
    assert shell("tenant", "suspend", "acme", "--reason", "unpaid").code == 0


def test_a_scheduler_refreshes_after_a_notification(shell: Shell, database_url: str) -> None:
    query(database_url, TRIGGER)
    # So rarely that only the notification can trigger the refresh.
    process = shell.start("run", TENANTCRON_REFRESH_INTERVAL="1h", **SOURCE)
    try:
        ids = "SELECT id FROM tenantcron.tenant"
        until(lambda: len(query(database_url, ids)) == 2)
        query(database_url, "UPDATE public.tenants SET status = 'suspended' WHERE id = 'acme'")
        suspended = f"{ids} WHERE status = 'suspended'"
        until(lambda: bool(query(database_url, suspended)))
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "")
    assert err.count("tenants_refreshed") == 2
