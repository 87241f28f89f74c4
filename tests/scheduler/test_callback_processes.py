"""Remote workers, schedulers and the API as real processes, some of which are killed."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest
from support.fleet import Shell
from support.node import node_program
from support.patience import PATIENCE
from support.patient_services import PatientHandler, PatientService, at_service
from support.ports import free_port
from support.processes import Fleet, executions, make_due, query, until
from support.serve_process import serving

from tenantcron.client.callbacks import AttemptWork, CallbackWorker
from tenantcron.client.errors import RequestError

WORKER = Path(__file__).parents[2] / "examples" / "callback-worker" / "worker.ts"


class Accepting(PatientService):
    """A service that accepts attempts, and leaves them to the test."""

    def __init__(self) -> None:
        super().__init__(_Handler, seed=1)
        self.workers: list[CallbackWorker] = []
        # Not set: the service has the request, and does not respond.
        self.responds = Event()
        self.responds.set()


class _Handler(PatientHandler):
    server: Accepting

    def take(self) -> None:
        self.body()
        with self.server.lock:
            self.server.workers.append(CallbackWorker.of_headers(dict(self.headers.items())))
        self.server.responds.wait(PATIENCE)
        self.answer(202)


@contextmanager
def cluster(folder: Path, url: str, target: int) -> Iterator[tuple[Fleet, int]]:
    """A tenant with a saga at a target, and schedulers that expect callbacks at a port."""
    port = free_port()
    policy = (
        '[policy]\nallowed_hosts = ["http://127.0.0.1"]\nallowed_networks = ["127.0.0.0/8"]\n'
        f"allowed_ports = [{target}]\n"
    )
    (folder / "tenantcron.toml").write_text(policy, encoding="utf-8")
    (folder / "acme.yaml").write_text(
        'version: "1.0"\ntenant: acme\nsagas:\n'
        "  - name: report\n    trigger:\n      scheduled: "
        '{cron: "0 0 1 1 *", start_within: 1h, timeout: 10m, payload: {steps: 2}, '
        "retry: {max_attempts: 3, backoff: 1s, max_backoff: 1s}}\n"
        f"    target:\n      http: {{url: 'http://127.0.0.1:{target}/run', "
        "completion: callback, heartbeat: 5m}\n",
        encoding="utf-8",
    )
    shell = Shell(folder, url)
    applied = shell("apply-manifest", "acme.yaml", "--create-tenants")
    assert applied.code == 0, applied
    key = os.urandom(32).hex()
    fleet = Fleet(
        shell,
        url,
        TENANTCRON_MASTER_KEY=key,
        TENANTCRON_CALLBACK_URL=f"http://127.0.0.1:{port}",
    )
    try:
        yield fleet, port
    finally:
        fleet.close()


@contextmanager
def api(fleet: Fleet, port: int) -> Iterator[subprocess.Popen[str]]:
    """Serve the API with the keys of the schedulers."""
    with serving(fleet.shell, at=port, **fleet.variables) as (_, process):
        yield process


def state(url: str) -> str:
    rows = executions(url)
    return str(rows[0]["state"]) if rows else ""


def fire(fleet: Fleet) -> None:
    """Make the schedule due, once it has a cursor."""
    until(lambda: make_due(fleet.url, "report") is not None)


def test_a_worker_finishes_although_its_scheduler_and_the_api_are_killed(
    tmp_path: Path, database_url: str
) -> None:
    with (
        at_service(Accepting()) as service,
        cluster(tmp_path, database_url, service.server_address[1]) as (fleet, port),
    ):
        first = fleet.start()
        service.responds.clear()
        fire(fleet)
        until(lambda: len(service.workers) == 1)
        # The worker has the request, and the scheduler dies before the response.
        fleet.kill(first)
        service.responds.set()
        (worker,) = service.workers
        with api(fleet, port) as process:
            worker.heartbeat(AttemptWork())
            fleet.start()
            process.kill()
        reported = Event()

        def report() -> None:
            while not reported.is_set():
                # The API is not back yet.
                with suppress(RequestError):
                    worker.complete({"pages": 3})
                    reported.set()

        thread = Thread(target=report, daemon=True)
        thread.start()
        with api(fleet, port):
            assert reported.wait(PATIENCE)
        thread.join()
        (row,) = executions(database_url)
        assert (row["state"], row["attempt"], row["losses"]) == ("SUCCEEDED", 1, 0)
        assert len(service.workers) == 1


def compiled_worker(folder: Path) -> Path:
    """Compile the example with the strict rules of TypeScript."""
    compiler, types = node_program("typescript/bin/tsc"), node_program("@types/node")
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    places = ["--typeRoots", str(types.parent), "--outDir", str(folder)]
    called = subprocess.run(
        ["node", str(compiler), *options, *places, str(WORKER)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert called.returncode == 0, called.stdout
    return folder / "worker.js"


class Refusing(PatientService):
    """An API that answers every report with the same status, from the second one on if asked."""

    def __init__(self, status: int, first: int) -> None:
        super().__init__(_RefusingHandler, seed=1)
        self.status, self.first = status, first
        self.reports: list[str] = []


class _RefusingHandler(PatientHandler):
    server: Refusing

    def take(self) -> None:
        self.body()
        with self.server.lock:
            self.server.reports.append(self.path.rpartition(":")[2])
            is_first = len(self.server.reports) == 1
        body = b'{"cancel": false, "detail": "the attempt is over"}'
        self.send_response(self.server.first if is_first else self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def example_worker(worker: Path, target: int) -> Iterator["subprocess.Popen[str]"]:
    node = subprocess.Popen(
        ["node", str(worker)],
        env={**os.environ, "PORT": str(target)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == f"listening on {target}\n"
        yield node
    finally:
        node.kill()
        node.communicate()


@pytest.mark.parametrize(
    ("first", "status", "last", "reports"),
    [
        (500, 500, "fail: HTTP 500", {"heartbeat", "complete", "fail"}),
        (200, 409, "the attempt is over", {"heartbeat", "complete"}),
        (409, 409, "the attempt is over", {"heartbeat"}),
    ],
    ids=["broken", "over", "over-before"],
)
def test_the_example_worker_gives_up(
    tmp_path: Path, first: int, status: int, last: str, reports: set[str]
) -> None:
    worker, target = compiled_worker(tmp_path), free_port()
    with (
        at_service(Refusing(status, first)) as service,
        example_worker(worker, target) as node,
    ):
        url = f"http://127.0.0.1:{service.server_address[1]}/v1/executions/1"
        headers = {
            "X-Tenantcron-Callback-Url": url,
            "X-Tenantcron-Callback-Token": "token",
            # Short if it waits for its end; long if the next heartbeat must not come first.
            "X-Tenantcron-Heartbeat": "1" if first == 500 else "60",
        }
        body = {"payload": {"steps": 1}}
        accepted = httpx.post(f"http://127.0.0.1:{target}/run", headers=headers, json=body)
        assert accepted.status_code == 202
        assert node.stderr is not None
        assert any(last in line for line in node.stderr)
        assert set(service.reports) == reports


def test_the_example_worker_reports_progress_and_the_result(
    tmp_path: Path, database_url: str
) -> None:
    worker, target = compiled_worker(tmp_path), free_port()
    with ExitStack() as stack:
        fleet, port = stack.enter_context(cluster(tmp_path, database_url, target))
        stack.enter_context(example_worker(worker, target))
        stack.enter_context(api(fleet, port))
        fleet.start()
        fire(fleet)
        until(lambda: state(database_url) == "SUCCEEDED")
        (row,) = executions(database_url)
        assert (row["attempt"], row["progress"]) == (1, 100)
        (attempt,) = query(database_url, "SELECT * FROM tenantcron.execution_attempt")
        assert attempt["result"] == {"steps": 2}
