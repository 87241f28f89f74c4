"""`tenantcron webhook`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.cursors import run
from support.fleet import Shell, footprint

POLICY = (
    '[policy]\nallowed_hosts = ["ops.internal", "http://127.0.0.1"]\n'
    'allowed_networks = ["127.0.0.0/8"]\nallowed_secrets = ["env:HOOK_*"]\n'
)
URL = "https://ops.internal/hooks?key=hush"


class Receiver(ThreadingHTTPServer):
    """Records the requests that it receives, and responds with a fixed status."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 204
        self.received: list[Any] = []


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.received.append(
            json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        )
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    (tmp_path / "tenantcron.toml").write_text(POLICY, encoding="utf-8")
    return Shell(tmp_path, database_url)


def json_of(shell: Shell, *arguments: str) -> Any:
    called = shell("webhook", *arguments, "--format", "json")
    assert (called.code, called.err) == (0, "")
    return json.loads(called.out)


def test_adding_and_removing_a_webhook_is_recorded(shell: Shell, database_url: str) -> None:
    assert "no webhooks" in shell("webhook", "list").out
    added = json_of(shell, "add", "ops", URL, "--event", "execution.dead", "--event", "schedule",
                 "--secret", "env:HOOK_SECRET", "--actor", "maria")  # fmt: skip
    assert added["events"] == [
        "dev.tenantcron.execution.dead",
        "dev.tenantcron.schedule.paused",
        "dev.tenantcron.schedule.resumed",
    ]
    assert (added["secret"], added["tenants"], added["created_by"]) == (
        "env:HOOK_SECRET", None, "maria",
    )  # fmt: skip
    (listed,) = json_of(shell, "list")["webhooks"]
    assert listed == added
    text = shell("webhook", "list").out
    assert "execution.dead, schedule.paused, schedule.resumed" in text
    # A URL may hold a secret; where it leads is enough to know.
    assert "https://ops.internal" in text
    assert "hush" not in text + json.dumps(listed)

    json_of(shell, "remove", "ops", "--actor", "maria")
    assert json_of(shell, "list") == {"webhooks": []}
    records = run(
        database_url,
        "SELECT operation, changed_by, before, after FROM tenantcron.audit_record"
        " WHERE entity_type = 'webhook' ORDER BY id",
    )
    assert [(record["operation"], record["changed_by"]) for record in records] == [
        ("create", "maria"), ("delete", "maria"),
    ]  # fmt: skip
    assert "hush" not in str(records)
    assert "HOOK_SECRET" not in str(records)


def test_a_webhook_is_disabled_and_enabled(shell: Shell) -> None:
    json_of(shell, "add", "ops", URL)
    assert json_of(shell, "disable", "ops", "--reason", "moving")["disabled_reason"] == "moving"
    assert "off: moving" in shell("webhook", "list").out
    assert json_of(shell, "disable", "ops")["disabled_reason"] == "moving"
    assert json_of(shell, "enable", "ops")["disabled_at"] is None


def test_a_webhook_without_event_types_receives_all_events(shell: Shell) -> None:
    added = json_of(shell, "add", "all", URL, "--batch")
    assert len(added["events"]) == 8
    assert added["batch"] is True


def test_all_problems_are_reported_at_once_and_nothing_is_written(
    shell: Shell, database_url: str
) -> None:
    before = footprint(database_url)
    called = shell(
        "webhook", "add", "Ops!", "http://169.254.169.254/latest", "--event", "execution.died",
        "--event", "nonsense", "--tenant", "NOT ONE", "--secret", "env:OTHER",
    )  # fmt: skip
    assert (called.code, called.out) == (2, "")
    lines = called.err.splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "NAME", "URL", "--event", "--event", "--tenant", "--secret",
    ]  # fmt: skip
    assert "did you mean execution.dead?" in called.err
    assert "allowed_hosts in the [policy] table" in called.err
    assert footprint(database_url) == before


@pytest.mark.parametrize(
    "url",
    ["ops.internal/x", "https://", "ftp://ops.internal/", f"https://ops.internal/{'x' * 3000}"],
)
def test_an_invalid_url_is_refused(shell: Shell, url: str) -> None:
    called = shell("webhook", "add", "ops", url)
    assert called.code == 2
    assert "not a valid URL" in called.err


def test_a_duplicate_name_an_unknown_tenant_and_a_seventeenth_webhook_are_refused(
    shell: Shell, database_url: str
) -> None:
    for number in range(15):
        json_of(shell, "add", f"w{number}", URL)
    before = footprint(database_url)
    for arguments, expected in (
        (["w1", URL], "a webhook `w1` exists"),
        (["other", URL, "--tenant", "acme", "--tenant", "beta"], "no tenant acme, beta"),
    ):
        called = shell("webhook", "add", *arguments)
        assert (called.code, expected in called.err) == (1, True)
    assert footprint(database_url) == before
    json_of(shell, "add", "w15", URL)
    assert "at most 16 webhooks" in shell("webhook", "add", "w16", URL).err


@pytest.mark.parametrize("action", ["enable", "disable", "remove", "test"])
def test_an_unknown_webhook_is_named(shell: Shell, action: str) -> None:
    called = shell("webhook", action, "unknown")
    assert called.code == 1
    assert "there is no webhook 'unknown'" in called.err


def test_a_test_sends_an_event_and_reports_the_response(shell: Shell) -> None:
    with receiving() as receiver:
        port = receiver.server_address[1]
        policy = f"{POLICY}allowed_ports = [{port}]\n"
        (shell.folder / "tenantcron.toml").write_text(policy, encoding="utf-8")
        json_of(shell, "add", "ops", f"http://127.0.0.1:{port}/hook")
        answer = json_of(shell, "test", "ops")
        receiver.status = 503
        called = shell("webhook", "test", "ops")
    assert [event["type"] for event in receiver.received] == ["dev.tenantcron.webhook.test"] * 2
    assert receiver.received[0]["id"] == answer["event"]
    assert called.code == 1
    assert "webhook ops did not accept the event: the receiver answered 503" in called.err
