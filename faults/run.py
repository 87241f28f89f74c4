"""One seed from start to verdict: set up, break, heal, drain, check."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random
from time import monotonic

import psycopg

from faults.catalog import shared
from faults.checker import Checker
from faults.clients import Clients
from faults.disk import can_mount
from faults.evidence import Evidence, Key, gather
from faults.fault import Fault, FaultContext, NotNowError, Part
from faults.injection import Injections
from faults.journal import Findings, Journal, now
from faults.options import Options, Verdict
from faults.outages import FAR, LARGE, REPLICATED, DiskFull
from faults.postgres import HarnessError
from faults.remote_run import run_remote
from faults.replicas import Replicas
from faults.sampler import Sampler, stop_parking, watch_cursors
from faults.small_faults import FROM_OUTSIDE, SUSPENDED, ReplicaPlan, ReplicaPlans
from faults.task_checker import TaskChecker, read_tasks
from faults.task_records import read_records
from faults.testbed import LEASE, Setup, Testbed, testbed
from faults.timers import Timers
from faults.workload import LIMIT, LIMIT_PER_TENANT, POISON, Workload, policy, workload

_TICK = 0.02
_REPORT_INTERVAL = 10.0
# Seconds until a fault that could not strike is tried again.
_SOON = (1.0, 3.0)
# Seconds from the end of an outage to the next one.
_REST = 11.0
# Duration of a run with time for all faults; in a shorter one they strike sooner.
_LONG = 60.0
# For steps that normally take a few seconds.
_TIMEOUT = 180.0
# The drain may take this many stall timeouts in total.
_STALL_TIMEOUTS = 4
_UNFINISHED = """
SELECT (SELECT count(*) FROM tenantcron.execution_live WHERE scheduled_for <= %s) AS executions,
    (SELECT count(*) FROM tenantcron.schedule_cursor
    WHERE enabled AND fault IS NULL AND next_run_at <= %s) AS cursors,
    (SELECT count(*) FROM tenantcron.task WHERE fired_at IS NULL AND execute_at <= %s) AS tasks
