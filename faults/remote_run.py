"""A seed whose work runs at remote workers.

Schedulers, the API, the workers and the broker are killed and started again.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from time import monotonic

from faults.brokers import Broker, free_port, rabbitmq
from faults.checker import Checker
from faults.evidence import Key, gather_rows
from faults.journal import Findings, Journal, now
from faults.options import Options, Verdict
from faults.postgres import HarnessError
from faults.remote_checker import RemoteChecker, check_forgotten_reports, read_records
from faults.remote_records import FILE
from faults.remote_workload import QUEUE, Remote, remote_policy, remote_workload
from faults.testbed import ROOT, Setup, Testbed, testbed
from faults.timers import Timers
from faults.workload import Workload

_SCHEDULERS, _WORKERS = 2, 2
_TICK = 0.05
# Seconds between two kills of the same kind, and until it is started again.
_PAUSES = {"scheduler": (3, 7), "worker": (4, 9), "API": (5, 10), "broker": (12, 20)}
_AWAY = (0.2, 2.0)
_UNFINISHED = """
SELECT (SELECT count(*) FROM tenantcron.execution_live WHERE scheduled_for <= %s)
    + (SELECT count(*) FROM tenantcron.schedule_cursor WHERE next_run_at <= %s) AS number
"""
# Later occurrences would only keep the workers busy.
_PARK = """
UPDATE tenantcron.schedule_cursor SET next_run_at = next_run_at + interval '1 day'
WHERE next_run_at > %s AND next_run_at < now() + interval '1 hour'
"""


def run_remote(options: Options, remote: Remote) -> Verdict:
    """Run a seed."""
    began = monotonic()
    verdict = Verdict(options.seed, Findings(), Journal())
    with ExitStack() as stack:
        bed = stack.enter_context(testbed(Setup(options.tree, options.kind)))
        broker = None
        if remote is Remote.CELERY:
            folder = bed.folder / "broker"
            folder.mkdir()
            broker = stack.enter_context(rabbitmq(folder))
        run = stack.enter_context(_running(_RemoteRun(options, remote, bed, verdict, broker)))
        run.run()
    verdict.seconds = monotonic() - began
    return verdict


@contextmanager
def _running(run: "_RemoteRun") -> Iterator["_RemoteRun"]:
    try:
        yield run
    finally:
        run.close()


@dataclass(slots=True)
class _RemoteRun:
    """A running seed."""

    options: Options
    remote: Remote
    bed: Testbed
    verdict: Verdict
    broker: Broker | None
    timers: Timers = field(default_factory=Timers)
    schedulers: list[int] = field(default_factory=list)
    api: int | None = None
    workers: "dict[int, subprocess.Popen[bytes]]" = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    api_port: int = 0
    key: str = ""
    # Kills of workers and of the broker.
    kills: list[datetime] = field(default_factory=list)
    is_over: bool = False

    def __post_init__(self) -> None:
        self.ports = tuple(free_port() for _ in range(_WORKERS))
        self.api_port = free_port()
        self.key = os.urandom(32).hex()

    def run(self) -> None:
        """Set up, break, drain, check."""
        workload, random = remote_workload(self.remote, self.ports), Random(self.options.seed)  # noqa: S311 -- reproducible
        self._set_up(workload)
        since = self._wait_for_cursors(workload)
        for name in _PAUSES:
            if name != "broker" or self.broker is not None:
                self._plan(name, random)
        end = monotonic() + self.options.seconds
        while monotonic() < end:
            self._proceed()
        self.is_over = True
        until = now()
        self._drain(until)
        self._check(workload, since, until)

    def close(self) -> None:
        """End the workers; the testbed ends all other processes."""
        for worker in self.workers.values():
            _kill_group(worker)

    def _set_up(self, workload: Workload) -> None:
        bed, folder = self.bed, self.bed.folder / "manifests"
        folder.mkdir()
        text = remote_policy(self.remote, self.ports)
        for where in (bed.folder, folder):
            (where / "tenantcron.toml").write_text(text, encoding="utf-8")
        for tenant in workload.tenants:
            (folder / f"{tenant}.json").write_text(workload.manifest(tenant), encoding="utf-8")
        bed.run_checked("migrate")
        bed.run_checked("apply-manifest", "manifests", "--create-tenants")
        bed.run_checked("limits", "--max-concurrent", "400", "--max-concurrent-per-tenant", "200")
        for place in range(_WORKERS):
            self._start_worker(place)
        self._start_api()
        for _ in range(_SCHEDULERS):
            self._start_scheduler()

    def _environment(self) -> dict[str, str]:
        return {
            **self.bed.environment(),
            "TENANTCRON_MASTER_KEY": self.key,
            "TENANTCRON_CALLBACK_URL": f"http://127.0.0.1:{self.api_port}",
            "BROKER": self.broker.url if self.broker else "",
        }

    def _start_scheduler(self) -> None:
        self.schedulers.append(self.bed.server.start(["run"], self._environment()))

    def _start_api(self) -> None:
        argv = ["serve", "--port", str(self.api_port)]
        self.api = self.bed.server.start(argv, self._environment())

    def _start_worker(self, place: int) -> None:
        command = [sys.executable, "-m", "faults.callback_worker", str(self.ports[place])]
        if self.remote is Remote.CELERY:
            command = [
                *(sys.executable, "-m", "celery", "-A", "faults.celery_app", "worker", "-Q", QUEUE),
                *("-c", "4", "-P", "prefork", "-n", f"{place}@faults", "--loglevel", "error"),
                *("--without-gossip", "--without-mingle"),
            ]
        paths = [*([str(self.options.tree)] if self.options.tree else []), str(ROOT)]
        self.workers[place] = subprocess.Popen(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "BROKER": self.broker.url if self.broker else "",
                FILE: str(self.bed.calls),
                "C_FORCE_ROOT": "1",
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _wait_for_cursors(self, workload: Workload) -> dict[Key, datetime]:
        def rows() -> list[dict[str, object]]:
            return self.bed.query(
                "SELECT tenant_id, schedule_name, effective_from FROM tenantcron.schedule_cursor"
            )

        if not self.bed.proceed(180, lambda: len(rows()) == len(workload.schedules)):
            raise HarnessError(f"schedules have no cursors; {self.bed.log_tail()}")
        return {
            (row["tenant_id"], row["schedule_name"]): row["effective_from"]
            for row in self.bed.query(
                "SELECT tenant_id, schedule_name, effective_from FROM tenantcron.schedule_cursor"
            )
        }

    def _plan(self, name: str, random: Random) -> None:
        """Kill something after a while, start it again, and repeat that until the end."""
        strikes: dict[str, Callable[[], Callable[[], None]]] = {
            "scheduler": self._kill_scheduler,
            "worker": lambda: self._kill_worker(random.randrange(_WORKERS)),
            "API": self._kill_api,
            "broker": self._kill_broker,
        }

        def strike() -> None:
            if self.is_over:
                return
            if name == "broker" and not self._is_broker_up:
                # It may need longer than the pause to start.
                self.timers.after(1.0, strike)
                return
            restore = strikes[name]()
            self.verdict.journal.kills += 1
            self.verdict.journal.note(f"{name} killed", "")
            self.timers.after(random.uniform(*_AWAY), restore)
            self._plan(name, random)

        self.timers.after(random.uniform(*_PAUSES[name]), strike)

    @property
    def _is_broker_up(self) -> bool:
        broker = self.broker
        return broker is not None and broker.process is not None and broker.accepts()

    def _kill_scheduler(self) -> Callable[[], None]:
        _kill(self.schedulers.pop(0))
        return self._start_scheduler

    def _kill_api(self) -> Callable[[], None]:
        if self.api is not None:
            _kill(self.api)
        return self._start_api

    def _kill_worker(self, place: int) -> Callable[[], None]:
        _kill_group(self.workers[place])
        self.kills.append(now())
        return lambda: self._start_worker(place)

    def _kill_broker(self) -> Callable[[], None]:
        if self.broker is None:
            raise HarnessError("there is no broker")
        self.broker.kill()
        self.kills.append(now())
        return self.broker.launch

    def _proceed(self) -> None:
        self.timers.run_due()
        self.bed.server.poll(_TICK)

    def _drain(self, until: datetime) -> None:
        """Wait until everything runs again and all due executions have ended."""
        self.options.report(f"seed {self.options.seed}: healed, waiting for all executions")
        deadline = monotonic() + 2 * self.options.stall_timeout
        while monotonic() < deadline:
            self._proceed()
            self.bed.query(_PARK, until)
            if not self.bed.query(_UNFINISHED, until, until)[0]["number"]:
                return
        self.verdict.findings.add("unfinished", f"executions are left; {self.bed.log_tail()}")

    def _check(self, workload: Workload, since: dict[Key, datetime], until: datetime) -> None:
        verdict, findings = self.verdict, self.verdict.findings
        # The workers record an answer just after the API has sent it.
        self.bed.proceed(1.0)
        # The records first: what they have was committed before the rows are read.
        records = read_records(self.bed.calls)
        evidence = gather_rows(self.bed)
        checker = Checker(workload, verdict.journal, evidence, findings, since, until)
        RemoteChecker(checker, self.remote, evidence, records, findings, self.kills).check()
        check_forgotten_reports(records, evidence, findings)
        verdict.occurrences = findings.examined["lost"]
        verdict.deliveries = sum(map(len, records.starts.values()))
        verdict.effects = len({key for key, _ in records.starts})
        struck = verdict.journal.struck
        struck["completion sent twice"] = sum(map(len, records.repeated.values()))
        struck["completion refused"] = records.refused


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """End a worker and its children; the session is new, so the group has no others."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
