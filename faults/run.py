"""One seed from start to verdict: set up, break, heal, settle, check."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random
from time import monotonic

import psycopg

from faults.agenda import Agenda
from faults.breaking import STRUCK, SUSPENDED, Born, Fates
from faults.catalog import shared
from faults.checker import Checker
from faults.cluster import LEASE, Equipment, World, world
from faults.disk import can_mount
from faults.evidence import Evidence, Key, gather
from faults.injected import Fate
from faults.journal import Findings, Journal, now
from faults.options import Options, Verdict
from faults.outages import FAR, LARGE, REPLICATED, DiskFull
from faults.postgres import BrokenHarnessError
from faults.replicas import Replicas
from faults.sampler import Sampler, park_no_more, watch_cursors
from faults.scene import Fault, NotNowError, Part, Scene
from faults.workload import LIMIT, LIMIT_PER_TENANT, POISON, Workload, policy, workload

_TICK = 0.02
_TELLS_EVERY = 10.0
# Seconds until a fault strikes that could not strike when its time came.
_SOON = (1.0, 3.0)
# Seconds from the end of an outage to the next one.
_REST = 11.0
# Seconds of a run that has room for all faults; in a shorter one they come faster.
_LONG = 60.0
# For what takes a few seconds; only where something is wrong it takes that long.
_PATIENCE = 180.0
# So many times the patience for a single end is what all of them have together.
_SETTLES_WITHIN = 4
_UNSETTLED = """
SELECT (SELECT count(*) FROM tenantcron.execution_live WHERE scheduled_for <= %s) AS executions,
    (SELECT count(*) FROM tenantcron.schedule_cursor
    WHERE enabled AND fault IS NULL AND next_run_at <= %s) AS cursors
