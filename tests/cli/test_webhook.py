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
    """Takes down what it is told, and answers with one status."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 204
        self.told: list[Any] = []


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
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


def told(shell: Shell, *arguments: str) -> Any:
    called = shell("webhook", *arguments, "--format", "json")
    assert (called.code, called.err) == (0, "")
    return json.loads(called.out)


def test_a_webhook_is_added_listed_and_removed_on_record(shell: Shell, database_url: str) -> None:
    assert "no webhooks" in shell("webhook", "list").out
    added = told(shell, "add", "ops", URL, "--event", "execution.dead", "--event", "schedule",
                 "--secret", "env:HOOK_SECRET", "--actor", "maria")  # fmt: skip
    assert added["events"] == [
        "dev.tenantcron.execution.dead",
        "dev.tenantcron.schedule.paused",
        "dev.tenantcron.schedule.resumed",
    ]
    assert (added["secret"], added["tenants"], added["created_by"]) == (
        "env:HOOK_SECRET", None, "maria",
    )  # fmt: skip
    (listed,) = told(shell, "list")["webhooks"]
    assert listed == added
    text = shell("webhook", "list").out
    assert "execution.dead, schedule.paused, schedule.resumed" in text
    # A URL may hold a secret; where it leads is enough to know.
    assert "https://ops.internal" in text
    assert "hush" not in text + json.dumps(listed)

    told(shell, "remove", "ops", "--actor", "maria")
    assert told(shell, "list") == {"webhooks": []}
    records = run(
        database_url,
        "SELECT operation, changed_by, before, after FROM tenantcron.audit_record"
        " WHERE entity_type = 'webhook' ORDER BY id",
    )
    assert [(one["operation"], one["changed_by"]) for one in records] == [
        ("create", "maria"), ("delete", "maria"),
    ]  # fmt: skip
    assert "hush" not in str(records)
    assert "HOOK_SECRET" not in str(records)


def test_a_webhook_is_switched_off_and_on_again(shell: Shell) -> None:
    told(shell, "add", "ops", URL)
    assert told(shell, "disable", "ops", "--reason", "moving")["disabled_reason"] == "moving"
    assert "off: moving" in shell("webhook", "list").out
    assert told(shell, "disable", "ops")["disabled_reason"] == "moving"
    assert told(shell, "enable", "ops")["disabled_at"] is None


def test_a_webhook_without_events_is_told_of_all(shell: Shell) -> None:
    added = told(shell, "add", "all", URL, "--batch")
    assert len(added["events"]) == 8
    assert added["batch"] is True


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_written(
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
def test_what_is_no_url_is_refused(shell: Shell, url: str) -> None:
    called = shell("webhook", "add", "ops", url)
    assert called.code == 2
    assert "not a valid URL" in called.err


def test_a_second_one_of_a_name_an_unknown_tenant_and_a_seventeenth_are_refused(
    shell: Shell, database_url: str
) -> None:
    for number in range(15):
        told(shell, "add", f"w{number}", URL)
    before = footprint(database_url)
    for arguments, said in (
        (["w1", URL], "a webhook `w1` exists"),
        (["other", URL, "--tenant", "acme", "--tenant", "beta"], "no tenant acme, beta"),
    ):
        called = shell("webhook", "add", *arguments)
        assert (called.code, said in called.err) == (1, True)
    assert footprint(database_url) == before
    told(shell, "add", "w15", URL)
    assert "at most 16 webhooks" in shell("webhook", "add", "w16", URL).err


@pytest.mark.parametrize("action", ["enable", "disable", "remove", "test"])
def test_a_webhook_that_is_not_there_is_named(shell: Shell, action: str) -> None:
    called = shell("webhook", action, "nobody")
    assert called.code == 1
    assert "there is no webhook 'nobody'" in called.err


def test_a_test_sends_an_event_and_tells_what_the_receiver_said(shell: Shell) -> None:
    with receiving() as receiver:
        port = receiver.server_address[1]
        policy = f"{POLICY}allowed_ports = [{port}]\n"
        (shell.folder / "tenantcron.toml").write_text(policy, encoding="utf-8")
        told(shell, "add", "ops", f"http://127.0.0.1:{port}/hook")
        answer = told(shell, "test", "ops")
        receiver.status = 503
        called = shell("webhook", "test", "ops")
    assert [event["type"] for event in receiver.told] == ["dev.tenantcron.webhook.test"] * 2
    assert receiver.told[0]["id"] == answer["event"]
    assert called.code == 1
    assert "webhook ops did not accept the event: the receiver answered 503" in called.err
