"""Logs of running executions, with a scheduler as a separate process."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from support.database import TEMPLATE, Server
from support.fleet import Shell, manifest
from support.patience import PATIENCE
from support.ports import free_port
from support.processes import until
from support.scraping import until_served
from support.serve_process import serving

HANDLERS = """
import logging
import time
from pathlib import Path
from tenantcron.targets.python.registry import saga

log = logging.getLogger("billing")

def work(execution):
    log.warning("reading")
    while not Path(f"go-{execution.saga_name}").exists():
        time.sleep(0.05)
    log.warning("done")

@saga("plain")
def plain(execution):
    work(execution)

@saga("isolated", isolation="process")
def isolated(execution):
    work(execution)
"""


@pytest.fixture(scope="module")
def shell(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A tenant, and a scheduler whose handlers log and wait."""
    folder, port = tmp_path_factory.mktemp("live"), free_port()
    yearly = "cron: '0 0 1 1 *', retry: {max_attempts: 1}"
    (folder / "acme.yaml").write_text(manifest("acme", {"plain": yearly, "isolated": yearly}))
    (folder / "waiting_handlers.py").write_text(HANDLERS, encoding="utf-8")
    with server.database(TEMPLATE) as url:
        shell = Shell(folder, url)
        assert shell("apply-manifest", ".", "--create-tenants").code == 0
        options = ("--handlers", "waiting_handlers", "--metrics-port", str(port))
        process = shell.start("run", *options, PYTHONPATH=str(folder))
        try:
            until_served(port)
            yield shell
        finally:
            process.terminate()
            process.communicate()


def triggered(shell: Shell, name: str) -> Path:
    """Trigger a schedule; return the file that its handler waits for."""
    go = shell.folder / f"go-{name}"
    go.unlink(missing_ok=True)
    assert shell("schedule", "trigger", f"acme/{name}").code == 0
    return go


def followed_to_the_end(process: "Popen[str]", go: Path) -> tuple[str, str]:
    """Wait for the first line, let the handler end, and return the other output."""
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "warning reading logger=billing\n"
        go.touch()
        out, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    return out, errors


@pytest.mark.parametrize("name", ["plain", "isolated"])
def test_lines_are_printed_while_the_execution_runs(shell: Shell, name: str) -> None:
    go = triggered(shell, name)

    out, errors = followed_to_the_end(shell.start("logs", f"acme/{name}", "--follow"), go)

    assert out == "warning done logger=billing\n"
    assert "attempt 1 is running\n" in errors
    assert "attempt 1 SUCCEEDED at " in errors


def test_a_server_returns_the_log_of_a_running_execution(shell: Shell) -> None:
    remote = Shell(shell.folder)
    with serving(shell, "--anonymous") as (url, _):
        go = triggered(shell, "plain")
        options = ("--follow", "--server", url)
        out, _ = followed_to_the_end(remote.start("logs", "acme/plain", *options), go)
    assert out == "warning done logger=billing\n"


def test_logs_and_show_print_what_was_logged_so_far(shell: Shell) -> None:
    go = triggered(shell, "plain")
    try:
        until(lambda: shell("logs", "acme/plain").out == "warning reading logger=billing\n")
        listed = json.loads(shell("execution", "list", "acme", "--format", "json").out)
        shown = shell("execution", "show", listed["executions"][0]["id"])
        called = shell("logs", "acme/plain")
    finally:
        go.touch()

    assert "attempt 1 is running" in called.err
    assert shown.out.endswith("      log so far:\n        | warning reading logger=billing\n")
