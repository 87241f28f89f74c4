"""Every command prints the same for a database and for a server, with the same exit code."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.both_ways import BothWays, both_ways, json_of
from support.database import Server
from support.fleet import Shell, query


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    with both_ways(server, tmp_path_factory.mktemp("both")) as ready:
        yield ready


def trigger(both: BothWays) -> tuple[str, str]:
    """Trigger a schedule on both clusters; return the executions."""
    call = ("schedule", "trigger", "acme/nightly", "--format", "json")
    here, there = both.on_database(*call, "--actor", "ada"), both.on_server(*call)
    return str(json_of(here)["execution"]), str(json_of(there)["execution"])


def same_id(both: BothWays, execution: str, other: str) -> str:
    """Give both executions the same id, so that commands can name it."""
    for url, old in ((both.direct.url, execution), (both.served.url, other)):
        assert url is not None
        query(url, f"UPDATE tenantcron.execution SET id = '{execution}' WHERE id = '{old}'")  # noqa: S608 -- ids of the test
    return execution


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "show", "acme/nightly"),
        ("schedule", "show", "acme/nightl"),
        ("schedule", "show", "acm/nightly"),
        ("why", "acme/nightly"),
        ("why", "acme/nightl"),
        ("schedule", "list"),
        ("schedule", "list", "acme"),
        ("schedule", "list", "globex"),
        ("tenant", "list"),
        ("tenant", "list", "--label", "tier=gold"),
        ("tenant", "show", "acme"),
        ("tenant", "show", "globex"),
        ("tenant", "refresh", "--check"),
        ("limits",),
        ("health",),
        ("history", "--until", "today"),
        ("history", "acme"),
        ("schedule", "list", "--paused"),
        ("schedule", "list", "--until", "+1d", "--format", "json"),
        ("history", "acme", "--since", "1h", "--limit", "1"),
        ("history", "acme/nightly"),
        ("history", "acme/nightl"),
        ("history", "globex"),
        ("audit",),
        ("audit", "acme", "--since", "1d"),
        ("token", "revoke", "000000000000"),
        ("token", "revoke", "laptop2"),
        ("webhook", "list"),
        ("webhook", "enable", "ops"),
        ("execution", "list", "beta"),
        ("execution", "list", "acme", "--state", "DEAD", "--since", "1h"),
        ("execution", "list", "acme/nightl"),
        ("execution", "list", "globex"),
        ("execution", "show", "00000000"),
        ("execution", "retry", "00000000-0000-4000-8000-000000000001"),
        ("execution", "list", "--saga", "nightly"),
        ("execution", "list", "acme", "--error", "nothing like it"),
        ("execution", "retry", "--tenant", "acme", "--error", "\x00", "--dry-run"),
        ("execution", "retry", "--saga", "nightly", "--dry-run"),
        ("execution", "retry", "--tenant", "globex"),
        ("execution", "retry"),
        ("execution", "cancel", "--state", "DEAD"),
        ("schedule", "pause", "--all", "--saga", "nightly", "--reason", "x", "--dry-run"),
        ("schedule", "pause", "--all", "--tenant", "globex", "--reason", "x"),
        ("schedule", "resume", "--all"),
        ("schedule", "resume", "--all", "--tenant", "beta"),
        ("task", "list"),
        ("task", "list", "acme"),
        ("task", "list", "globex"),
        ("task", "show", "acme/00000000-0000-7000-8000-000000000001"),
        ("why", "acme/00000000-0000-7000-8000-000000000001"),
        ("task", "cancel", "acme/00000000-0000-7000-8000-000000000001"),
        ("task", "submit", "acme"),
        ("task", "submit", "acme", "Send-It", "--timeout", "9d"),
        ("task", "submit", "acme", "send", "--target", '{"http": {"url": "https://evil.com"}}'),
        ("task", "submit", "globex", "send"),
    ],
    ids=" ".join,
)
def test_reads_and_mistakes_print_the_same(
    both: BothWays, arguments: tuple[str, ...], output: str
) -> None:
    both.compare(*arguments, "--format", output)


def test_a_tenant_that_cannot_be_read_is_listed_and_the_exit_code_is_1(both: BothWays) -> None:
    both.compare("tenant", "create", "broken", actor=True)
    urls = [str(shell.url) for shell in (both.direct, both.served)]
    for url in urls:
        query(url, "ALTER TABLE {}.tenant_schedule RENAME TO lost", "tenant_broken")
        query(url, "UPDATE tenantcron.tenant SET sync_fault = 'no table' WHERE id = 'broken'")
    for output in ("text", "json", "csv", "yaml"):
        for only in ((), ("broken",), ("beta",)):
            called = both.compare("schedule", "list", *only, "--format", output)
            assert called.code == int(only != ("beta",))
    assert "cannot be read: relation" in both.on_server("schedule", "list").out
    for url in urls:
        query(url, "ALTER TABLE {}.lost RENAME TO tenant_schedule", "tenant_broken")
    both.compare("tenant", "deprovision", "broken", "--reason", "ended", actor=True)


def test_a_schedule_is_paused_and_resumed(both: BothWays) -> None:
    pause = ("schedule", "pause", "acme/weekly", "--reason", "partner is down", "--until", "+2h")
    assert "is paused until" in both.compare(*pause, actor=True).out
    assert "partner is down" in both.compare("schedule", "show", "acme/weekly").out
    both.compare("why", "acme/weekly")
    assert "is resumed" in both.compare("schedule", "resume", "acme/weekly", actor=True).out
    assert both.compare("schedule", "resume", "acme/weekly", actor=True).code == 1


def test_an_execution_is_shown_cancelled_and_retried(both: BothWays) -> None:
    execution = same_id(both, *trigger(both))
    both.compare("execution", "list", "acme")
    both.compare("execution", "show", execution[:8])
    both.compare("execution", "retry", execution[:8], actor=True)
    both.compare("execution", "cancel", execution[:8], "--reason", "wrong", actor=True)
    both.compare("execution", "cancel", execution[:8], actor=True)
    both.compare("execution", "show", execution, "--format", "json")
    both.compare("execution", "retry", execution, actor=True)


def test_many_executions_and_schedules_are_changed_at_once(both: BothWays) -> None:
    for _ in range(2):
        trigger(both)
    both.compare("execution", "cancel", "--tenant", "acme", "--dry-run", "--format", "json")
    cancelled = both.compare("execution", "cancel", "--tenant", "acme", actor=True)
    assert "cancelled " in cancelled.out
    retry = ("execution", "retry", "--state", "CANCELLED", "--schedule", "nightly")
    both.compare(*retry, "--format", "json", actor=True)
    both.compare("tenant", "suspend", "acme", "--reason", "unpaid", actor=True)
    both.compare("execution", "cancel", "--tenant", "acme", actor=True)
    assert both.compare(*retry, "--since", "1h", "--format", "json", actor=True).code == 1
    both.compare("tenant", "resume", "acme", actor=True)
    pause = ("schedule", "pause", "--all", "--tenant", "acme", "--reason", "migration")
    assert "paused 2 schedules" in both.compare(*pause, "--cancel-pending", actor=True).out
    both.compare(*pause, "--until", "2020-01-01", actor=True)
    resume = ("schedule", "resume", "--all", "--paused-reason", "migration")
    both.compare(*resume, "--dry-run", actor=True)
    assert "resumed 2 schedules" in both.compare(*resume, "--reason", "done", actor=True).out


def test_a_task_is_submitted_rescheduled_cancelled_and_retried(both: BothWays) -> None:
    at = ("--at", "2030-01-01T09:00:00Z", "--key", "k-1")
    submit = ("task", "submit", "acme", "send", *at, "--payload", "{}")
    assert "is submitted and is WAITING" in both.compare(*submit, actor=True).out
    assert "was already submitted" in both.compare(*submit, actor=True).out
    assert both.compare("task", "submit", "acme", "export", *at, actor=True).code == 1
    retries = ("--max-attempts", "5", "--backoff", "20s", "--max-backoff", "5m")
    both.compare("task", "submit", "acme", "export", "--priority", "high", *retries, actor=True)
    both.compare("task", "list", "acme", "--state", "WAITING")
    both.compare("task", "list", "acme", "--format", "json")
    assert "acme/" in both.compare("task", "list", "--saga", "send").out
    ref = f"acme/{same_task(both)}"
    assert "It is due at 2030-01-01 09:00:00 UTC" in both.compare("why", ref).out
    both.compare("why", ref, "--format", "json")
    for action in (
        ("show", ref),
        ("reschedule", ref, "--at", "+1d"),
        ("cancel", ref, "--reason", "paid"),
        ("cancel", ref),
        ("reschedule", ref, "--at", "+1d"),
        ("show", ref),
        ("retry", ref),
    ):
        both.compare("task", *action, actor=action[0] != "show")
        both.compare("why", ref)
    both.compare("task", "show", ref[:-10])
    both.compare("why", ref[:-10])
    both.compare("task", "show", "acme/99999999")


def same_task(both: BothWays) -> str:
    """Give the waiting tasks of both clusters the same id, so that commands can name it."""
    found = []
    for url in (both.direct.url, both.served.url):
        assert url is not None
        (row,) = query(
            url,
            "UPDATE tenantcron.task SET id = '00000000-0000-7000-8000-00000000000a' "
            "WHERE fired_at IS NULL RETURNING id",
        )
        found.append(str(row["id"]))
    return found[0]


def test_a_tenant_is_created_changed_and_deprovisioned(both: BothWays) -> None:
    steps = (
        ("create", "gamma", "--max-concurrent", "3", "--label", "tier=gold"),
        ("create", "gamma"),
        ("set", "gamma", "--max-schedules", "7", "--max-concurrent", "default"),
        ("set", "gamma", "--weight", "5"),
        ("set", "gamma"),
        ("label", "gamma", "region=eu", "tier-"),
        ("suspend", "gamma", "--reason", "unpaid"),
        ("resume", "gamma"),
        ("deprovision", "gamma", "--reason", "ended"),
        ("deprovision", "gamma", "--reason", "ended", "--drop-schema"),
        ("deprovision", "gamma", "--reason", "ended", "--drop-schema", "--confirm", "gamma"),
    )
    for step in steps:
        both.compare("tenant", *step, actor=True)


def test_the_limits_are_set_and_restored(both: BothWays) -> None:
    both.compare("limits", "--max-concurrent", "50", "--reason", "month end", actor=True)
    both.compare("limits", "--max-concurrent", "default", actor=True)
    both.compare("limits", "--reason", "nothing", actor=True)


def test_a_trigger_without_a_scheduler_says_so(both: BothWays) -> None:
    called = both.compare("schedule", "trigger", "beta/nightly", "--wait", actor=True)
    assert called.code == 1
    assert "no scheduler is running" in called.out


def test_a_server_determines_the_actor(both: BothWays) -> None:
    called = both.on_server("schedule", "resume", "acme/weekly", "--actor", "ada")
    assert called.code == 2
    assert "the token determines the actor" in called.err


@pytest.mark.parametrize(
    ("address", "variables", "message"),
    [
        (None, {"TENANTCRON_TOKEN": ""}, "set TENANTCRON_TOKEN"),
        (None, {"TENANTCRON_TOKEN": "tc_0_0"}, "or create a new token"),
        ("http://127.0.0.1:9", {}, "cannot connect"),
        ("https://127.0.0.1:9", {}, "cannot connect"),
        ("ftp://cron.internal", {}, "is not a URL such as"),
        ("http://cron.internal", {}, "would expose the token"),
        ("https://ada:pw@cron.internal", {}, "has a user, a password or a query"),
        ("https://no-such-host.invalid", {}, "cannot be resolved"),
    ],
)
def test_a_server_that_cannot_be_used_is_an_error_with_a_hint(
    both: BothWays, address: str | None, variables: dict[str, str], message: str
) -> None:
    given = {"TENANTCRON_TOKEN": both.token, **variables}
    server = address or both.server
    called = Shell(both.folder)("why", "acme/nightly", "--server", server, **given)
    assert called.code == 2
    assert message in called.err
    assert "Traceback" not in called.err
    assert "pw" not in called.err


def test_tls_on_a_port_without_it_is_explained(both: BothWays) -> None:
    address = both.server.replace("http:", "https:")
    called = Shell(both.folder)("why", "acme/nightly", "--server", address)
    assert called.code == 2
    assert "it does not accept TLS" in called.err


def test_a_role_that_does_not_allow_it_is_an_error_with_exit_code_1(both: BothWays) -> None:
    made = both.served("token", "create", "reader", "--role", "viewer", "--format", "json")
    token = str(json.loads(made.out)["token"])
    called = both.on_server("schedule", "trigger", "acme/nightly", TENANTCRON_TOKEN=token)
    assert called.code == 1
    assert "use a token with another role" in called.err


def test_a_command_with_a_server_imports_no_database_driver(both: BothWays, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from tenantcron.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "loaded = {'sqlalchemy', 'psycopg', 'alembic', 'fastapi'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "sys.exit(code)\n"
    )
    command = ("why", "acme/nightly", "--server", both.server)
    environment = {"TENANTCRON_TOKEN": both.token, "PATH": "/usr/bin"}
    ended = subprocess.run(
        [sys.executable, "-c", script, *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
