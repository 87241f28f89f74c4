"""The large faults: a server, a disk or a network is away for a while, and comes back.

Each takes note of an outage: when it began and when the database could be reached again. The check
`resumed` wants every scheduler that is not killed to look for work soon after that.

- **synchronous failover**: commits wait for the standby for some seconds. Then the primary is
  killed or frozen and the standby promoted. All that was acknowledged has to be there.
- **asynchronous failover**: the stream to the standby is held back for up to two seconds, then the
  same happens. What the primary acknowledged in these seconds is gone. Occurrences may not be lost
  by that; deliveries of these seconds may be repeated, and are counted.
- **network silent**: nothing passes in either direction, and no end is notified.
- **pool at a standby**: a proxy leads to the standby for a while and then back. Connections that
  were made to the standby stay open.
- **disk full**: the primary's disk has no room for a while. Postgres refuses writes or panics, and
  is started again when there is room.
"""

from datetime import datetime

from faults.cluster import LEASE
from faults.journal import Gap, Outage, now
from faults.postgres import Server
from faults.scene import NotNowError, Part, Scene

# Seconds.
_STREAMS_WITHIN = 15.0
# A frozen server answers nothing. It has to be noticed first, within 20 s.
_NOTICED_WITHIN = 20.0
_RESUMES_WITHIN = 10.0
_NO_SPACE = "No space left on device"


class _Failover:
    """The primary goes and the standby takes its place."""

    once, breaks = False, frozenset({Part.SERVERS})

    name: str
    pause = (14.0, 28.0)

    def __init__(self) -> None:
        self._frozen: Server | None = None

    def strike(self, scene: Scene) -> float | None:
        servers, services = scene.world.servers, scene.world.services
        since = self._prepare(scene)
        freezes = scene.random.random() < 0.4
        scene.journal.bad_for(30.0 + LEASE)
        gone = now()
        if freezes:
            servers.primary.freeze()
        else:
            servers.primary.kill()
        old = servers.fail_over()
        back = now()
        services.order_all("point", servers.number)
        services.order("replication", "speak")
        services.order("replication", "cut")
        self._note(scene, gone, back, "frozen" if freezes else "killed")
        self._note_loss(scene, since, back)
        if not freezes:
            servers.fence(old)
            return None
        self._frozen = old
        return scene.at_most(scene.random.uniform(8.0, 25.0))

    def heal(self, scene: Scene) -> None:
        if self._frozen is not None:
            scene.world.servers.fence(self._frozen)
            scene.journal.bad_for(10.0 + LEASE)
            self._frozen = None

    def _prepare(self, scene: Scene) -> datetime:
        """Get ready; return since when what is committed may be lost."""
        raise NotImplementedError

    def _note_loss(self, scene: Scene, since: datetime, back: datetime) -> None:
        """Take note of what may be gone."""

    def _note(self, scene: Scene, gone: datetime, back: datetime, how: str) -> None:
        seconds = (back - gone).total_seconds()
        scene.journal.note(self.name, f"primary {how}, standby promoted in {seconds:.1f} s")
        within = _RESUMES_WITHIN
        if how == "frozen":
            within = max(within, _NOTICED_WITHIN + _RESUMES_WITHIN - seconds)
        scene.journal.outages.append(Outage(self.name, gone, back, within=within))
        scene.journal.bad_since(gone, within + LEASE)


class SynchronousFailover(_Failover):
    """The standby had confirmed every commit."""

    name = "synchronous failover"

    def _prepare(self, scene: Scene) -> datetime:
        servers = scene.world.servers
        if servers.standby() is None:
            raise NotNowError
        servers.ask_for_confirmation(scene.random.choice(("on", "remote_apply")))
        # The schedulers are not bothered by it: commits take a little longer.
        if not scene.world.go_on(_STREAMS_WITHIN, lambda: servers.standby(synchronous=True)):
            servers.ask_for_confirmation("off")
            raise NotNowError
        scene.world.go_on(scene.random.uniform(0.5, 2.5))
        return now()


