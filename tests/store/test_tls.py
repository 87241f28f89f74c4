"""Whether libpq verifies the database server."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.fleet import Shell

from tenantcron.cli.server_identity import unverified_server, warn_of_unverified_server
from tenantcron.core.settings import Settings
from tenantcron.store.connection.database_urls import target_of
from tenantcron.store.connection.tls import Unverified, unverified


@dataclass(frozen=True)
class Case:
    """A URL, the environment, and the unverified hosts."""

    url: str
    hosts: tuple[str, ...] = ()
    sslmode: str = "prefer"
    environment: dict[str, str] = field(default_factory=dict)


CASES = (
    Case("postgresql://db.internal/x", ("db.internal",)),
    Case("postgresql://10.0.0.5/x", ("10.0.0.5",)),
    Case("postgresql://db.internal/x?sslmode=disable", ("db.internal",), "disable"),
    Case("postgresql://db.internal/x?sslmode=require", ("db.internal",), "require"),
    Case("postgresql://db.internal/x?sslmode=verify-ca", ("db.internal",), "verify-ca"),
    Case("postgresql://db.internal/x?sslmode=verify-full"),
    Case("postgresql://db.internal/x?sslrootcert=system"),
    Case("postgresql://a.internal,b.internal:5433/x", ("a.internal", "b.internal")),
    Case("postgresql://localhost,b.internal/x", ("b.internal",)),
    Case("postgresql://localhost/x"),
    Case("postgresql://127.0.0.1:5433/x"),
    Case("postgresql://[::1]/x"),
    Case("postgresql:///x"),
    Case("postgresql:///x?host=/var/run/postgresql"),
    Case("postgresql://%2Fvar%2Frun/x"),
    Case("postgresql:///x?hostaddr=10.0.0.5", ("10.0.0.5",)),
    Case("postgresql://localhost.evil.com/x", ("localhost.evil.com",)),
    Case("postgresql://db.internal/x", environment={"PGSSLMODE": "verify-full"}),
    Case("postgresql://db.internal/x", ("db.internal",), "require", {"PGSSLMODE": "require"}),
    Case(
        "postgresql://db.internal/x?sslmode=disable",
        ("db.internal",),
        "disable",
        {"PGSSLMODE": "verify-full"},
    ),
    Case("postgresql:///x", ("db.internal",), environment={"PGHOST": "db.internal"}),
    Case("postgresql://db.internal/x", environment={"PGSSLROOTCERT": "system"}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.url} {case.environment}")
def test_a_server_counts_as_verified_only_with_verify_full(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGSSLMODE", "PGHOST", "PGHOSTADDR", "PGSSLROOTCERT", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    found = unverified(target_of(case.url))
    assert found == (Unverified(case.hosts, case.sslmode) if case.hosts else None)


def test_the_warning_has_instructions_and_no_password(tmp_path: Path) -> None:
    url = "postgresql://ada:hunter2@db.internal,b.internal/x?sslmode=require"
    settings = Settings(database_url=url, folder=tmp_path)
    with capture_logs() as logs:
        warn_of_unverified_server(settings)
        warn_of_unverified_server(Settings(folder=tmp_path))
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("database_not_verified", "warning")
    assert (line["hosts"], line["sslmode"]) == (["db.internal", "b.internal"], "require")
    assert "sslmode=verify-full" in line["hint"]
    text = str(unverified_server(settings))
    assert "db.internal, b.internal is not verified (sslmode=require)" in text
    assert "hunter2" not in text + str(line)


@pytest.mark.parametrize("command", [("run", "--once"), ("serve",), ("migrate",)])
def test_long_running_commands_and_deployments_warn_before_they_connect(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    url = "postgresql://ada:hunter2@nowhere.invalid/x?connect_timeout=2"
    done = Shell(tmp_path, url)(*command)
    assert done.code == 2
    warning, error = done.err.splitlines()[0], done.err.splitlines()[-1]
    assert "nowhere.invalid" in warning
    assert "sslmode=verify-full" in warning
    assert "cannot connect" in error


def test_other_commands_and_local_servers_cause_no_warning(
    tmp_path: Path, database_url: str
) -> None:
    assert Shell(tmp_path, database_url)("migrate").err == ""
    url = "postgresql://ada@nowhere.invalid/x?connect_timeout=2"
    assert "verify-full" not in Shell(tmp_path, url)("tenant", "list").err
