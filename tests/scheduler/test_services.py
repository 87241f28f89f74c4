"""Two services as real processes on one database, each with its own handlers."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.fleet import Shell
from support.processes import executions, make_due, query, until

from tenantcron.actor.key_sets import FixedKeys
from tenantcron.actor.verification import InvalidTokenError, Verifier

HANDLERS = """\
from tenantcron import saga

for name in {names}:
    saga(name)(lambda execution: None)
"""
CATCH_ALL = """\
from tenantcron import saga

@saga("*")
def run(execution):
    return execution.saga_name
"""
WITH_TOKENS = """\
import os
from pathlib import Path
from tenantcron import saga
from tenantcron.actor.context import current_actor

def run(execution):
    token = execution.token_plain("https://ledger.internal")
    text = f"{{current_actor().id}} {{token}}"
    Path(os.environ["PYTHONPATH"], execution.saga_name).write_text(text)

for name in {names}:
    saga(name)(run)
"""
ROLES = """\
[policy.roles]
billing = ["service:billing", "charges.write"]
forecasting = ["service:forecasting"]
"""
QUICKLY = {"TENANTCRON_LEASE": "5s", "TENANTCRON_LOG_LEVEL": "info"}


class Services:
    """A platform with several services that run sagas."""

    def __init__(self, shell: Shell, url: str) -> None:
        self.shell, self.url = shell, url
        self.running: list[subprocess.Popen[str]] = []
        self.variables: dict[str, str] = {}

    def declare(self, module: str, *sagas: str, handlers: str = HANDLERS) -> None:
        """Write a module with handlers for sagas, or with a catch-all."""
        text = handlers.format(names=sagas) if sagas else CATCH_ALL
        (self.shell.folder / f"{module}.py").write_text(text, encoding="utf-8")

    def apply(self, *sagas: str, **timing: object) -> None:
        """Apply a manifest with these sagas, which have one attempt each."""
        timing |= {"cron": "0 0 1 1 *", "overlap": "allow", "start_within": "1h"}
        timing |= {"retry": {"max_attempts": 1}, "auto_pause_after": 3}
        listed = [{"name": name, "trigger": {"scheduled": timing}} for name in sagas]
        manifest = {"version": "1.0", "tenant": "acme", "sagas": listed}
        (self.shell.folder / "acme.json").write_text(json.dumps(manifest), encoding="utf-8")
        applied = self.shell("apply-manifest", "acme.json", "--create-tenants")
        assert applied.code == 0, applied

    def start(self, service: str, *options: str) -> subprocess.Popen[str]:
        """Start a replica of a service, and wait until it is ready."""
        folder = str(self.shell.folder)
        variables = {**QUICKLY, **self.variables, "PYTHONPATH": folder}
        process = self.shell.start("run", "--service", service, *options, **variables)
        self.running.append(process)
        statement = "SELECT 1 FROM tenantcron.worker WHERE id LIKE %s"
        until(lambda: bool(query(self.url, statement, f"%:{process.pid}:%")))
        return process

    def until_logged(self, process: subprocess.Popen[str], event: str) -> str:
        """Wait until a replica logs an event; return the line."""
        assert process.stderr
        return next(line for line in process.stderr if f'"event": "{event}"' in line)

    def stop(self, process: subprocess.Popen[str]) -> str:
        """Stop a replica as a deployment does, and return its log."""
        self.running.remove(process)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        return log

    def fire(self, schedule: str) -> None:
        """Make a schedule due, and wait until its occurrence was fired."""
        fired = len(executions(self.url))
        until(lambda: make_due(self.url, schedule) is not None)
        until(lambda: len(executions(self.url)) > fired)

    def trigger(self, schedule: str, times: int = 1) -> None:
        """Trigger a schedule, which wakes all replicas at once: the first to claim gets it."""
        for _ in range(times):
            called = self.shell("schedule", "trigger", f"acme/{schedule}", "--actor", "maria")
            assert called.code == 0, called

    def states(self) -> Counter[tuple[str, str]]:
        return Counter((row["saga_name"], row["state"]) for row in executions(self.url))

    def ran(self) -> set[tuple[str, str]]:
        """Return the pairs of service and saga that have run."""
        statement = (
            "SELECT e.saga_name, w.service FROM tenantcron.execution AS e"
            " JOIN tenantcron.worker AS w ON w.id = e.worker_id"
        )
        return {(row["saga_name"], row["service"]) for row in query(self.url, statement)}

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture
def services(tmp_path: Path, database_url: str) -> Iterator[Services]:
    services = Services(Shell(tmp_path, database_url), database_url)
    try:
        yield services
    finally:
        services.close()


def test_each_service_runs_its_own_sagas_and_nothing_fails(services: Services) -> None:
    services.declare("billing", "invoice")
    services.declare("forecast", "forecast")
    services.apply("invoice", "forecast")
    services.start("billing", "--handlers", "billing")
    services.start("forecasting", "--handlers", "forecast")

    for _ in range(5):
        services.trigger("invoice")
        services.trigger("forecast")

    expected = {("invoice", "SUCCEEDED"): 5, ("forecast", "SUCCEEDED"): 5}
    until(lambda: services.states() == expected)
    assert services.ran() == {("invoice", "billing"), ("forecast", "forecasting")}
    paused = query(
        services.url, "SELECT 1 FROM tenantcron.schedule_cursor WHERE paused_at IS NOT NULL"
    )
    assert paused == []


def test_a_rolling_deploy_with_a_new_saga_causes_no_failures(services: Services) -> None:
    services.declare("old", "invoice")
    services.declare("new", "invoice", "refund")
    services.apply("invoice", "refund")
    old = services.start("billing", "--handlers", "old")
    warning = services.until_logged(old, "schedules_without_runner")

    services.trigger("refund", times=2)
    services.trigger("invoice")
    until(lambda: services.states()["invoice", "SUCCEEDED"] == 1)
    # The old release cannot run it and does not claim it.
    assert services.states()["refund", "PENDING"] == 2
    services.start("billing", "--handlers", "new")
    services.stop(old)

    until(lambda: services.states()["refund", "SUCCEEDED"] == 2)
    assert '"saga:refund"' in warning


def test_pending_executions_of_a_misspelt_saga_get_the_fix_of_the_manifest(
    services: Services,
) -> None:
    services.declare("billing", "invoice")
    services.apply("invioce", name="monthly")
    services.start("billing", "--handlers", "billing")
    services.trigger("monthly", times=2)
    assert services.states() == {("invioce", "PENDING"): 2}

    services.apply("invoice", name="monthly")

    until(lambda: services.states() == {("invoice", "SUCCEEDED"): 2})


def test_a_catch_all_runs_only_what_no_service_declares(
    services: Services,
) -> None:
    services.declare("billing", "invoice")
    services.declare("engine")
    services.apply("invoice", "anything")
    billing = services.start("billing", "--handlers", "billing")
    services.start("engine", "--handlers", "engine")

    services.trigger("anything")
    services.trigger("invoice")
    until(lambda: sum(services.states().values()) == 2)
    until(lambda: {state for _, state in services.states()} == {"SUCCEEDED"})
    assert services.ran() == {("invoice", "billing"), ("anything", "engine")}
    services.stop(billing)
    services.trigger("invoice")
    services.trigger("anything")

    until(lambda: services.states()["anything", "SUCCEEDED"] == 2)
    # Billing may come back soon.
    assert services.states()["invoice", "PENDING"] == 1
    (result,) = {
        str(row["result"])
        for row in query(
            services.url, "SELECT result FROM tenantcron.execution_attempt WHERE result IS NOT NULL"
        )
    }
    assert result == "anything"


def test_a_dedicated_replica_claims_only_what_its_patterns_match(
    services: Services,
) -> None:
    services.declare("all_of_them", "report_daily", "invoice")
    services.apply("report_daily", "invoice")
    services.start("reports", "--handlers", "all_of_them", "--only", "saga:report_*")

    services.trigger("invoice")
    services.trigger("report_daily")

    until(lambda: services.states()["report_daily", "SUCCEEDED"] == 1)
    assert services.states()["invoice", "PENDING"] == 1
    (worker,) = query(services.url, "SELECT capabilities FROM tenantcron.worker")
    assert worker["capabilities"] == ["saga:report_daily"]


def test_the_identity_of_a_service_cannot_run_the_sagas_of_another(services: Services) -> None:
    services.variables["TENANTCRON_MASTER_KEY"] = os.urandom(32).hex()
    folder = services.shell.folder
    (folder / "tenantcron.toml").write_text(ROLES, encoding="utf-8")
    services.declare("billing", "invoice", handlers=WITH_TOKENS)
    services.declare("forecast", "forecast", handlers=WITH_TOKENS)
    services.apply("invoice", "forecast")
    # Any service may fire an occurrence, but its own service runs it.
    services.start("billing", "--handlers", "billing")
    services.start("forecasting", "--handlers", "forecast")
    services.fire("invoice")
    services.fire("forecast")
    until(lambda: Counter(state for _, state in services.states().elements()) == {"SUCCEEDED": 2})
    keys = FixedKeys(json.loads(services.shell("keys", "jwks", **services.variables).out))
    ledger = Verifier(keys=keys, issuer="tenantcron", audience="https://ledger.internal")

    for saga, service in (("invoice", "billing"), ("forecast", "forecasting")):
        actor, token = (folder / saga).read_text(encoding="utf-8").split()
        proof = replace(ledger, role=f"service:{service}").verify(token, tenant="acme")
        assert actor == proof.actor.id == f"system:scheduler:{service}"
        other = {"billing": "forecasting", "forecasting": "billing"}[service]
        with pytest.raises(InvalidTokenError, match=f"lacks the role service:{other}"):
            replace(ledger, role=f"service:{other}").verify(token, tenant="acme")
    assert "charges.write" in ledger.verify((folder / "invoice").read_text().split()[1]).roles
