"""`--watch`, `--follow` and `logs`, as processes beside a scheduler."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.database import TEMPLATE, Server
from support.fleet import Shell, manifest
from support.patience import PATIENCE
from support.ports import free_port
from support.scraping import until_served
from support.serve_process import serving

HANDLERS = """
import logging
from tenantcron.targets.python.registry import saga

@saga("good")
async def good(execution):
    logging.getLogger("billing").warning("42 invoices")

@saga("bad")
async def bad(execution):
    logging.getLogger("billing").warning("reading tariffs")
    raise ValueError("no tariff")
"""


@pytest.fixture(scope="module")
def shell(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A tenant with three schedules, and a scheduler that runs two of them."""
    folder, port = tmp_path_factory.mktemp("live"), free_port()
    yearly = "cron: '0 0 1 1 *', retry: {max_attempts: 2, backoff: 0s}"
    text = manifest("acme", {"good": yearly, "bad": yearly, "unused": yearly})
    (folder / "acme.yaml").write_text(text, encoding="utf-8")
    (folder / "live_handlers.py").write_text(HANDLERS, encoding="utf-8")
    with server.database(TEMPLATE) as url:
        shell = Shell(folder, url)
        assert shell("apply-manifest", ".", "--create-tenants").code == 0
        options = ("--handlers", "live_handlers", "--metrics-port", str(port))
        process = shell.start("run", *options, PYTHONPATH=str(folder))
        try:
            until_served(port)
            assert shell("schedule", "trigger", "acme/good", "--wait").code == 0
            assert shell("schedule", "trigger", "acme/bad", "--wait").code == 1
            yield shell
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def served(shell: Shell) -> Iterator[tuple[str, ...]]:
    """The options that use a server instead of the database."""
    with serving(shell, "--anonymous") as (url, _):
        yield ("--server", url)


