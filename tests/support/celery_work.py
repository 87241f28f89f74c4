"""A cluster with Celery targets: schedulers, the API, a broker and Celery workers as processes."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.fleet import Shell
from support.ports import free_port
from support.processes import Fleet, executions, make_due, until
from support.serve_process import serving

from faults.brokers import Broker

_POLICY = """\
[policy]
target_kinds = ["celery"]
allowed_celery_tasks = ["{queue}/tests.*"]

[settings]
celery_broker = "env:BROKER"
"""


@dataclass(slots=True)
class CeleryWork:
    """The processes, and what the tasks have recorded."""

    fleet: Fleet
    broker: Broker
    queue: str
    folder: Path
    port: int
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start_worker(self, **variables: str) -> "subprocess.Popen[bytes]":
        """Start a worker with one process for tasks, and its parent."""
        log = (self.folder / f"worker{len(self.workers)}.log").open("wb")
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "-A", "support.celery_app", "worker"),
                *("-Q", self.queue, "-c", "1", "-P", "prefork", "-n", f"{len(self.workers)}@test"),
                *("--without-gossip", "--without-mingle", "--loglevel", "warning"),
            ],
            cwd=self.folder,
            env={
                **os.environ,
                "BROKER": self.broker.url,
                "EFFECTS": str(self.folder),
                "PYTHONPATH": str(Path(__file__).parents[1]),
                "C_FORCE_ROOT": "1",
                **variables,
            },
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self.workers.append(process)
        return process

    def kill(self, worker: "subprocess.Popen[bytes]") -> None:
        """Kill a worker and its children at once."""
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def fire(self, *sagas: str) -> None:
        """Make schedules due, once they have a cursor."""
        for saga in sagas:
            until(lambda saga=saga: make_due(self.fleet.url, saga) is not None)  # type: ignore[misc] # the default binds it

    def states(self) -> Counter[str]:
        """Count the executions by state."""
        return Counter(str(row["state"]) for row in executions(self.fleet.url))

    def keys(self, kind: str) -> Counter[str]:
        """Count the keys of starts or effects."""
        with suppress(FileNotFoundError):
            lines = (self.folder / kind).read_text(encoding="utf-8").splitlines()
            return Counter(line.split()[0] for line in lines)
        return Counter()

    def logged(self, text: str) -> bool:
        """Whether a worker has logged a text."""
        logs = self.folder.glob("worker*.log")
        return any(text in log.read_text(encoding="utf-8", errors="replace") for log in logs)

    def open(self, gate: str) -> None:
        """Let the tasks that wait for a gate continue."""
        (self.folder / gate).touch()


@contextmanager
def celery_work(
    folder: Path, url: str, broker: Broker, sagas: dict[str, str], heartbeat: str = "30s"
) -> Iterator[CeleryWork]:
    """A tenant with sagas at Celery, by name with their payload, the API and one scheduler."""
    port, queue = free_port(), f"q{free_port()}"
    (folder / "tenantcron.toml").write_text(_POLICY.format(queue=queue), encoding="utf-8")
    entries = "".join(
        f"  - name: {name}\n    trigger:\n      scheduled: "
        f'{{cron: "0 0 1 1 *", start_within: 1h, timeout: 10m, payload: {payload}, '
        "retry: {max_attempts: 20, backoff: 1s, max_backoff: 1s}}\n"
        f"    target: {{celery: {{task: tests.work, queue: {queue}, heartbeat: {heartbeat}}}}}\n"
        for name, payload in sagas.items()
    )
    manifest = f'version: "1.0"\ntenant: acme\nsagas:\n{entries}'
    (folder / "acme.yaml").write_text(manifest, encoding="utf-8")
    shell = Shell(folder, url)
    applied = shell("apply-manifest", "acme.yaml", "--create-tenants")
    assert applied.code == 0, applied
    fleet = Fleet(
        shell,
        url,
        TENANTCRON_MASTER_KEY=os.urandom(32).hex(),
        TENANTCRON_CALLBACK_URL=f"http://127.0.0.1:{port}",
        TENANTCRON_MAX_CONCURRENT_PER_TENANT="20",
        BROKER=broker.url,
    )
    work = CeleryWork(fleet, broker, queue, folder, port)
    try:
        with serving(shell, at=port, **fleet.variables):
            fleet.start()
            yield work
    finally:
        fleet.close()
        for worker in work.workers:
            work.kill(worker)
