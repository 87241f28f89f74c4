"""The servers of a run: a primary, and a standby that streams from it if a fault needs one.

The life of a standby:

1. **copied**: `pg_basebackup` copies the primary in the background, while the run goes on. What
   fails, because the primary was stopped or replaced meanwhile, begins again.
2. **streaming**: it follows the primary through a network of the harness (`services`), which can
   hold the stream back.
3. **promoted**: the primary was killed or frozen, and the standby takes its place on a new
   timeline. The old primary is never used again: its folder is wiped and becomes the next copy.

Replication is asynchronous. A synchronous failover asks for `synchronous_commit` first, waits until
the standby confirms commits, and lets the schedulers work like that for a while.
"""

import os
import subprocess
from pathlib import Path
from time import monotonic, sleep

import psycopg

from faults.disk import Disk
from faults.postgres import Kind, Server, free_port
from tenantcron.store.accounts import Account, server_account

STANDBY = "standby"
_RETRY_AFTER = 1.0
# A standby that streams is at most a second behind.
_LOOKS, _GLANCE = 50, 0.02
_KEPT = {"wal_keep_size": "'512MB'", "wal_retrieve_retry_interval": "'500ms'"}
# A small disk is in memory, and the log of 4 GB would be, too.
_SMALL = {"max_wal_size": "'256MB'"}
_STATUS = """
SELECT count(*) FROM pg_stat_replication
WHERE application_name = %s AND state = 'streaming' AND sync_state = ANY (%s)
    AND replay_lsn >= %s::pg_lsn
"""


class Servers:
    """One server, or two of which one follows the other."""

    def __init__(self, folder: Path, kind: Kind, *, replicated: bool, on_disks: bool) -> None:
        account, programs = server_account(), kind.programs()
        account.let_use(programs)
        places = [folder / f"server{number}" for number in range(2 if replicated else 1)]
        for place in places:
            place.mkdir()
        self._disks = [Disk(place) for place in places] if on_disks else []
        self._kind, self._account = kind, account
        self._nodes = [_node(place, programs, account) for place in places]
        self._primary = 0
        self._upstream = 0
        self._copying: subprocess.Popen[bytes] | None = None
        self._copy_after = 0.0
        self._has_standby = False
        self._is_fenced = True

    @property
    def primary(self) -> Server:
        """The server that accepts writes."""
        return self._nodes[self._primary]

    @property
    def number(self) -> int:
        """The place of the primary among the servers."""
        return self._primary

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of the servers, in an order that never changes."""
        return tuple(node.port for node in self._nodes)

    @property
    def disk(self) -> Disk | None:
        """What the data of the primary is on, if it can be filled up."""
        return self._disks[self._primary] if self._disks else None

    @property
    def url(self) -> str:
        """What a deployment would give to its schedulers: all servers, and the one to write to."""
        if len(self._nodes) == 1:
            return self.primary.url
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def prepare(self) -> None:
        """Make and start the first server."""
        for disk in self._disks:
            disk.mount()
        for node in self._nodes:
            # The log's folder and the data's belong to the server.
            node.log.parent.mkdir(exist_ok=True)
            self._account.hand_over(node.log.parent)
            self._account.hand_over(node.data.parent)
        small = _SMALL if self._disks else {}
        kept = _KEPT if len(self._nodes) > 1 else {}
        self.primary.initialise({**self._kind.settings, **kept, **small})
        self.primary.start()

    def replicate(self, port: int) -> None:
        """Keep a standby from now on, which reaches its primary at a port of the network."""
        self._upstream = port

    def tend(self) -> None:
        """Bring a standby on its way one step further, without waiting for anything."""
        if not self._upstream or self._has_standby or not self._is_fenced:
            return
        if self._copying is None:
            if monotonic() >= self._copy_after:
                self._copying = self._other.copy_of(self.primary)
            return
        code = self._copying.poll()
        if code is None:
            return
        self._copying, self._copy_after = None, monotonic() + _RETRY_AFTER
        if code == 0:
            self._begin_to_stream()

    def _begin_to_stream(self) -> None:
        place = f"host=127.0.0.1 port={self._upstream} user=postgres application_name={STANDBY}"
        self._other.configure({"primary_conninfo": f"'{place}'", "hot_standby": "on"})
        marker = self._other.data / "standby.signal"
        marker.touch()
        os.chown(marker, self._account.uid, self._account.gid)
        self._other.start()
        self._has_standby = True

    def standby(self, *, synchronous: bool = False) -> Server | None:
        """Return the standby if it soon has applied all that the primary has at the moment."""
        if not self._has_standby:
            return None
        states = ["sync", "quorum"] if synchronous else ["async", "potential", "sync", "quorum"]
        with self._connect() as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
            wanted = (STANDBY, states, row[0] if row else None)
            for _ in range(_LOOKS):
                row = connection.execute(_STATUS, wanted).fetchone()
                if row and row[0]:
                    return self._other
                sleep(_GLANCE)
        return None

    def ask_for_confirmation(self, commit: str) -> None:
        """Let commits wait for the standby; `off` lets them wait for nothing but the primary."""
        names = "" if commit == "off" else STANDBY
        wait = "on" if commit == "off" else commit
        with self._connect() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'".encode())
            connection.execute(f"ALTER SYSTEM SET synchronous_commit = '{wait}'".encode())
            connection.execute("SELECT pg_reload_conf()")

    def fail_over(self) -> Server:
        """Promote the standby; return the old primary, which has to be killed by then or later."""
        old = self.primary
        self._other.promote()
        self._primary = 1 - self._primary
        self._has_standby = self._is_fenced = False
        return old

    def fence(self, old: Server) -> None:
        """Make sure that an old primary never writes again; its place is free for a copy."""
        old.kill()
        self._is_fenced = True

    def close(self) -> None:
        """End all servers and take their disks away."""
        if self._copying is not None:
            self._copying.kill()
            self._copying.wait()
        for node in self._nodes:
            node.kill()
        for disk in self._disks:
            disk.close()

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self.primary.url, autocommit=True, connect_timeout=5)

    @property
    def _other(self) -> Server:
        return self._nodes[1 - self._primary]


def _node(place: Path, programs: Path, account: Account) -> Server:
    log = place.with_name(f"{place.name}-log") / "log"
    return Server(programs, account, place / "data", log, free_port())