@contextmanager
def started(shell: Shell, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a command that runs until Ctrl-C, and send it."""
    process = shell.start(*arguments)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (130, "")
    finally:
        process.kill()
        process.communicate()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def document_of(process: "subprocess.Popen[str]") -> Any:
    return json.loads(line_of(process))


def test_follow_prints_executions_as_they_change(shell: Shell) -> None:
    options = ("acme/good", "--follow", "--format", "json")
    with started(shell, "execution", "list", *options) as process:
        known = document_of(process)
        assert known["state"] == "SUCCEEDED"
        triggered = json.loads(shell("schedule", "trigger", "acme/good", "--format", "json").out)

        states = []
        while "SUCCEEDED" not in states:
            change = document_of(process)
            assert change["id"] == triggered["execution"]
            states.append(change["state"])

        assert len(states) == len(set(states))


def test_logs_follow_and_watch_are_the_same_on_a_server(
    shell: Shell, served: tuple[str, ...]
) -> None:
    remote = Shell(shell.folder)
    for command in (("logs", "acme/bad", "--since", "1h"), ("logs", "acme/good", "--attempt", "1")):
        assert remote(*command, *served) == shell(*command)
    options = ("acme/good", "--limit", "1", "--format", "json")
    local = shell("execution", "list", *options)
    (newest,) = json.loads(local.out)["executions"]
    with started(remote, "execution", "list", *options, "--follow", *served) as process:
        assert document_of(process) == newest
    with started(remote, "execution", "list", *options, "--watch", *served) as process:
        assert document_of(process) == json.loads(local.out)


def test_follow_prints_a_table_whose_header_comes_once(shell: Shell) -> None:
    with started(shell, "execution", "list", "acme/good", "--follow") as process:
        assert line_of(process).startswith("execution  schedule ")
        assert " SUCCEEDED " in line_of(process)


def test_follow_and_watch_exclude_each_other(shell: Shell) -> None:
    called = shell("execution", "list", "--follow", "--watch")
    assert called.code == 2
    assert "choose one" in called.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--watch",), "--watch redraws a terminal, and the output is not one: use --format json"),
        (("--watch", "--format", "csv"), "--watch has no CSV"),
        (("--follow", "--format", "yaml"), "--follow has no YAML"),
    ],
)
def test_a_format_that_does_not_fit_is_refused(
    shell: Shell, options: tuple[str, ...], words: str
) -> None:
    called = shell("execution", "list", *options)
    assert called.code == 2
    assert words in called.err


@pytest.mark.parametrize("seconds", ["x", "0", "0.1", "9999"])
def test_an_interval_out_of_range_is_refused(shell: Shell, seconds: str) -> None:
    called = shell("execution", "list", f"--watch={seconds}")
    assert called.code == 2
    assert "is not a number of seconds from 0.5 to 3600" in called.err


def test_watch_prints_a_json_document_per_line(shell: Shell) -> None:
    options = ("acme/bad", "--watch=0.5", "--format", "json")
    with started(shell, "execution", "list", *options) as process:
        frames = [document_of(process) for _ in range(2)]

    assert frames[0] == frames[1]
    assert frames[0]["executions"][0]["state"] == "DEAD"


@pytest.mark.parametrize(
    ("command", "key"),
    [("schedule list acme", "schedules"), ("tenant list", "tenants"), ("health", "findings")],
)
def test_lists_and_health_can_be_watched(shell: Shell, command: str, key: str) -> None:
    with started(shell, *command.split(), "--watch=0.5", "--format", "json") as process:
        assert key in document_of(process)
        assert key in document_of(process)


def test_watch_redraws_a_terminal_in_place(shell: Shell) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tenantcron", "execution", "list", "acme/bad", "--watch=0.5"],
        cwd=shell.folder,
        env={**os.environ, "TENANTCRON_DATABASE_URL": str(shell.url), "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(theirs)
    screen = ""
    try:
        while screen.count("\x1b[J") < 2:
            screen += os.read(ours, 65_536).decode()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        screen += os.read(ours, 65_536).decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)

    assert (process.returncode, errors) == (130, b"")
    assert screen.startswith("\x1b[?1049h")
    assert screen.endswith("\x1b[?1049l")
    first, second = screen.split("\x1b[H")[1:3]
    assert first.split("\x1b[J")[0] == second.split("\x1b[J")[0]
    assert "DEAD" in first
    assert "\x1b[2J" not in screen


def test_logs_show_the_last_execution_of_a_schedule(shell: Shell) -> None:
    called = shell("logs", "acme/good")

    assert called.code == 0
    assert "42 invoices" in called.out
    assert called.err.startswith("acme/good ")
    assert ", attempt 1 SUCCEEDED at " in called.err


def test_logs_of_a_schedule_that_never_ran_name_the_command_that_explains_it(shell: Shell) -> None:
    called = shell("logs", "acme/unused")

    assert called.err == (
        "error: no execution has started: `tenantcron why acme/unused` explains why\n"
    )


def test_logs_show_all_attempts_or_one(shell: Shell) -> None:
    found = json.loads(shell("execution", "list", "acme/bad", "--format", "json").out)
    prefix = found["executions"][0]["id"][:8]

    every, second = shell("logs", prefix), shell("logs", prefix, "--attempt", "2")

    assert every.out.count("reading tariffs") == 2
    assert second.out.count("reading tariffs") == 1
    assert "attempt 2 FAILED" in second.err
    assert "no tariff" in second.err
    assert "\nTraceback (most recent call last):\n" in second.err
    assert "\N{REPLACEMENT CHARACTER}" not in second.err


def test_logs_as_json_have_a_document_per_attempt(shell: Shell) -> None:
    called = shell("logs", "acme/bad", "--since", "1h", "--format", "json")

    documents = [json.loads(line) for line in called.out.splitlines()]
    assert [document["attempt"] for document in documents] == [1, 2]
    assert all("reading tariffs" in document["log"] for document in documents)


def test_logs_follow_the_next_execution_until_it_ends(shell: Shell) -> None:
    process = shell.start("logs", "acme/bad", "--follow")
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting for the next execution of acme/bad\n"
        assert shell("schedule", "trigger", "acme/bad").code == 0
        out, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 1
    assert out.count("reading tariffs") == 2
    assert "attempt 2 FAILED" in errors


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["acme/unused"], 1, "no execution has started"),
        (["acme/unknown"], 1, "unknown"),
        (["other/unknown"], 1, "other"),
        (["00000000"], 1, "00000000"),
        (["acme/good", "--attempt", "9"], 1, "there is no attempt 9"),
        (["acme/good", "--attempt", "0"], 2, "--attempt"),
        (["nonsense"], 2, "is not an execution id"),
        (["acme/"], 2, "is not a name"),
        (["acme/good", "--since", "1h", "--follow"], 2, "cannot be used with --follow"),
        (["00000000", "--since", "1h"], 2, "--since needs a schedule"),
        (["acme/good", "--since", "soon"], 2, "is not a time"),
    ],
)
def test_logs_that_do_not_exist_are_explained(
    shell: Shell, arguments: list[str], code: int, words: str
) -> None:
    called = shell("logs", *arguments)

    assert called.code == code
    assert words in called.err
    assert "Traceback" not in called.err
    assert called.out == ""
