"""A cluster with Temporal targets: schedulers and a worker as processes, and a real server."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from support.fleet import Shell
from support.processes import Fleet, executions, make_due, query, until
from support.temporal_server import TemporalDevServer, temporal_worker

_POLICY = """\
[policy]
target_kinds = ["temporal"]
allowed_temporal_workflows = ["default/tests/*"]
"""


@dataclass(slots=True)
class TemporalWork:
    """The processes, and what workflows have recorded."""

    fleet: Fleet
    server: TemporalDevServer
    folder: Path

    def fire(self, saga: str) -> UUID:
        """Make a schedule due, once it has a cursor; return the id of its execution."""
        until(lambda: make_due(self.fleet.url, saga) is not None)
        until(lambda: self._executions(saga) != [])
        return self._executions(saga)[0]

    def state(self, execution: UUID) -> str:
        """Return the state of an execution."""
        (state,) = (row["state"] for row in executions(self.fleet.url) if row["id"] == execution)
        return str(state)

    def starts(self, execution: UUID) -> int:
        """Return how many workflows have begun their work for an execution."""
        file = self.folder / "started"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return Counter(lines)[str(execution)]

    def attempts(self) -> list[tuple[str, str]]:
        """Return the outcome and the error of each attempt."""
        statement = "SELECT outcome, error FROM tenantcron.execution_attempt ORDER BY attempt"
        rows = query(self.fleet.url, statement)
        return [(row["outcome"], row["error"] or "") for row in rows]

    def _executions(self, saga: str) -> list[UUID]:
        return [row["id"] for row in executions(self.fleet.url) if row["saga_name"] == saga]


@contextmanager
def temporal_work(
    folder: Path,
    url: str,
    server: TemporalDevServer,
    sagas: Mapping[str, str],
    timeout: str = "10m",
) -> Iterator[TemporalWork]:
    """A tenant with sagas at Temporal, by name with their payload, and one scheduler."""
    (folder / "tenantcron.toml").write_text(_POLICY, encoding="utf-8")
    entries = "".join(
        f"  - name: {name}\n    trigger:\n      scheduled: "
        f'{{cron: "0 0 1 1 *", start_within: 1h, timeout: {timeout}, payload: {payload}, '
        "retry: {max_attempts: 20, backoff: 1s, max_backoff: 1s}}\n"
        "    target: {temporal: {workflow: Work, task_queue: tests}}\n"
        for name, payload in sagas.items()
    )
    manifest = f'version: "1.0"\ntenant: acme\nsagas:\n{entries}'
    (folder / "acme.yaml").write_text(manifest, encoding="utf-8")
    shell = Shell(folder, url)
    applied = shell("apply-manifest", "acme.yaml", "--create-tenants")
    assert applied.code == 0, applied
    address = f"http://{server.address}"
    fleet = Fleet(shell, url, TENANTCRON_TEMPORAL_ADDRESS=address, TENANTCRON_DRAIN="0s")
    try:
        with temporal_worker(server, folder):
            fleet.start()
            yield TemporalWork(fleet, server, folder)
    finally:
        fleet.close()
