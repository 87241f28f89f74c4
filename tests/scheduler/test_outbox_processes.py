"""Real schedulers that are killed during deliveries, and a receiver that checks event ids."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fleet import Shell
from support.patient_services import PatientHandler, PatientService, at_service
from support.processes import Fleet, query, until

TENANTS = ("acme", "beta", "gamma")
EVENTS, KILLS = 60, 4


class Receiver(PatientService):
    """Accepts each event after a moment, in which its sender may be killed."""

    def __init__(self) -> None:
        super().__init__(_Handler, seed=5)
        self.came: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)

    @property
    def number(self) -> int:
        """The number of requests."""
        return sum(map(len, self.came.values()))


class _Handler(PatientHandler):
    server: Receiver

    def take(self) -> None:
        event = json.loads(self.body())
        with self.server.lock:
            self.server.came[event["tenant"]].append((event["id"], event["subject"]))
            status = 503 if self.server.random.random() < 0.05 else 204
        self.server.closing.wait(0.03)
        self.answer(status)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with at_service(Receiver()) as running:
        yield running


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, receiver: Receiver) -> Iterator[Fleet]:
    """Schedulers that may call the receiver, and its webhook."""
    port = receiver.server_address[1]
    policy = (
        '[policy]\nallowed_hosts = ["http://127.0.0.1"]\nallowed_networks = ["127.0.0.0/8"]\n'
        f"allowed_ports = [{port}]\n"
    )
    (tmp_path / "tenantcron.toml").write_text(policy, encoding="utf-8")
    shell = Shell(tmp_path, database_url)
    assert shell("webhook", "add", "ops", f"http://127.0.0.1:{port}/hook").code == 0
    fleet = Fleet(shell, database_url)
    try:
        yield fleet
    finally:
        fleet.close()


def happen(url: str, number: int) -> None:
    for tenant in TENANTS:
        query(
            url,
            "INSERT INTO tenantcron.outbox (tenant_id, type, subject, happened_at, data)"
            " VALUES (%s, 'dev.tenantcron.tenant.changed', %s, now(), '{}')",
            tenant,
            str(number),
        )


def all_delivered(url: str) -> bool:
    return not query(
        url,
        "SELECT 1 FROM tenantcron.outbox UNION ALL SELECT 1 FROM tenantcron.webhook_event LIMIT 1",
    )


def test_every_event_arrives_at_least_once_and_in_order_while_schedulers_are_killed(
    fleet: Fleet, receiver: Receiver
) -> None:
    for number in range(EVENTS):
        happen(fleet.url, number)
    for _ in range(KILLS):
        process, before = fleet.start(), receiver.number
        until(lambda before=before: receiver.number > before + 5)  # type: ignore[misc] # a default of a lambda
        fleet.kill(process)
        # Expire its leases at once, instead of waiting for them.
        query(fleet.url, "UPDATE tenantcron.webhook_lane SET due_at = now()")
    fleet.start()
    fleet.start()
    until(lambda: all_delivered(fleet.url))

    expected = [str(number) for number in range(EVENTS)]
    for tenant in TENANTS:
        came = receiver.came[tenant]
        first = list(dict.fromkeys(came))
        # The first deliveries are in order, and repeated ones have the same id.
        assert [subject for _, subject in first] == expected
        assert len({id_ for id_, _ in first}) == EVENTS
    # Senders were killed between a request and its record, so there are repeated deliveries.
    assert receiver.number > EVENTS * len(TENANTS)


def test_run_once_delivers_its_events(fleet: Fleet, receiver: Receiver) -> None:
    happen(fleet.url, 1)
    done = fleet.shell("run", "--once", TENANTCRON_LOG_LEVEL="error")
    assert done.code == 0, done
    assert set(receiver.came) == set(TENANTS)
    until(lambda: all_delivered(fleet.url) or fleet.shell("run", "--once").code == 0)
