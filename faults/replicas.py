"""The schedulers of a run: start, strike, watch, and restart them.

A victim lives briefly and is killed or stopped. A supervised scheduler is not: if it ends, another
one takes its place, as with a supervisor.
"""

import signal
from random import Random
from time import monotonic

from faults.injection import STOP, Injections
from faults.journal import Findings, Journal, Life, now
from faults.sagas import POISONED
from faults.small_faults import ReplicaPlan
from faults.testbed import LEASE, Replica, Testbed
from faults.timers import Timers
from faults.workload import POISON

_RUN = ("run", "--handlers", "faults.sagas")
# Supervised schedulers are of a later release, which has more handlers.
_RUN_SUPERVISED = ("run", "--handlers", "faults.reports")
_START_PAUSE = 0.15
_RESTART_DELAY = 0.5
_EXITS_WITHIN = 180.0
_STARTS_WITHIN = 10.0


class Replicas:
    """All schedulers of a run."""

    def __init__(
        self, testbed: Testbed, journal: Journal, findings: Findings, random: Random, seconds: float
    ) -> None:
        self._testbed, self._journal, self._findings = testbed, journal, findings
        self._random, self._seconds = random, seconds
        self._timers = Timers()
        self._no_start_before = 0.0

    @property
    def victims(self) -> int:
        """The number of victims, without those that are stopped."""
        return sum(
            replica.kill_at is not None and replica.resumes_at is None
            for replica in self._testbed.replicas.values()
        )

    @property
    def may_start(self) -> bool:
        """Whether another one may start: there is a pause after one that could not work."""
        return monotonic() >= self._no_start_before

    def start(self, plan: ReplicaPlan, *, instance: str | None = None) -> None:
        """Start a scheduler; one with an instance name is supervised and not killed."""
        injections = Injections(**plan.injections, logs_acknowledged=True)
        if instance is not None:
            injections |= {"stalls": str(self._testbed.stalls)}
            injections |= {"progress": str(self._testbed.progress), "instance": instance}
        command = _RUN if instance is None else _RUN_SUPERVISED
        pid = self._testbed.server.start(
            command, self._testbed.environment(plan.network), injections
        )
        moment = monotonic()
        replica = Replica(pid, moment, plan.injections, plan.network, instance)
        self._testbed.replicas[pid] = replica
        self._note_circumstances(plan)
        if instance is None or plan.network is not None:
            self._journal.struck_pids[pid] = now()
        if instance is not None:
            self._journal.lives[pid] = Life(
                now(), is_notified=not plan.injections.get("ignores_notifications")
            )
        else:
            replica.kill_at = moment + (plan.kill_after or self._seconds)
            if plan.stop_after is not None:
                self._timers.after(plan.stop_after, lambda: replica.strike(STOP))

    def _note_circumstances(self, plan: ReplicaPlan) -> None:
        if "clock" in plan.injections:
            self._journal.struck["clock"] += 1
        if plan.injections.get("ignores_notifications"):
            self._journal.struck["notifications lost"] += 1
        if "batch" in plan.injections:
            self._journal.struck["small batches"] += 1
        if plan.network == "near":
            self._journal.struck["network"] += 1

    def supervise(self) -> None:
        """Handle ended and stopped schedulers, kill those that are due, restart supervised ones."""
        self._timers.run_due()
        moment, server = monotonic(), self._testbed.server
        for pid, replica in tuple(self._testbed.replicas.items()):
            if pid in server.ended:
                self._ended(self._testbed.replicas.pop(pid), server.ended.pop(pid))
            elif pid in server.stopped and replica.resumes_at is None:
                replica.resumes_at = moment + LEASE + self._random.uniform(0.3, 3.0)
                at = (
                    replica.injections.get("point")
                    if replica.injections.get("signal") == STOP
                    else None
                )
                self._journal.note("stop at a point" if at else "stop", at or f"process {pid}")
            elif replica.resumes_at is not None and moment > replica.resumes_at:
                server.stopped.discard(pid)
                replica.strike(signal.SIGCONT)
                # It continues for a while with leases that it may have lost.
                replica.resumes_at, replica.kill_at = float("inf"), moment + 2.0
            elif replica.kill_at is not None and moment > replica.kill_at:
                replica.kill()

    def check_commands(self) -> None:
        """Check the exit codes of background commands, except in bad times."""
        ended, moment = self._testbed.server.ended, now()
        for pid in tuple(self._testbed.commands.keys() & ended.keys()):
            command, code = self._testbed.commands.pop(pid), ended.pop(pid)
            self._findings.examine("crash")
            if code and not self._journal.is_bad(moment, moment):
                message = f"`tenantcron {command}` ended with {code}"
                self._findings.add("crash", f"{message}: {self._testbed.log_tail()}")

    def kill_all(self) -> None:
        """End all of them as in a crash."""
        for replica in self._testbed.replicas.values():
            replica.kill()
            self._note_end(replica)

    def _note_end(self, replica: Replica) -> None:
        if life := self._journal.lives.get(replica.pid):
            life.until = life.until or now()

    def _ended(self, replica: Replica, code: int) -> None:
        self._note_end(replica)
        self._findings.examine("crash")
        if code == -signal.SIGKILL:
            self._journal.kills += 1
            is_early = replica.kill_at is not None and monotonic() < replica.kill_at
            point = replica.injections.get("point") if is_early else None
            self._journal.struck[f"kill: {point}" if point else "kill"] += 1
            return
        if code == POISONED:
            self._journal.note(POISON, f"process {replica.pid}")
            self._journal.struck_pids.setdefault(replica.pid, now())
        self._no_start_before = monotonic() + _START_PAUSE
        if replica.instance is not None:
            self._timers.after(_RESTART_DELAY, lambda: self._restart(replica))
        moment = now()
        is_excused = code == POISONED or replica.network is not None
        if not is_excused and not self._journal.is_bad(moment, moment):
            self._findings.add("crash", f"ended with {code}: {self._testbed.log_tail()}")

    def _restart(self, ended: Replica) -> None:
        """Start another scheduler in the place of one that ended, as a supervisor does."""
        self.start(ReplicaPlan(ended.injections, ended.network), instance=ended.instance)

    def stop_all(self) -> None:
        """Stop the last ones as a deployment does; they must exit cleanly."""
        self.supervise()
        for pid, replica in self._testbed.replicas.items():
            replica.strike(signal.SIGTERM)
            if pid in self._testbed.server.stopped:
                replica.kill()
        deadline = monotonic() + _EXITS_WITHIN
        while self._testbed.replicas and monotonic() < deadline:
            self._testbed.server.poll(0.1)
            for pid in tuple(self._testbed.replicas.keys() & self._testbed.server.ended.keys()):
                replica, code = self._testbed.replicas.pop(pid), self._testbed.server.ended.pop(pid)
                # A process that has just started does not handle signals yet.
                is_new = code == -signal.SIGTERM and monotonic() - replica.since < _STARTS_WITHIN
                if code not in (0, -signal.SIGKILL, POISONED) and not is_new:
                    message = f"did not exit cleanly ({code}): {self._testbed.log_tail()}"
                    self._findings.add("crash", message)
        for replica in self._testbed.replicas.values():
            self._findings.add("crash", f"process {replica.pid} does not exit")
            replica.kill()
