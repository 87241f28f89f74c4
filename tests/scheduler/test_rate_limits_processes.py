"""Two real schedulers with one rate limit, and a service that counts their calls."""

import signal
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from support.fleet import Shell
from support.patient_services import PatientHandler, PatientService, at_service
from support.processes import Fleet, all_ended, executions, query, until

from tenantcron.core.rates import parse_rate

RATE = parse_rate("20/s")
TENANTS = ("acme", "globex")
SAGAS = [f"saga{number}" for number in range(20)]


class Meter(PatientService):
    """A service that counts requests by idempotency key."""

    def __init__(self) -> None:
        super().__init__(_Handler, seed=3)
        self.keys: Counter[str] = Counter()


class _Handler(PatientHandler):
    server: Meter

    def take(self) -> None:
        self.body()
        with self.server.lock:
            self.server.keys[self.headers["Idempotency-Key"]] += 1
        self.answer(200)


@pytest.fixture
def meter() -> Iterator[Meter]:
    with at_service(Meter()) as running:
        yield running


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, meter: Meter) -> Iterator[Fleet]:
    """Two tenants whose sagas call a service with a rate limit."""
    port = meter.server_address[1]
    policy = (
        '[policy]\nallowed_hosts = ["http://127.0.0.1"]\nallowed_networks = ["127.0.0.0/8"]\n'
        f'allowed_ports = [{port}]\n[policy.rate_limits]\n"127.0.0.1" = "{RATE}"\n'
    )
    (tmp_path / "tenantcron.toml").write_text(policy, encoding="utf-8")
    sagas = "".join(
        f'  - name: {name}\n    trigger: {{scheduled: {{cron: "0 0 1 1 *", start_within: 1h}}}}\n'
        f"    target: {{http: {{url: 'http://127.0.0.1:{port}/run'}}}}\n"
        for name in SAGAS
    )
    shell = Shell(tmp_path, database_url)
    for tenant in TENANTS:
        text = f'version: "1.0"\ntenant: {tenant}\nsagas:\n{sagas}'
        (tmp_path / f"{tenant}.yaml").write_text(text, encoding="utf-8")
        applied = shell("apply-manifest", f"{tenant}.yaml", "--create-tenants")
        assert applied.code == 0, applied
    query(database_url, "UPDATE tenantcron.limits SET operator = 100, operator_per_tenant = 100")
    fleet = Fleet(shell, database_url)
    try:
        yield fleet
    finally:
        fleet.close()


def starts(url: str) -> list[datetime]:
    """Return when executions were claimed, by the database's clock."""
    return sorted(row["started_at"] for row in executions(url))


def exceeded(times: list[datetime]) -> list[tuple[float, int]]:
    """Return the time spans with more starts than the rate and the burst allow."""
    spans = (
        ((times[last] - times[first]).total_seconds(), last - first + 1)
        for first in range(len(times))
        for last in range(first, len(times))
    )
    return [span for span in spans if span[1] > (span[0] + RATE.burst) / RATE.interval + 0.01]


def test_two_schedulers_share_the_rate_and_each_occurrence_is_called(
    fleet: Fleet, meter: Meter
) -> None:
    first = fleet.start()
    fleet.start()
    until(lambda: all(fleet.is_up(process) for process in fleet.running))
    cursors = "SELECT 1 FROM tenantcron.schedule_cursor"
    until(lambda: len(query(fleet.url, cursors)) == 2 * len(SAGAS))
    query(fleet.url, "UPDATE tenantcron.schedule_cursor SET next_run_at = now() RETURNING 1")
    until(lambda: len(meter.keys) > len(SAGAS) // 2)
    # The other scheduler continues at the rate.
    first.send_signal(signal.SIGTERM)
    until(lambda: len(executions(fleet.url)) == 2 * len(SAGAS) and all_ended(fleet.url))

    rows = executions(fleet.url)
    assert Counter(row["state"] for row in rows) == {"SUCCEEDED": 2 * len(SAGAS)}
    assert Counter(meter.keys.values()) == {1: 2 * len(SAGAS)}
    assert exceeded(starts(fleet.url)) == []


def test_a_manual_trigger_waits_for_the_rate_limit_as_well(fleet: Fleet, meter: Meter) -> None:
    # The command knows no policy, so the claiming scheduler finds the limit.
    for name in SAGAS:
        triggered = fleet.shell("schedule", "trigger", f"acme/{name}")
        assert triggered.code == 0, triggered
    fleet.start()
    until(lambda: len(executions(fleet.url)) == len(SAGAS) and all_ended(fleet.url))

    rows = executions(fleet.url)
    assert {(row["state"], row["attempt"]) for row in rows} == {("SUCCEEDED", 1)}
    assert Counter(meter.keys.values()) == {1: len(SAGAS)}
    assert exceeded(starts(fleet.url)) == []