class AsynchronousFailover(_Failover):
    """The standby had not received the last commits."""

    name = "asynchronous failover"

    def _prepare(self, scene: Scene) -> datetime:
        servers = scene.world.servers
        since = now()
        if servers.standby() is None:
            raise NotNowError
        scene.world.services.order("replication", "silence")
        scene.world.go_on(scene.random.uniform(0.2, 2.0))
        return since

    def _note_loss(self, scene: Scene, since: datetime, back: datetime) -> None:
        scene.journal.gaps.append(Gap(since, back))


class NetworkSilent:
    """The networks of the schedulers pass nothing on, and no end is notified."""

    once, breaks = False, frozenset({Part.FAR})

    # Long enough for the pool at a standby, which needs the same network.
    name, pause = "network silent", (20.0, 45.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, scene: Scene) -> float | None:
        self._since = now()
        seconds = scene.at_most(60.0)
        for network in ("near", "far"):
            scene.world.services.order(network, "silence")
        scene.journal.note(self.name, f"for {seconds:.0f} s")
        return seconds

    def heal(self, scene: Scene) -> None:
        for network in ("near", "far"):
            scene.world.services.order(network, "speak")
        scene.journal.outages.append(Outage(self.name, self._since, now(), seat="far"))


class PoolAtStandby:
    """A proxy leads to the standby for a while."""

    once, breaks = False, frozenset({Part.SERVERS, Part.FAR})

    name, pause = "pool at a standby", (10.0, 25.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, scene: Scene) -> float | None:
        servers, services = scene.world.servers, scene.world.services
        if servers.standby() is None:
            raise NotNowError
        self._since = now()
        for network in ("near", "far"):
            services.order(network, "point", 1 - servers.number)
            services.order(network, "cut")
        seconds = scene.at_most(scene.random.uniform(4.0, 15.0))
        scene.journal.note(self.name, f"for {seconds:.0f} s")
        return seconds

    def heal(self, scene: Scene) -> None:
        for network in ("near", "far"):
            scene.world.services.order(network, "point", scene.world.servers.number)
        scene.journal.outages.append(Outage(self.name, self._since, now(), seat="far"))


class DiskFull:
    """The primary's disk has no room for a while."""

    once, breaks = False, frozenset({Part.SERVERS})

    name, pause = "disk full", (12.0, 30.0)

    def __init__(self) -> None:
        self._since, self._seen = now(), 0

    def strike(self, scene: Scene) -> float | None:
        servers = scene.world.servers
        if servers.disk is None:
            return None
        self._since, self._seen = now(), servers.primary.count_in_log(_NO_SPACE)
        scene.journal.bad_for(30.0 + LEASE)
        servers.disk.fill()
        return scene.at_most(scene.random.uniform(4.0, 10.0))

    def heal(self, scene: Scene) -> None:
        servers = scene.world.servers
        if servers.disk is not None:
            servers.disk.free()
        refused = servers.primary.count_in_log(_NO_SPACE) - self._seen
        panics = "stopped" if not servers.primary.is_running() else "kept running"
        servers.primary.start()
        seconds = (now() - self._since).total_seconds()
        words = f"for {seconds:.0f} s, {refused} writes refused, the server {panics}"
        if refused:
            scene.journal.note(self.name, words)
        scene.journal.outages.append(Outage(self.name, self._since, now()))
        scene.journal.bad_since(self._since, _RESUMES_WITHIN + LEASE)


LARGE = frozenset(
    fault.name
    for fault in (SynchronousFailover, AsynchronousFailover, NetworkSilent, PoolAtStandby, DiskFull)
)
REPLICATED = frozenset({SynchronousFailover.name, AsynchronousFailover.name, PoolAtStandby.name})
FAR = frozenset({NetworkSilent.name, PoolAtStandby.name})
