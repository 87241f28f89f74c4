"""The examples of HTTP targets and of callbacks run as their pages describe."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.fleet import Shell
from support.ports import free_port
from support.processes import Fleet, executions, query, until
from support.serve_process import serving

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def copied(name: str, folder: Path, port: int) -> Path:
    """Copy an example, whose service has another port."""
    copy = folder / name
    shutil.copytree(EXAMPLES / name, copy)
    for file in ("acme.yaml", "tenantcron.toml"):
        text = (copy / file).read_text(encoding="utf-8")
        assert "8000" in text
        (copy / file).write_text(text.replace("8000", str(port)), encoding="utf-8")
    return copy


@contextmanager
def program(folder: Path, file: str, port: int, **variables: str) -> Iterator[list[str]]:
    """Run a service; provide what it has printed after the block."""
    process = subprocess.Popen(
        [sys.executable, file, str(port)],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
    )
    printed: list[str] = []
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"serving at port {port}\n"
        yield printed
    finally:
        process.kill()
        printed += process.communicate()[0].splitlines()


@contextmanager
def scheduling(
    folder: Path, url: str, given: Mapping[str, str], *, api: bool = False
) -> Iterator[Shell]:
    """Apply the manifest, and run a scheduler, and the API if it is needed."""
    shell, port = Shell(folder, url), free_port()
    applied = shell("apply-manifest", "acme.yaml", "--create-tenants")
    assert applied.code == 0, applied
    variables = {
        **given,
        "TENANTCRON_MASTER_KEY": os.urandom(32).hex(),
        "TENANTCRON_CALLBACK_URL": f"http://127.0.0.1:{port}",
    }
    fleet = Fleet(shell, url, **variables)
    with ExitStack() as stack:
        stack.callback(fleet.close)
        if api:
            stack.enter_context(serving(shell, at=port, **variables))
        scheduler = fleet.start()
        until(lambda: fleet.is_up(scheduler))
        yield shell


def triggered(shell: Shell) -> None:
    called = shell("schedule", "trigger", "acme/generate_invoices", "--wait")
    assert called.code == 0, called


def test_the_http_service_does_the_work_of_a_signed_request(
    tmp_path: Path, database_url: str
) -> None:
    port, secret = free_port(), {"BILLING_HMAC": "correct-horse-battery-staple"}
    folder = copied("http", tmp_path, port)
    with (
        program(folder, "service.py", port, **secret) as printed,
        scheduling(folder, database_url, secret) as shell,
    ):
        triggered(shell)
    assert printed == ["acme: 4 invoices, attempt 1"]


def test_the_callback_worker_reports_progress_and_the_result(
    tmp_path: Path, database_url: str
) -> None:
    port = free_port()
    folder = copied("callback-worker", tmp_path, port)
    with (
        program(folder, "worker.py", port) as printed,
        scheduling(folder, database_url, {}, api=True) as shell,
    ):
        triggered(shell)
        (row,) = [row for row in executions(database_url) if row["state"] == "SUCCEEDED"]
        (attempt,) = query(
            database_url,
            "SELECT result FROM tenantcron.execution_attempt WHERE execution_id = %s",
            row["id"],
        )
    assert (row["progress"], attempt["result"]) == (100, {"invoices": 4})
    assert [line.partition(",")[0] for line in printed][:1] == ["acme: invoice for ada"]
