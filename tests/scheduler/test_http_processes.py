"""Real schedulers that are killed, and a service that counts effects by idempotency key."""

import json
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import psycopg
import pytest
from support.fleet import Shell
from support.patient_services import PatientHandler, PatientService, at_service
from support.processes import Fleet, all_ended, executions, make_due, query, until

SECONDS = 14.0
SAGAS = [f"{kind}{number}" for kind in ("quick", "slow", "flaky") for number in range(4)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Ledger(PatientService):
    """A service that does its work once per idempotency key, as targets should."""

    def __init__(self) -> None:
        super().__init__(_Handler, seed=11)
        self.requests: Counter[str] = Counter()
        self.bodies: defaultdict[str, set[bytes]] = defaultdict(set)
        self.fences: defaultdict[str, list[int]] = defaultdict(list)
        self.effects: list[str] = []


class _Handler(PatientHandler):
    server: Ledger

    def take(self) -> None:
        ledger, key = self.server, self.headers["Idempotency-Key"]
        body = self.body()
        with ledger.lock:
            ledger.requests[key] += 1
            ledger.bodies[key].add(body)
            ledger.fences[key].append(int(self.headers["X-Tenantcron-Fence"]))
            fails = self.path == "/flaky" and ledger.random.random() < 0.3
            if not fails and key not in ledger.effects:
                ledger.effects.append(key)
        if self.path == "/slow":
            ledger.closing.wait(1.0)
        self.answer(503 if fails else 200)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with at_service(Ledger()) as running:
        yield running


def saga(name: str, url: str) -> str:
    kind = name.rstrip("0123456789")
    timing = 'cron: "0 0 1 1 *", overlap: allow, start_within: 1h, payload: {at: "{{fire_time}}"}'
    retry = "retry: {max_attempts: 20, backoff: 1s, max_backoff: 1s}, timeout: 10s"
    return (
        f"  - name: {name}\n    trigger:\n      scheduled: {{{timing}, {retry}}}\n"
        f"    target:\n      http: {{url: '{url}/{kind}'}}\n"
    )


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, ledger: Ledger) -> Iterator[Fleet]:
    """A tenant whose sagas call the service."""
    port = ledger.server_address[1]
    policy = (
        '[policy]\nallowed_hosts = ["http://127.0.0.1"]\nallowed_networks = ["127.0.0.0/8"]\n'
        f"allowed_ports = [{port}]\n"
    )
    (tmp_path / "tenantcron.toml").write_text(policy, encoding="utf-8")
    sagas = "".join(saga(name, f"http://127.0.0.1:{port}") for name in SAGAS)
    text = f'version: "1.0"\ntenant: acme\nsagas:\n{sagas}'
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    applied = shell("apply-manifest", "acme.yaml", "--create-tenants")
    assert applied.code == 0, applied
    query(database_url, "UPDATE tenantcron.limits SET operator = 100, operator_per_tenant = 100")
    fleet = Fleet(shell, database_url)
    try:
        yield fleet
    finally:
        fleet.close()


def keys(url: str) -> set[str]:
    """Return the idempotency keys of the rows in the database."""
    milliseconds = timedelta(milliseconds=1)
    return {
        f"sched:{row['schedule_id']}:{(row['scheduled_for'] - EPOCH) // milliseconds}"
        for row in executions(url)
    }


def test_a_service_that_honours_the_key_sees_each_occurrence_once_while_schedulers_are_killed(
    fleet: Fleet, ledger: Ledger
) -> None:
    url, random = fleet.url, Random(13)  # noqa: S311 -- chance for a test
    fleet.start()
    fleet.start()
    until(lambda: all(fleet.is_up(process) for process in fleet.running))
    chaos = fleet.kill_at_random(random, SAGAS, SECONDS)
    until(lambda: all_ended(url))

    rows = executions(url)
    assert Counter(row["state"] for row in rows) == {"SUCCEEDED": len(chaos.expected)}
    assert len(keys(url)) == len(rows) == len(chaos.expected)
    # Each occurrence had one effect, and there were no others.
    assert len(ledger.effects) == len(set(ledger.effects))
    assert set(ledger.effects) == keys(url)
    # After kills and failures the call was repeated with the same key and body.
    assert sum(ledger.requests.values()) > len(rows)
    assert {len(bodies) for bodies in ledger.bodies.values()} == {1}
    assert all(fences == sorted(set(fences)) for fences in ledger.fences.values())


