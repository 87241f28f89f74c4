"""The servers of a run: a primary, and a streaming standby if a fault needs one.

The states of a standby:

1. **copied**: `pg_basebackup` copies the primary in the background while the run continues. If it
   fails, because the primary was stopped or replaced, it starts again.
2. **streaming**: it replicates from the primary through a network of the harness (`services`),
   which can hold the stream back.
3. **promoted**: the primary was killed or frozen, and the standby takes its place on a new
   timeline. The old primary is never used again: its folder is wiped and becomes the next copy.

Replication is asynchronous. A synchronous failover sets `synchronous_commit` first, waits until the
standby confirms commits, and lets the schedulers work in this mode for a while.
"""

import os
import subprocess
from pathlib import Path
from time import monotonic, sleep

import psycopg

from faults.disk import Disk
from faults.postgres import Kind, Server, free_port
from tenantcron.store.embedded.os_users import Account, server_account

STANDBY = "standby"
_RETRY_AFTER = 1.0
# A streaming standby is at most a second behind.
_POLLS, _POLL_INTERVAL = 50, 0.02
_REPLICATION = {"wal_keep_size": "'512MB'", "wal_retrieve_retry_interval": "'500ms'"}
# The small disk is in memory, and so would be 4 GB of WAL.
_SMALL_DISK = {"max_wal_size": "'256MB'"}
_STATUS = """
SELECT count(*) FROM pg_stat_replication
WHERE application_name = %s AND state = 'streaming' AND sync_state = ANY (%s)
    AND replay_lsn >= %s::pg_lsn
"""


class Servers:
    """One server, or a primary and its standby."""

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
        """The index of the primary among the servers."""
        return self._primary

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of the servers, in a fixed order."""
        return tuple(node.port for node in self._nodes)

    @property
    def disk(self) -> Disk | None:
        """The disk of the primary, if it can be filled up."""
        return self._disks[self._primary] if self._disks else None

    @property
    def url(self) -> str:
        """The URL that a deployment would configure: all servers, with the primary selected."""
        if len(self._nodes) == 1:
            return self.primary.url
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def prepare(self) -> None:
        """Create and start the first server."""
        for disk in self._disks:
            disk.mount()
        for node in self._nodes:
            # The log folder and the data folder belong to the account of the server.
            node.log.parent.mkdir(exist_ok=True)
            self._account.hand_over(node.log.parent)
            self._account.hand_over(node.data.parent)
        small = _SMALL_DISK if self._disks else {}
        kept = _REPLICATION if len(self._nodes) > 1 else {}
        self.primary.initialise({**self._kind.settings, **kept, **small})
        self.primary.start()

    def replicate(self, port: int) -> None:
        """Keep a standby from now on, which reaches its primary through a port of the network."""
        self._upstream = port

    def maintain_standby(self) -> None:
        """Advance the standby by one step, without waiting."""
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
        """Return the standby if it soon has applied everything that the primary has now."""
        if not self._has_standby:
            return None
        states = ["sync", "quorum"] if synchronous else ["async", "potential", "sync", "quorum"]
        with self._connect() as connection:
            row = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
            wanted = (STANDBY, states, row[0] if row else None)
            for _ in range(_POLLS):
                row = connection.execute(_STATUS, wanted).fetchone()
                if row and row[0]:
                    return self._other
                sleep(_POLL_INTERVAL)
        return None

    def set_synchronous_commit(self, commit: str) -> None:
        """Make commits wait for the standby; `off` makes them wait for the primary only."""
        names = "" if commit == "off" else STANDBY
        wait = "on" if commit == "off" else commit
        with self._connect() as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'".encode())
            connection.execute(f"ALTER SYSTEM SET synchronous_commit = '{wait}'".encode())
            connection.execute("SELECT pg_reload_conf()")

    def fail_over(self) -> Server:
        """Promote the standby; return the old primary, which must be killed before or after."""
        old = self.primary
        self._other.promote()
        self._primary = 1 - self._primary
        self._has_standby = self._is_fenced = False
        return old

    def fence(self, old: Server) -> None:
        """Kill an old primary so that it never writes again; its folder is free for a copy."""
        old.kill()
        self._is_fenced = True

    def close(self) -> None:
        """Stop all servers and unmount their disks."""
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