"""


def run(options: Options) -> Verdict:
    """Run a seed."""
    if options.remote is not None:
        return run_remote(options, options.remote)
    verdict = Verdict(options.seed, Findings(), Journal())
    began = monotonic()
    if DiskFull.name in options.faults and not can_mount():
        options.report(f"skipped: {DiskFull.name}, because this account may not mount a tmpfs")
        options = replace(options, faults=options.faults - {DiskFull.name})
    setup = Setup(
        options.tree,
        options.kind,
        replicated=bool(options.faults & REPLICATED),
        on_disks=DiskFull.name in options.faults,
        kills_workers=bool(options.faults & FROM_OUTSIDE),
    )
    with testbed(setup) as bed:
        _Run(options, bed, verdict).run()
    verdict.seconds = monotonic() - began
    return verdict


class _Run:
    """A running seed."""

    def __init__(self, options: Options, bed: Testbed, verdict: Verdict) -> None:
        self._options, self._testbed, self._verdict = options, bed, verdict
        self._journal, self._findings = verdict.journal, verdict.findings
        random = Random(options.seed)  # noqa: S311 -- reproducible randomness
        self._replicas = Replicas(bed, self._journal, self._findings, random, options.seconds)
        self._plans = ReplicaPlans(Random(options.seed + 1), options.faults, options.lifetime)  # noqa: S311 -- as above
        self._sampler = Sampler(bed, self._journal, self._findings)
        self._timers = Timers()
        self._clients = Clients(
            bed,
            self._journal,
            Random(f"{options.seed} clients"),  # noqa: S311 -- as above
            self._timers,
        )
        self._workload: Workload
        self._since: dict[Key, datetime] = {}
        self._began = monotonic()
        self._healing: dict[str, Callable[[], None]] = {}
        self._broken: set[Part] = set()

    def run(self) -> None:
        self._set_up()
        self._sampler.start()
        try:
            self._break()
            until = now()
            self._drain(until)
        finally:
            self._sampler.stop()
        self._options.report(f"seed {self._options.seed}: all executions finished, checking")
        self._check(until)

    def _set_up(self) -> None:
        bed, service = self._testbed, f"http://127.0.0.1:{self._testbed.services.service}"
        poison = POISON in self._options.faults
        self._workload = workload(now(), service, self._options.steady, poison=poison)
        folder = bed.folder / "manifests"
        folder.mkdir()
        for place in (bed.folder, folder):
            text = policy(bed.services.service)
            (place / "tenantcron.toml").write_text(text, encoding="utf-8")
        for tenant in self._workload.tenants:
            text = self._workload.manifest(tenant)
            (folder / f"{tenant}.json").write_text(text, encoding="utf-8")
        bed.run_checked("migrate")
        bed.run_checked("apply-manifest", "manifests", "--create-tenants")
        self._set_limits()
        watch_cursors(bed)
        self._replicas.start(self._plans.supervised(), instance="near")
        self._wait_for_cursors()
        self._wait_for_standby()
        if self._options.faults & FAR:
            self._replicas.start(self._plans.supervised()._replace(network="far"), instance="far")

    def _set_limits(self) -> None:
        limits = self._journal.limits
        changes = [
            limits.begin(None, LIMIT),
            limits.begin("*", LIMIT_PER_TENANT),
            limits.begin("limited", 4),
        ]
        options = ("--max-concurrent", str(LIMIT), "--max-concurrent-per-tenant")
        self._testbed.run_checked("limits", *options, str(LIMIT_PER_TENANT))
        self._testbed.run_checked("tenant", "set", "limited", "--max-concurrent", "4")
        for change in changes:
            change.done = now()

    def _wait_for_cursors(self) -> None:
        """Wait until all schedules have cursors; those that get a backlog later are parked."""
        deadline = monotonic() + _TIMEOUT
        while True:
            rows = self._testbed.query(
                "SELECT tenant_id, schedule_name, schedule_id, effective_from"
                " FROM tenantcron.schedule_cursor"
            )
            if len(rows) == len(self._workload.schedules):
                break
            if monotonic() > deadline:
                raise HarnessError(f"schedules have no cursors; {self._testbed.log_tail()}")
            self._testbed.server.poll(0.1)
        stop_parking(self._testbed)
        self._since = {
            (row["tenant_id"], row["schedule_name"]): row["effective_from"] for row in rows
        }

    def _wait_for_standby(self) -> None:
        servers = self._testbed.servers
        if len(servers.ports) == 1:
            return
        self._testbed.meanwhile = servers.maintain_standby
        if not self._testbed.proceed(_TIMEOUT, servers.standby):
            raise HarnessError(f"no standby is streaming; {servers.primary.log_tail()}")

    def _break(self) -> None:
        self._clients.start()
        for fault in shared():
            if fault.name in self._options.faults:
                # A separate generator for each fault, so that the draws of others do not change its
                # plan.
                random = Random(f"{self._options.seed} {fault.name}")  # noqa: S311 -- as above
                context = FaultContext(
                    self._testbed, self._workload, self._journal, random, self._options.seconds
                )
                self._plan(fault, context)
        self._report_progress()
        self._testbed.meanwhile = self._supervise
        end = monotonic() + self._options.seconds
        while monotonic() < end or self._has_more_to_do(end):
            if self._options.until_found and self._findings.any:
                break
            self._timers.run_due()
            self._supervise()
            self._testbed.server.poll(_TICK)
        self._clients.stop()
        # Handle ended processes immediately: later it is unknown which faults were active.
        self._testbed.meanwhile = self._replicas.supervise
        # The servers first: commands that heal other faults need them.
        servers_first = {fault.name: not fault.breaks for fault in shared()}
        for name in sorted(self._healing, key=lambda name: servers_first[name]):
            self._healing[name]()
        self._restore()
        self._testbed.meanwhile = lambda: None

    def _has_more_to_do(self, end: float) -> bool:
        """Whether there were too few kills, or a large fault has not struck yet."""
        if self._journal.kills < self._options.kills:
            return True
        missing = (LARGE & self._options.faults) - self._journal.struck.keys()
        return bool(missing) and monotonic() < end + 2 * self._options.seconds

    def _restore(self) -> None:
        """Restore tenants and limits again: healing has no effect while the server is down."""
        for tenant in SUSPENDED:
            self._testbed.run("tenant", "resume", tenant)
        self._set_limits()

    def _report_progress(self) -> None:
        kills, seconds = self._journal.kills, monotonic() - self._began
        large = sum(self._journal.struck[name] for name in LARGE)
        message = f"{kills:,} kills and {large} outages in {seconds:.0f} s"
        self._options.report(f"seed {self._options.seed}: {message}")
        self._timers.after(_REPORT_INTERVAL, self._report_progress)

    def _supervise(self) -> None:
        """Restart supervised schedulers and replace victims."""
        self._testbed.servers.maintain_standby()
        self._replicas.supervise()
        self._replicas.check_commands()
        if self._replicas.victims < self._options.victims and self._replicas.may_start:
            self._replicas.start(self._plans.victim())

    def _plan(
        self, fault: Fault, context: FaultContext, pause: tuple[float, float] | None = None
    ) -> None:
        def strike() -> None:
            if fault.breaks & self._broken:
                self._plan(fault, context, _SOON)
                return
            try:
                heals_after = fault.strike(context)
            except NotNowError:
                self._plan(fault, context, _SOON)
                return
            except psycopg.OperationalError:  # the server is down; it strikes later
                self._plan(fault, context)
                return
            self._broken |= fault.breaks
            if heals_after is None:
                release()
                return
            self._healing[fault.name] = heal
            self._timers.after(heals_after, heal)

        def heal() -> None:
            if self._healing.pop(fault.name, None):
                fault.heal(context)
                release()

        def release() -> None:
            # Work has to continue for a while before the next outage, or `resumed` can check
            # neither.
            rest = _REST if context.seconds >= _LONG else context.seconds / 15
            self._timers.after(rest, lambda: self._broken.difference_update(fault.breaks))
            if not fault.once:
                self._plan(fault, context)

        low, high = pause or fault.pause
        # A short run must have the large faults, too.
        scale = min(1.0, context.seconds / _LONG) if fault.name in LARGE else 1.0
        self._timers.after(context.random.uniform(low, high) * scale, strike)

    def _drain(self, until: datetime) -> None:
        """Heal everything, and wait until all due executions have finished."""
        self._options.report(f"seed {self._options.seed}: healed, waiting for all executions")
        self._testbed.end_faults()
        self._replicas.kill_all()
        self._journal.bad_for(2 * LEASE)
        for instance in ("near", "far"):
            self._replicas.start(ReplicaPlan(Injections()), instance=instance)
        began, fewest = monotonic(), None
        deadline = began + self._options.stall_timeout
        while monotonic() < min(deadline, began + _STALL_TIMEOUTS * self._options.stall_timeout):
            row = self._testbed.query(_UNFINISHED, until, until, until)[0]
            left = row["executions"] + row["cursors"] + row["tasks"]
            if not left:
                break
            # A long run leaves a long queue where limits were low.
            if fewest is None or left < fewest:
                fewest, deadline = left, monotonic() + self._options.stall_timeout
            self._replicas.supervise()
            self._testbed.server.poll(0.3)
        else:
            message = f"{dict(row)} left {monotonic() - began:.0f} s after the last fault"
            self._findings.add("unfinished", message)
        self._replicas.stop_all()

    def _check(self, until: datetime) -> None:
        since = dict(self._since)
        for schedule in self._workload.schedules:
            key = schedule.key
            if schedule.since is not None:
                since[key] = schedule.since if key in self._journal.rewound else until
        evidence = gather(self._testbed)
        checker = Checker(
            self._workload,
            self._journal,
            evidence,
            self._findings,
            since,
            until,
            self._testbed.kills_workers,
        )
        checker.check_evidence(self._sampler.ended)
        checker.check_records(self._testbed)
        self._check_tasks(evidence, until)
        self._count(evidence)

    def _check_tasks(self, evidence: Evidence, until: datetime) -> None:
        records, struck = read_records(self._clients.file), self._journal.struck
        tasks = read_tasks(self._testbed)
        TaskChecker(records, tasks, evidence, self._journal, self._findings, until).check()
        struck["task submitted"] = len(records.acknowledged)
        struck["task submitted again"] = sum(map(len, records.acknowledged.values())) - len(
            records.acknowledged
        )
        struck["task cancelled"] = len(records.cancelled)
        struck["task rolled back"] = len(records.rolled_back)

    def _count(self, evidence: Evidence) -> None:
        verdict = self._verdict
        verdict.occurrences = self._findings.examined["lost"]
        effects = [line for line in evidence.lines if line.what == "E"]
        verdict.deliveries = len(effects) + evidence.calls_by_key.total()
        verdict.effects = len({line.execution for line in effects}) + len(evidence.calls_by_key)
        verdict.most_running = self._sampler.most_running
        for schedule in self._workload.schedules:
            if schedule.tenant.startswith("steady"):
                for row in evidence.rows.get(schedule.key, []):
                    if row["state"] == "SUCCEEDED":
                        took = row["finished_at"] - row["scheduled_for"]
                        verdict.ends[bool(row["losses"])].append(took.total_seconds())