"""


def run(options: Options) -> Verdict:
    """Run a seed."""
    verdict = Verdict(options.seed, Findings(), Journal())
    began = monotonic()
    if DiskFull.name in options.faults and not can_mount():
        options.tell(f"left out: {DiskFull.name}, because this account may not mount a tmpfs")
        options = replace(options, faults=options.faults - {DiskFull.name})
    equipment = Equipment(
        options.tree,
        options.kind,
        replicated=bool(options.faults & REPLICATED),
        on_disks=DiskFull.name in options.faults,
        kills_workers=bool(options.faults & STRUCK),
    )
    with world(equipment) as made:
        _Run(options, made, verdict).run()
    verdict.seconds = monotonic() - began
    return verdict


class _Run:
    """A seed at work."""

    def __init__(self, options: Options, made: World, verdict: Verdict) -> None:
        self._options, self._world, self._verdict = options, made, verdict
        self._journal, self._findings = verdict.journal, verdict.findings
        random = Random(options.seed)  # noqa: S311 -- chance that can be repeated
        self._replicas = Replicas(made, self._journal, self._findings, random, options.seconds)
        self._fates = Fates(Random(options.seed + 1), options.faults, options.life)  # noqa: S311 -- as above
        self._sampler = Sampler(made, self._journal, self._findings)
        self._agenda = Agenda()
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
            self._settle(until)
        finally:
            self._sampler.stop()
        self._options.tell(f"seed {self._options.seed}: all has ended, checking")
        self._check(until)

    def _set_up(self) -> None:
        made, service = self._world, f"http://127.0.0.1:{self._world.services.service}"
        poison = POISON in self._options.faults
        self._workload = workload(now(), service, self._options.steady, poison=poison)
        folder = made.folder / "manifests"
        folder.mkdir()
        for place in (made.folder, folder):
            text = policy(made.services.service)
            (place / "tenantcron.toml").write_text(text, encoding="utf-8")
        for tenant in self._workload.tenants:
            text = self._workload.manifest(tenant)
            (folder / f"{tenant}.json").write_text(text, encoding="utf-8")
        made.must("migrate")
        made.must("apply-manifest", "manifests", "--create-tenants")
        self._set_limits()
        watch_cursors(made)
        self._replicas.start(self._fates.keeper(), seat="near")
        self._wait_for_cursors()
        self._wait_for_standby()
        if self._options.faults & FAR:
            self._replicas.start(self._fates.keeper()._replace(network="far"), seat="far")

    def _set_limits(self) -> None:
        limits = self._journal.limits
        changes = [
            limits.begin(None, LIMIT),
            limits.begin("*", LIMIT_PER_TENANT),
            limits.begin("limited", 4),
        ]
        options = ("--max-concurrent", str(LIMIT), "--max-concurrent-per-tenant")
        self._world.must("limits", *options, str(LIMIT_PER_TENANT))
        self._world.must("tenant", "set", "limited", "--max-concurrent", "4")
        for change in changes:
            change.done = now()

    def _wait_for_cursors(self) -> None:
        """Wait until all are followed; those that get weeks to make up for later are parked."""
        patience = monotonic() + _PATIENCE
        while True:
            rows = self._world.query(
                "SELECT tenant_id, schedule_name, schedule_id, effective_from"
                " FROM tenantcron.schedule_cursor"
            )
            if len(rows) == len(self._workload.schedules):
                break
            if monotonic() > patience:
                raise BrokenHarnessError(f"there are no cursors; {self._world.last_words()}")
            self._world.server.look(0.1)
        park_no_more(self._world)
        self._since = {
            (row["tenant_id"], row["schedule_name"]): row["effective_from"] for row in rows
        }

    def _wait_for_standby(self) -> None:
        servers = self._world.servers
        if len(servers.ports) == 1:
            return
        self._world.meanwhile = servers.tend
        if not self._world.go_on(_PATIENCE, servers.standby):
            raise BrokenHarnessError(f"no standby streams; {servers.primary.last_words()}")

    def _break(self) -> None:
        for fault in shared():
            if fault.name in self._options.faults:
                # Chance of its own for each: what others draw, and when, must not change its plan.
                random = Random(f"{self._options.seed} {fault.name}")  # noqa: S311 -- as above
                scene = Scene(
                    self._world, self._workload, self._journal, random, self._options.seconds
                )
                self._plan(fault, scene)
        self._tell_progress()
        self._world.meanwhile = self._tend
        end = monotonic() + self._options.seconds
        while monotonic() < end or self._has_more_to_do(end):
            if self._options.until_found and self._findings.any:
                break
            self._agenda.do_due()
            self._tend()
            self._world.server.look(_TICK)
        # Who has ended is seen when it happens: later nobody knows what was wrong then.
        self._world.meanwhile = self._replicas.look
        # The servers first: commands that heal others need them.
        servers_first = {fault.name: not fault.breaks for fault in shared()}
        for name in sorted(self._healing, key=lambda name: servers_first[name]):
            self._healing[name]()
        self._set_right()
        self._world.meanwhile = lambda: None

    def _has_more_to_do(self, end: float) -> bool:
        """Whether there were too few kills, or a large fault has not struck yet."""
        if self._journal.kills < self._options.kills:
            return True
        missing = (LARGE & self._options.faults) - self._journal.struck.keys()
        return bool(missing) and monotonic() < end + 2 * self._options.seconds

    def _set_right(self) -> None:
        """Make sure of it: what healed while the server was away was not healed."""
        for tenant in SUSPENDED:
            self._world.run("tenant", "resume", tenant)
        self._set_limits()

    def _tell_progress(self) -> None:
        kills, seconds = self._journal.kills, monotonic() - self._began
        large = sum(self._journal.struck[name] for name in LARGE)
        words = f"{kills:,} kills and {large} outages in {seconds:.0f} s"
        self._options.tell(f"seed {self._options.seed}: {words}")
        self._agenda.after(_TELLS_EVERY, self._tell_progress)

    def _tend(self) -> None:
        """Let schedulers die and others take their places."""
        self._world.servers.tend()
        self._replicas.look()
        self._replicas.look_at_commands()
        if self._replicas.mortals < self._options.mortals and self._replicas.may_start:
            self._replicas.start(self._fates.mortal())

    def _plan(self, fault: Fault, scene: Scene, pause: tuple[float, float] | None = None) -> None:
        def strike() -> None:
            if fault.breaks & self._broken:
                self._plan(fault, scene, _SOON)
                return
            try:
                heals_after = fault.strike(scene)
            except NotNowError:
                self._plan(fault, scene, _SOON)
                return
            except psycopg.OperationalError:  # the server is away; it strikes another time
                self._plan(fault, scene)
                return
            self._broken |= fault.breaks
            if heals_after is None:
                release()
                return
            self._healing[fault.name] = heal
            self._agenda.after(heals_after, heal)

        def heal() -> None:
            if self._healing.pop(fault.name, None):
                fault.heal(scene)
                release()

        def release() -> None:
            # Work has to continue for a while before the next outage, or `resumed` judges neither.
            rest = _REST if scene.seconds >= _LONG else scene.seconds / 15
            self._agenda.after(rest, lambda: self._broken.difference_update(fault.breaks))
            if not fault.once:
                self._plan(fault, scene)

        low, high = pause or fault.pause
        # A short run has to have the large faults, too.
        scale = min(1.0, scene.seconds / _LONG) if fault.name in LARGE else 1.0
        self._agenda.after(scene.random.uniform(low, high) * scale, strike)

    def _settle(self, until: datetime) -> None:
        """Heal everything, and wait until what was due has ended."""
        self._options.tell(f"seed {self._options.seed}: healed, waiting until all has ended")
        self._world.make_peace()
        self._replicas.kill_all()
        self._journal.bad_for(2 * LEASE)
        for seat in ("near", "far"):
            self._replicas.start(Born(Fate()), seat=seat)
        began, fewest = monotonic(), None
        patience = began + self._options.settle
        while monotonic() < min(patience, began + _SETTLES_WITHIN * self._options.settle):
            row = self._world.query(_UNSETTLED, until, until)[0]
            left = row["executions"] + row["cursors"]
            if not left:
                break
            # A long run leaves a long queue behind where limits were low.
            if fewest is None or left < fewest:
                fewest, patience = left, monotonic() + self._options.settle
            self._replicas.look()
            self._world.server.look(0.3)
        else:
            words = f"{dict(row)} left after {monotonic() - began:.0f} s of peace"
            self._findings.add("unfinished", words)
        self._replicas.stop_all()

    def _check(self, until: datetime) -> None:
        since = dict(self._since)
        for one in self._workload.schedules:
            if one.since is not None:
                since[one.key] = one.since if one.key in self._journal.put_back else until
        evidence = gather(self._world)
        checker = Checker(
            self._workload,
            self._journal,
            evidence,
            self._findings,
            since,
            until,
            self._world.kills_workers,
        )
        checker.check_evidence(self._sampler.ended)
        checker.check_records(self._world)
        self._count(evidence)

    def _count(self, evidence: Evidence) -> None:
        verdict = self._verdict
        verdict.occurrences = self._findings.looked["lost"]
        effects = [line for line in evidence.lines if line.what == "E"]
        verdict.deliveries = len(effects) + evidence.asked.total()
        verdict.effects = len({line.execution for line in effects}) + len(evidence.asked)
        verdict.most_running = self._sampler.most_running
        for schedule in self._workload.schedules:
            if schedule.tenant.startswith("steady"):
                for row in evidence.rows.get(schedule.key, []):
                    if row["state"] == "SUCCEEDED":
                        took = row["finished_at"] - row["scheduled_for"]
                        verdict.ends[bool(row["losses"])].append(took.total_seconds())
