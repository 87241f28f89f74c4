"""The large faults: a server, a disk or a network is down for a while, and comes back.

Each records an outage: when it began and when the database was reachable again. The check `resumed`
requires every supervised scheduler to claim soon after that.

- **synchronous failover**: commits wait for the standby for some seconds. Then the primary is
  killed or frozen and the standby promoted. Everything that was acknowledged must be there.
- **asynchronous failover**: the stream to the standby is held back for up to two seconds, then the
  same happens. Commits that the primary acknowledged in these seconds are lost. No occurrence may
  be lost by that; deliveries of these seconds may be repeated, and are counted.
- **network silent**: nothing passes in either direction, and connections are not closed.
- **pool at a standby**: a proxy routes to the standby for a while and then back. Connections that
  were made to the standby stay open.
- **disk full**: the primary's disk has no free space for a while. Postgres rejects writes or
  panics, and is restarted when there is space.
"""

from datetime import datetime

from faults.fault import FaultContext, NotNowError, Part
from faults.journal import Gap, Outage, now
from faults.postgres import Server
from faults.testbed import LEASE

# Seconds.
_STREAMS_WITHIN = 15.0
# A frozen server does not respond. It has to be detected first, within 20 s.
_NOTICED_WITHIN = 20.0
_RESUMES_WITHIN = 10.0
_NO_SPACE = "No space left on device"


class _Failover:
    """The primary goes down and the standby takes over."""

    once, breaks = False, frozenset({Part.SERVERS})

    name: str
    pause = (14.0, 28.0)

    def __init__(self) -> None:
        self._frozen: Server | None = None

    def strike(self, context: FaultContext) -> float | None:
        servers, services = context.testbed.servers, context.testbed.services
        since = self._prepare(context)
        freezes = context.random.random() < 0.4
        context.journal.bad_for(30.0 + LEASE)
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
        self._note(context, gone, back, "frozen" if freezes else "killed")
        self._note_loss(context, since, back)
        if not freezes:
            servers.fence(old)
            return None
        self._frozen = old
        return context.at_most(context.random.uniform(8.0, 25.0))

    def heal(self, context: FaultContext) -> None:
        if self._frozen is not None:
            context.testbed.servers.fence(self._frozen)
            context.journal.bad_for(10.0 + LEASE)
            self._frozen = None

    def _prepare(self, context: FaultContext) -> datetime:
        """Prepare; return the time from which commits may be lost."""
        raise NotImplementedError

    def _note_loss(self, context: FaultContext, since: datetime, back: datetime) -> None:
        """Record what may be lost."""

    def _note(self, context: FaultContext, gone: datetime, back: datetime, how: str) -> None:
        seconds = (back - gone).total_seconds()
        context.journal.note(self.name, f"primary {how}, standby promoted in {seconds:.1f} s")
        within = _RESUMES_WITHIN
        if how == "frozen":
            within = max(within, _NOTICED_WITHIN + _RESUMES_WITHIN - seconds)
        context.journal.outages.append(Outage(self.name, gone, back, within=within))
        context.journal.bad_since(gone, within + LEASE)


class SynchronousFailover(_Failover):
    """The standby had confirmed every commit."""

    name = "synchronous failover"

    def _prepare(self, context: FaultContext) -> datetime:
        servers = context.testbed.servers
        if servers.standby() is None:
            raise NotNowError
        servers.set_synchronous_commit(context.random.choice(("on", "remote_apply")))
        # This does not disturb the schedulers: commits take a little longer.
        if not context.testbed.proceed(_STREAMS_WITHIN, lambda: servers.standby(synchronous=True)):
            servers.set_synchronous_commit("off")
            raise NotNowError
        context.testbed.proceed(context.random.uniform(0.5, 2.5))
        return now()


class AsynchronousFailover(_Failover):
    """The standby had not received the last commits."""

    name = "asynchronous failover"

    def _prepare(self, context: FaultContext) -> datetime:
        servers = context.testbed.servers
        since = now()
        if servers.standby() is None:
            raise NotNowError
        context.testbed.services.order("replication", "silence")
        context.testbed.proceed(context.random.uniform(0.2, 2.0))
        return since

    def _note_loss(self, context: FaultContext, since: datetime, back: datetime) -> None:
        context.journal.gaps.append(Gap(since, back))


class NetworkSilent:
    """The networks of the schedulers pass nothing, and connections are not closed."""

    once, breaks = False, frozenset({Part.FAR})

    # Long enough for the pool at a standby, which needs the same network.
    name, pause = "network silent", (20.0, 45.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, context: FaultContext) -> float | None:
        self._since = now()
        seconds = context.at_most(60.0)
        for network in ("near", "far"):
            context.testbed.services.order(network, "silence")
        context.journal.note(self.name, f"for {seconds:.0f} s")
        return seconds

    def heal(self, context: FaultContext) -> None:
        for network in ("near", "far"):
            context.testbed.services.order(network, "speak")
        context.journal.outages.append(Outage(self.name, self._since, now(), instance="far"))


class PoolAtStandby:
    """A proxy routes to the standby for a while."""

    once, breaks = False, frozenset({Part.SERVERS, Part.FAR})

    name, pause = "pool at a standby", (10.0, 25.0)

    def __init__(self) -> None:
        self._since = now()

    def strike(self, context: FaultContext) -> float | None:
        servers, services = context.testbed.servers, context.testbed.services
        if servers.standby() is None:
            raise NotNowError
        self._since = now()
        for network in ("near", "far"):
            services.order(network, "point", 1 - servers.number)
            services.order(network, "cut")
        seconds = context.at_most(context.random.uniform(4.0, 15.0))
        context.journal.note(self.name, f"for {seconds:.0f} s")
        return seconds

    def heal(self, context: FaultContext) -> None:
        for network in ("near", "far"):
            context.testbed.services.order(network, "point", context.testbed.servers.number)
        context.journal.outages.append(Outage(self.name, self._since, now(), instance="far"))


class DiskFull:
    """The primary's disk has no free space for a while."""

    once, breaks = False, frozenset({Part.SERVERS})

    name, pause = "disk full", (12.0, 30.0)

    def __init__(self) -> None:
        self._since, self._seen = now(), 0

    def strike(self, context: FaultContext) -> float | None:
        servers = context.testbed.servers
        if servers.disk is None:
            return None
        self._since, self._seen = now(), servers.primary.count_in_log(_NO_SPACE)
        context.journal.bad_for(30.0 + LEASE)
        servers.disk.fill()
        return context.at_most(context.random.uniform(4.0, 10.0))

    def heal(self, context: FaultContext) -> None:
        servers = context.testbed.servers
        if servers.disk is not None:
            servers.disk.free()
        refused = servers.primary.count_in_log(_NO_SPACE) - self._seen
        panics = "stopped" if not servers.primary.is_running() else "kept running"
        servers.primary.start()
        seconds = (now() - self._since).total_seconds()
        message = f"for {seconds:.0f} s, {refused} writes rejected, the server {panics}"
        if refused:
            context.journal.note(self.name, message)
        context.journal.outages.append(Outage(self.name, self._since, now()))
        context.journal.bad_since(self._since, _RESUMES_WITHIN + LEASE)


LARGE = frozenset(
    fault.name
    for fault in (SynchronousFailover, AsynchronousFailover, NetworkSilent, PoolAtStandby, DiskFull)
)
REPLICATED = frozenset({SynchronousFailover.name, AsynchronousFailover.name, PoolAtStandby.name})
FAR = frozenset({NetworkSilent.name, PoolAtStandby.name})