def test_a_request_whose_sender_died_within_the_body_has_no_effect(ledger: Ledger) -> None:
    head = b"POST /quick HTTP/1.1\r\nIdempotency-Key: k\r\nX-Tenantcron-Fence: 1\r\n"
    with socket.create_connection(("127.0.0.1", ledger.server_port)) as sender:
        sender.sendall(head + b"Content-Length: 9\r\n\r\nhalf")
        sender.shutdown(socket.SHUT_WR)
        assert sender.recv(1) == b""

    assert (ledger.requests, ledger.bodies, ledger.effects) == ({}, {}, [])


def test_a_call_is_shown_with_its_status_and_answer(fleet: Fleet, ledger: Ledger) -> None:
    process = fleet.start()
    until(lambda: fleet.is_up(process))
    until(lambda: make_due(fleet.url, "quick0") is not None)
    until(lambda: bool(executions(fleet.url)) and all_ended(fleet.url))
    query(fleet.url, "UPDATE tenantcron.execution_attempt SET answer = E'done\\nand dusted'")

    (row,) = executions(fleet.url)
    text = fleet.shell("execution", "show", str(row["id"])).out
    assert "HTTP 200, response body:\n        | done\n        | and dusted\n" in text
    shown = fleet.shell("execution", "show", str(row["id"]), "--format", "json").out
    (attempt,) = json.loads(shown)["execution"]["attempts"]
    assert (attempt["http_status"], attempt["answer"]) == (200, "done\nand dusted")
    assert len(ledger.effects) == 1


def test_without_a_policy_a_scheduler_calls_no_targets(fleet: Fleet, ledger: Ledger) -> None:
    (fleet.shell.folder / "tenantcron.toml").unlink()
    process = fleet.start()
    until(lambda: fleet.is_up(process))
    until(lambda: make_due(fleet.url, "quick0") is not None)
    until(lambda: bool(executions(fleet.url)))
    health = fleet.shell("health")

    assert health.code == 1
    assert "no live replica can run 1 saga; 1 execution" in " ".join(health.out.split())
    (row,) = executions(fleet.url)
    assert (row["state"], row["attempt"], row["requires"]) == ("PENDING", 0, "http")
    served = Fleet(fleet.shell, fleet.url, "--targets", "http")
    try:
        served.start()
        until(lambda: all_ended(fleet.url))
    finally:
        served.close()
    (row,) = executions(fleet.url)
    assert (row["state"], row["attempt"]) == ("DEAD", 1)
    assert 'add "http://127.0.0.1" to allowed_hosts in the [policy] table' in row["reason"]
    assert not ledger.requests


def test_a_default_target_runs_sagas_that_have_neither_a_handler_nor_a_target(
    fleet: Fleet, ledger: Ledger
) -> None:
    folder, port = fleet.shell.folder, ledger.server_address[1]
    policy = folder / "tenantcron.toml"
    target = f'default_target.http.url = "http://127.0.0.1:{port}/quick"\n'
    policy.write_text(policy.read_text(encoding="utf-8") + target, encoding="utf-8")
    manifest = (
        'version: "1.0"\ntenant: other\nsagas:\n  - name: anything\n    trigger:\n'
        '      scheduled: {cron: "0 0 1 1 *", start_within: 1h}\n'
    )
    (folder / "other.yaml").write_text(manifest, encoding="utf-8")
    assert fleet.shell("apply-manifest", "other.yaml", "--create-tenants").code == 0
    process = fleet.start()
    until(lambda: fleet.is_up(process))
    until(lambda: make_due(fleet.url, "anything") is not None)
    until(lambda: bool(executions(fleet.url)) and all_ended(fleet.url))

    (row,) = executions(fleet.url)
    assert (row["state"], row["requires"]) == ("SUCCEEDED", "saga:anything")
    assert len(ledger.effects) == 1


