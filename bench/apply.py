"""How fast a fleet is applied: created, unchanged, and with one schedule per tenant edited.

    .venv/bin/python bench/apply.py [--tenants 1000] [--schedules 20]

Runs on a fresh embedded server with its durable defaults, in a temporary folder, and exits with 1
if a goal is missed. `in process` is the work of the command without its start-up and its output;
`command` is the complete command as a pipeline runs it, with text or JSON output.
"""

import argparse
import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from serving import Workspace, add_database_url, server

from tenantcron.actor.attribution import Attribution
from tenantcron.actor.model import Actor, ActorType
from tenantcron.core.memory import FLEET, collect_rarely
from tenantcron.manifests.files import Policies, find_files, read_files
from tenantcron.migrations.runner import migrate_control
from tenantcron.reconciler.apply import Applier
from tenantcron.reconciler.checking import Checking
from tenantcron.reconciler.fleet import apply_all, prepare_all
from tenantcron.reconciler.outcome import ReconcileOutcome, Status
from tenantcron.reconciler.plan import Rules
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.tenants.creation import create_tenant

ZONES = ("UTC", "Europe/London", "America/New_York", "Asia/Kolkata", "Australia/Sydney")
TIMETABLES = (
    'cron: "{minute} {hour} * * *"',
    'cron: "{minute} */6 * * mon-fri"',
    'daily: {{at: "{hour:02}:{minute:02}"}}',
    'weekly: {{on: [mon, thu], at: "{hour:02}:{minute:02}"}}',
    'monthly: {{day: last, at: "{hour:02}:{minute:02}"}}',
    "every: 45m",
)
# Tenants per second.
CREATED, UNCHANGED = 50, 500


@dataclass(frozen=True, slots=True)
class Measured:
    """One run over the fleet."""

    what: str
    tenants: int
    seconds: float
    goal: int | None = None

    @property
    def rate(self) -> float:
        """Tenants per second."""
        return self.tenants / self.seconds

    @property
    def missed(self) -> bool:
        """Whether the goal is missed."""
        return self.goal is not None and self.rate < self.goal


@dataclass(frozen=True, slots=True)
class Fleet:
    """Generated manifests on disk."""

    folder: Path
    tenants: int
    schedules: int

    def write(self, edition: int) -> None:
        """Write all manifests; another edition changes one schedule of every tenant."""
        for tenant in range(self.tenants):
            file = self.folder / f"tenant-{tenant:05}.yaml"
            file.write_text(self._manifest(tenant, edition), encoding="utf-8")

    def _manifest(self, tenant: int, edition: int) -> str:
        sagas = (self._saga(tenant, number, edition) for number in range(self.schedules))
        return 'version: "1.0"\nsagas:\n' + "".join(sagas)

    def _saga(self, tenant: int, number: int, edition: int) -> str:
        key = tenant * self.schedules + number
        timetable = TIMETABLES[key % len(TIMETABLES)].format(minute=key % 60, hour=key // 60 % 24)
        timeout = 5 + edition if number == 0 else 5
        return (
            f"  - name: saga_{number:03}\n    trigger:\n      scheduled:\n        {timetable}\n"
            f"        timezone: {ZONES[key % len(ZONES)]}\n        timeout: {timeout}m\n"
            f"        payload: {{tenant_number: {tenant}, part: {number}}}\n"
        )


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--schedules", type=int, default=20)
    add_database_url(parser)
    arguments = parser.parse_args()
    with server(arguments.database_url) as place:
        fleet = Fleet(place.folder / "manifests", arguments.tenants, arguments.schedules)
        fleet.folder.mkdir()
        collect_rarely(FLEET)
        measured = asyncio.run(_in_process(fleet, place))
        measured += [_command(fleet, place, output) for output in ("text", "json")]
    _report(measured)
    return int(any(result.missed for result in measured))


async def _in_process(fleet: Fleet, place: Workspace) -> list[Measured]:
    async with open_database(place.settings) as database:
        await migrate_control(database)
        fleet.write(0)
        created = await _measure(database, fleet, "first apply, created", Status.APPLIED, CREATED)
        same = await _measure(database, fleet, "unchanged", Status.UNCHANGED, UNCHANGED)
        fleet.write(1)
        edited = await _measure(database, fleet, "one schedule of each edited", Status.APPLIED)
    return [created, same, edited]


async def _measure(
    database: Database, fleet: Fleet, what: str, expected: Status, goal: int | None = None
) -> Measured:
    begin = perf_counter()
    outcomes = await _apply(database, fleet)
    seconds = perf_counter() - begin
    if {outcome.status for outcome in outcomes} != {expected} or len(outcomes) != fleet.tenants:
        raise RuntimeError(f"{what}: unexpected outcome: {outcomes[0]}")
    return Measured(f"{what}, in process", fleet.tenants, seconds, goal)


async def _apply(database: Database, fleet: Fleet) -> list[ReconcileOutcome]:
    """Do what `apply-manifest` does, except for its output."""
    files = list(read_files(find_files([fleet.folder]), Policies(None), None))
    with Checking() as checking:
        prepared = await prepare_all(database, files, _nothing, checking)
    applier = Applier(
        database=database,
        rules=Rules(create_tenants=True),
        who=Attribution(Actor("bench", ActorType.HUMAN, "cli")),
        source_ref=None,
        create_tenant=create_tenant,
    )
    return await apply_all(applier, prepared, _nothing)


def _command(fleet: Fleet, place: Workspace, output: str) -> Measured:
    command = [sys.executable, "-m", "tenantcron", "apply-manifest", "manifests"]
    begin = perf_counter()
    subprocess.run(
        [*command, "--format", output],
        cwd=place.folder,
        env=place.environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    what = f"unchanged, command, {output} output"
    return Measured(what, fleet.tenants, perf_counter() - begin)


def _nothing() -> None:
    """Ignore progress."""


def _report(measured: list[Measured]) -> None:
    print(f"{'':42}{'seconds':>9}{'tenants/s':>11}{'goal':>7}")
    for result in measured:
        goal = f">= {result.goal}" if result.goal else ""
        verdict = "missed" if result.missed else ""
        print(f"{result.what:42}{result.seconds:9.1f}{result.rate:11.0f}{goal:>7} {verdict}")


if __name__ == "__main__":
    sys.exit(main())
