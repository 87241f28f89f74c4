"""The schedulers of a run: started, struck, watched, and replaced where they have a seat.

A mortal lives for a moment and is killed or stopped. A scheduler with a seat is not: when it ends
by itself, another one takes its seat, as a supervisor would have it.
"""

import signal
from random import Random
from time import monotonic

from faults.agenda import Agenda
from faults.breaking import Born
from faults.cluster import LEASE, Replica, World
from faults.injected import STOP, Fate
from faults.journal import Findings, Journal, Life, now
from faults.sagas import POISONED
from faults.workload import POISON

_RUN = ("run", "--handlers", "faults.sagas")
# Those with a seat are of a later release, which has more handlers.
_RUN_SEATED = ("run", "--handlers", "faults.reports")
_STARTS_AGAIN_AFTER = 0.15
_SUPERVISED_AFTER = 0.5
_LEAVES_WITHIN = 180.0
_BEGINS_WITHIN = 10.0


class Replicas:
    """All schedulers of a run."""

    def __init__(
        self, world: World, journal: Journal, findings: Findings, random: Random, seconds: float
    ) -> None:
        self._world, self._journal, self._findings = world, journal, findings
        self._random, self._seconds = random, seconds
        self._agenda = Agenda()
        self._no_start_before = 0.0

    @property
    def mortals(self) -> int:
        """How many there are that can be struck, besides those that stand still."""
        return sum(
            replica.dies_at is not None and replica.goes_on_at is None
            for replica in self._world.replicas.values()
        )

    @property
    def may_start(self) -> bool:
        """Whether another one may start: after one that could not work there is a pause."""
        return monotonic() >= self._no_start_before

    def start(self, born: Born, *, seat: str | None = None) -> None:
        """Start a scheduler; one that has a seat is not killed."""
        fate = Fate(**born.fate, acknowledges=True)
        if seat is not None:
            fate |= {"held_up": str(self._world.held_up)}
            fate |= {"progress": str(self._world.progress), "seat": seat}
        command = _RUN if seat is None else _RUN_SEATED
        pid = self._world.server.start(command, self._world.environment(born.network), fate)
        moment = monotonic()
        replica = Replica(pid, moment, born.fate, born.network, seat)
        self._world.replicas[pid] = replica
        self._note_circumstances(born)
        if seat is None or born.network is not None:
            self._journal.struck_pids[pid] = now()
        if seat is not None:
            self._journal.lives[pid] = Life(now(), hears=not born.fate.get("deaf"))
        else:
            replica.dies_at = moment + (born.dies_after or self._seconds)
            if born.stops_after is not None:
                self._agenda.after(born.stops_after, lambda: replica.strike(STOP))

    def _note_circumstances(self, born: Born) -> None:
        if "clock" in born.fate:
            self._journal.struck["clock"] += 1
        if born.fate.get("deaf"):
            self._journal.struck["notifications lost"] += 1
        if "batch" in born.fate:
            self._journal.struck["small batches"] += 1
        if born.network == "near":
            self._journal.struck["network"] += 1

    def look(self) -> None:
        """See which have ended or stand still, end those whose time has come, fill empty seats."""
        self._agenda.do_due()
        moment, server = monotonic(), self._world.server
        for pid, replica in tuple(self._world.replicas.items()):
            if pid in server.ended:
                self._ended(self._world.replicas.pop(pid), server.ended.pop(pid))
            elif pid in server.stopped and replica.goes_on_at is None:
                replica.goes_on_at = moment + LEASE + self._random.uniform(0.3, 3.0)
                at = replica.fate.get("point") if replica.fate.get("signal") == STOP else None
                self._journal.note("stop at a point" if at else "stop", at or f"process {pid}")
            elif replica.goes_on_at is not None and moment > replica.goes_on_at:
                server.stopped.discard(pid)
                replica.strike(signal.SIGCONT)
                # It goes on for a while, with what it believes to have.
                replica.goes_on_at, replica.dies_at = float("inf"), moment + 2.0
            elif replica.dies_at is not None and moment > replica.dies_at:
                replica.kill()

    def look_at_commands(self) -> None:
        """Fail for a command whose result was never read, unless everything failed at that time."""
        ended, moment = self._world.server.ended, now()
        for pid in tuple(self._world.commands.keys() & ended.keys()):
            words, code = self._world.commands.pop(pid), ended.pop(pid)
            self._findings.look("crash")
            if code and not self._journal.is_bad(moment, moment):
                told = f"`tenantcron {words}` ended with {code}"
                self._findings.add("crash", f"{told}: {self._world.last_words()}")

    def kill_all(self) -> None:
        """End all as a crash does."""
        for replica in self._world.replicas.values():
            replica.kill()
            self._note_end(replica)

    def _note_end(self, replica: Replica) -> None:
        if life := self._journal.lives.get(replica.pid):
            life.until = life.until or now()

    def _ended(self, replica: Replica, code: int) -> None:
        self._note_end(replica)
        self._findings.look("crash")
        if code == -signal.SIGKILL:
            self._journal.kills += 1
            is_early = replica.dies_at is not None and monotonic() < replica.dies_at
            point = replica.fate.get("point") if is_early else None
            self._journal.struck[f"kill: {point}" if point else "kill"] += 1
            return
        if code == POISONED:
            self._journal.note(POISON, f"process {replica.pid}")
            self._journal.struck_pids.setdefault(replica.pid, now())
        self._no_start_before = monotonic() + _STARTS_AGAIN_AFTER
        if replica.seat is not None:
            self._agenda.after(_SUPERVISED_AFTER, lambda: self._take_seat(replica))
        moment = now()
        is_excused = code == POISONED or replica.network is not None
        if not is_excused and not self._journal.is_bad(moment, moment):
            self._findings.add("crash", f"ended with {code}: {self._world.last_words()}")

    def _take_seat(self, ended: Replica) -> None:
        """Start another scheduler in the place of one that ended, as a supervisor does."""
        self.start(Born(ended.fate, ended.network), seat=ended.seat)

    def stop_all(self) -> None:
        """End the last ones as a deployment does; they have to leave in peace."""
        self.look()
        for pid, replica in self._world.replicas.items():
            replica.strike(signal.SIGTERM)
            if pid in self._world.server.stopped:
                replica.kill()
        patience = monotonic() + _LEAVES_WITHIN
        while self._world.replicas and monotonic() < patience:
            self._world.server.look(0.1)
            for pid in tuple(self._world.replicas.keys() & self._world.server.ended.keys()):
                replica, code = self._world.replicas.pop(pid), self._world.server.ended.pop(pid)
                # One that has just begun does not listen to signals yet.
                is_new = code == -signal.SIGTERM and monotonic() - replica.since < _BEGINS_WITHIN
                if code not in (0, -signal.SIGKILL, POISONED) and not is_new:
                    words = f"did not leave in peace ({code}): {self._world.last_words()}"
                    self._findings.add("crash", words)
        for replica in self._world.replicas.values():
            self._findings.add("crash", f"process {replica.pid} does not leave")
            replica.kill()