def test_the_policy_can_be_another_file(fleet: Fleet, ledger: Ledger) -> None:
    folder = fleet.shell.folder
    (folder / "tenantcron.toml").rename(folder / "platform.toml")
    made = Fleet(fleet.shell, fleet.url, "--policy", "platform.toml")
    try:
        process = made.start()
        until(lambda: made.is_up(process))
        until(lambda: make_due(made.url, "quick0") is not None)
        until(lambda: bool(executions(made.url)) and all_ended(made.url))
    finally:
        made.close()
    assert len(ledger.effects) == 1


def test_a_host_allowed_for_one_tenant_is_not_called_for_another(
    tmp_path: Path, database_url: str, ledger: Ledger
) -> None:
    port = ledger.server_address[1]
    rest = f"allowed_networks = ['127.0.0.0/8']\nallowed_ports = [{port}]\n"
    hosts = "allowed_hosts = ['http://127.0.0.1']\n"
    strict = f"[policy]\n{rest}[policy.tenants.acme]\n{hosts}"
    (tmp_path / "tenantcron.toml").write_text(strict, encoding="utf-8")
    (tmp_path / "loose.toml").write_text(f"[policy]\n{rest}{hosts}", encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    for tenant in ("acme", "globex"):
        text = f"tenant: {tenant}\nsagas:\n{saga('quick0', f'http://127.0.0.1:{port}')}"
        (tmp_path / f"{tenant}.yaml").write_text(text, encoding="utf-8")
    refused = shell("apply-manifest", "globex.yaml", "--create-tenants")
    assert "TC402" in refused.out
    for file in ("acme.yaml", "globex.yaml"):
        loose = ("--create-tenants", "--policy", "loose.toml")
        assert shell("apply-manifest", file, *loose).code == 0
    assert shell("run", "--once").code == 0
    for tenant in ("acme", "globex"):
        assert shell("schedule", "trigger", f"{tenant}/quick0").code == 0

    assert shell("run", "--once").code == 0

    states = {row["tenant_id"]: row["state"] for row in executions(database_url)}
    assert states == {"acme": "SUCCEEDED", "globex": "DEAD"}
    assert len(ledger.effects) == 1
    assert "127.0.0.1 is not among the hosts" in shell("why", "globex/quick0").out


@pytest.mark.parametrize("content", ["[policy]\nallowed_hosts = 5\n", None])
def test_an_unreadable_policy_stops_the_scheduler(
    tmp_path: Path, database_url: str, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "policy.toml").write_text(content, encoding="utf-8")
    called = Shell(tmp_path, database_url)("run", "--once", "--policy", "policy.toml")
    assert called.code == 2
    assert "policy.toml" in called.err


def test_unreadable_certificates_stop_the_scheduler(tmp_path: Path, database_url: str) -> None:
    text = '[policy]\nallowed_hosts = ["a.test"]\n[settings]\nca_file = "ca.pem"\n'
    (tmp_path / "tenantcron.toml").write_text(text, encoding="utf-8")
    called = Shell(tmp_path, database_url)("run", "--once")
    assert called.code == 2
    assert "ca.pem: no certificates can be read" in called.err


def test_apply_refuses_retries_beyond_the_retention_of_the_policy_in_force(
    tmp_path: Path, database_url: str
) -> None:
    policy = '[policy]\nallowed_hosts = ["a.test"]\nidempotency_retention = "{}"\n'
    text = (
        "tenant: acme\nsagas:\n  - name: reconcile\n    trigger: 'scheduled:nightly:0 2 * * *'\n"
        "    target: {http: {url: 'https://a.test/'}}\n"
    )
    (tmp_path / "acme.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "tenantcron.toml").write_text(policy.format("10m"), encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    refused = shell("apply-manifest", "acme.yaml", "--create-tenants")
    assert refused.code == 1
    assert "TC404" in refused.out + refused.err
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM tenantcron.tenant").fetchone() == (0,)
    (tmp_path / "tenantcron.toml").write_text(policy.format("16m"), encoding="utf-8")
    assert shell("apply-manifest", "acme.yaml", "--create-tenants").code == 0
