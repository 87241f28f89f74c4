"""The cost with more tenants, and with more history.

    .venv/bin/python bench/growth.py [--quick] [--only fleets occurrences history] [--rounds N]
        [--tenants N...] [--history ROWS...] [--occurrences N] [--results FILE] [--report]

On fresh embedded servers with durable commits:

- `fleets`: for each number of tenants, with 10 schedules each, the commands `validate` and
  `apply-manifest`, the first time and repeated; how fast the first and the last thousand tenants
  are created; the refresh that picks up all schedules, and one after a single tenant's change.
- `occurrences`: for each number of tenants, two schedulers that fire and finish 20,000 occurrences.
- `history`: the same with existing executions of the last thirty days.

Results are added to a file; `--report` only prints what is in it, and plots it into docs/plots.
Exits with 1 if the CPU time per occurrence is not flat. Elapsed time is shown, too, but depends on
the other load of the machine.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TypeVar

from apply import Fleet
from compare import Testbed, Trial
from peers import catalogue
from peers.servers import Postgres
from plotting import Points, plot
from seeding import seeding
from serving import embedded_server

from tenantcron.core.names import TenantId
from tenantcron.core.schema_names import DEFAULT_PATTERN
from tenantcron.core.settings import Settings
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store.connection.engine import Database, open_database
from tenantcron.store.connection.scripts import for_schema, run_script
from tenantcron.store.embedded.home import FOLDER

Size = TypeVar("Size")

RESULTS = Path("build/bench/growth.json")
PLOTS = Path("docs/plots")
PARTS = ("fleets", "occurrences", "history")
SCHEDULES = 10
OF_TENANTS = 200
CHANGES = 20
TIMEOUT = 90.0
_FULL = {
    "fleets": (10, 100, 1_000, 5_000, 20_000),
    "tenants": (10, 100, 1_000, 5_000),
    "history": (0, 1_000_000, 10_000_000),
    "occurrences": 20_000,
    "rounds": 3,
}
_QUICK = {
    "fleets": (10, 100),
    "tenants": (10, 100),
    "history": (0, 100_000),
    "occurrences": 2_000,
    "rounds": 1,
}
# Number of tenants for the creation rate, at the beginning and at the end of a command.
SLICE = 1_000
CREATED = "SELECT extract(epoch FROM created_at) FROM tenantcron.tenant ORDER BY 1"
# Maximum ratio of the most expensive to the cheapest.
FLAT = 1.25
EDIT = """
UPDATE {schema}.tenant_schedule SET effective_from = now(),
    cron_expr = CASE cron_expr WHEN '5 5 * * *' THEN '6 6 * * *' ELSE '5 5 * * *' END
WHERE schedule_name = 'saga_000'
"""


@dataclass(frozen=True, slots=True)
class FleetCost:
    """Seconds for a number of tenants; the refresh after one change in milliseconds.

    Also tenants created per second, of the first and the last thousand; 0 if there are fewer.
    """

    tenants: int
    validate: float
    created: float
    unchanged: float
    first_refresh: float
    one_change_ms: float
    first_rate: float = 0.0
    last_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class OccurrenceCost:
    """Microseconds from due to finished, elapsed and CPU, for a size."""

    size: int
    elapsed: float
    cpu: float


@dataclass(slots=True)
class Growth:
    """All results, by size."""

    fleets: dict[int, FleetCost] = field(default_factory=dict)
    occurrences: dict[int, OccurrenceCost] = field(default_factory=dict)
    history: dict[int, OccurrenceCost] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> "Growth":
        """Return saved results."""
        if not file.exists():
            return cls()
        saved = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            {cost["tenants"]: FleetCost(**cost) for cost in saved["fleets"]},
            {cost["size"]: OccurrenceCost(**cost) for cost in saved["occurrences"]},
            {cost["size"]: OccurrenceCost(**cost) for cost in saved["history"]},
        )

    def write(self, file: Path) -> None:
        """Save the results, smallest first."""
        saved = {part: [asdict(cost) for cost in _sorted(getattr(self, part))] for part in PARTS}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(saved), encoding="utf-8")


class PersistentPostgres(Postgres):
    """A server whose database is kept between two trials."""

    __slots__ = ()

    def recreate(self) -> None:
        """Keep the database."""


def fleet_cost(count: int) -> FleetCost:
    """Measure a fleet of this many tenants."""
    with embedded_server() as folder:
        fleet = Fleet(folder / "manifests", count, SCHEDULES)
        fleet.folder.mkdir()
        fleet.write(0)
        validate = _command(folder, "validate", "manifests")
        created = _command(folder, "apply-manifest", "manifests", "--create-tenants")
        rates = _rates(Postgres(folder / FOLDER / "postgres", "postgres").numbers(CREATED))
        unchanged = _command(folder, "apply-manifest", "manifests")
        first, change = asyncio.run(_refreshes(folder, count))
    return FleetCost(count, validate, created, unchanged, first, change, *rates)


def _rates(created: list[float]) -> tuple[float, float]:
    """Return tenants created per second, first and last."""
    if len(created) < 2 * SLICE:
        return 0.0, 0.0
    return _rate(created[:SLICE]), _rate(created[-SLICE:])


def _rate(created: list[float]) -> float:
    return len(created) / (created[-1] - created[0])


def _command(folder: Path, *words: str) -> float:
    environment = {key: value for key, value in os.environ.items() if "TENANTCRON" not in key}
    command = [sys.executable, "-m", "tenantcron", *words]
    begin = perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - begin


async def _refreshes(folder: Path, count: int) -> tuple[float, float]:
    """Return seconds of the first refresh, and milliseconds of one after a change."""
    async with open_database(Settings(folder=folder)) as database:
        first = await _refresh(database, SCHEDULES * count)
        names = [TenantId(f"tenant-{number * 37 % count:05}") for number in range(CHANGES)]
        changes = [await _one_change(database, name) for name in names]
    return first, 1_000 * median(changes)


async def _one_change(database: Database, name: TenantId) -> float:
    async with database.transaction() as connection:
        await connection.run_sync(run_script, for_schema(EDIT, DEFAULT_PATTERN.name_for(name)))
    return await _refresh(database, 1)


async def _refresh(database: Database, moved: int) -> float:
    begin = perf_counter()
    done = await refresh(database, TenantScheduleProvider())
    seconds = perf_counter() - begin
    if done.created + done.updated != moved or done.broken:
        raise RuntimeError(f"unexpected refresh: {done}")
    return seconds


def occurrence_cost(count: int, occurrences: int, rounds: int) -> OccurrenceCost:
    """Measure occurrences with this many tenants."""
    with embedded_server() as folder, TemporaryDirectory(prefix="growth-") as records:
        testbed = Testbed(Path(records), Postgres(folder / FOLDER / "postgres"), None, None)
        trial = Trial(testbed, catalogue.TENANTCRON, occurrences, TIMEOUT)
        return _cost(trial, count, count, rounds)


def history_costs(sizes: Iterable[int], occurrences: int, rounds: int) -> Iterator[OccurrenceCost]:
    """Measure occurrences with more and more history, in one database."""
    with embedded_server() as folder, TemporaryDirectory(prefix="growth-") as records:
        postgres = Postgres(folder / FOLDER / "postgres")
        postgres.recreate()
        testbed = Testbed(Path(records), PersistentPostgres(postgres.data), None, None)
        again = replace(catalogue.TENANTCRON, kind="schedules again")
        trial = Trial(testbed, again, occurrences, TIMEOUT)
        existing = 0
        for rows in sorted(sizes):
            asyncio.run(_fill(postgres.url, existing, rows))
            postgres.vacuum()
            existing = rows
            yield _cost(trial, rows, OF_TENANTS, rounds)


async def _fill(url: str, existing: int, rows: int) -> None:
    async with seeding(url) as filled:
        if not existing:
            await filled.prepare()
        await filled.add_past(existing, rows, tenants=OF_TENANTS)


def _cost(trial: Trial, size: int, count: int, rounds: int) -> OccurrenceCost:
    os.environ["BENCH_TENANTS"] = str(count)
    runs = [trial.at_once() for _ in range(rounds)]
    elapsed = median(1_000_000 / run.rate for run in runs)
    return OccurrenceCost(size, elapsed, median(run.cpu for run in runs))


def main() -> int:
    """Measure, report and plot."""
    arguments = _arguments()
    growth = Growth.read(arguments.results)
    if arguments.report:
        _draw(growth)
    else:
        for _ in _measure(growth, arguments):
            growth.write(arguments.results)
    _report(growth)
    return int(not (_flat(growth.occurrences) and _flat(growth.history)))


def _measure(growth: Growth, arguments: argparse.Namespace) -> Iterator[None]:
    """Add one result after the other; each can be saved before the next."""
    repeats = (arguments.occurrences, arguments.rounds)
    if "fleets" in arguments.only:
        for count in arguments.fleets:
            growth.fleets[count] = fleet_cost(count)
            yield
    if "occurrences" in arguments.only:
        for count in arguments.tenants:
            growth.occurrences[count] = occurrence_cost(count, *repeats)
            yield
    if "history" in arguments.only:
        for cost in history_costs(arguments.history, *repeats):
            growth.history[cost.size] = cost
            yield


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 and 100 tenants, 100,000 rows")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--tenants", type=int, nargs="+")
    parser.add_argument("--history", type=int, nargs="+", help="numbers of rows")
    parser.add_argument("--occurrences", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true", help="only print and plot saved results")
    given = parser.parse_args()
    defaults = _QUICK if given.quick else _FULL
    given.fleets = given.tenants
    for name, value in defaults.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


def _sorted(measured: dict[int, Size]) -> list[Size]:
    return [cost for _, cost in sorted(measured.items())]


def _flat(measured: dict[int, OccurrenceCost]) -> bool:
    costs = [cost.cpu for cost in measured.values()]
    return not costs or max(costs) <= FLAT * min(costs)


def _report(growth: Growth) -> None:
    print(
        "| tenants | validate | apply, created | created per second, first and last thousand |"
        " apply, unchanged | first refresh | refresh after one change |"
    )
    print("|---" * 7 + "|")
    for cost in _sorted(growth.fleets):
        print(
            f"| {cost.tenants:,} | {cost.validate:.1f} s | {cost.created:.1f} s |"
            f" {_both_rates(cost)} | {cost.unchanged:.1f} s | {cost.first_refresh:.2f} s |"
            f" {cost.one_change_ms:.0f} ms |"
        )
    _report_occurrences("tenants", growth.occurrences)
    _report_occurrences("rows of history", growth.history)


def _both_rates(cost: FleetCost) -> str:
    return f"{cost.first_rate:.0f}, {cost.last_rate:.0f}" if cost.first_rate else ""


def _report_occurrences(what: str, measured: dict[int, OccurrenceCost]) -> None:
    print(f"\n| {what} | CPU per occurrence | elapsed |\n|---|---|---|")
    for cost in _sorted(measured):
        print(f"| {cost.size:,} | {cost.cpu:.0f} µs | {cost.elapsed:.0f} µs |")
    if measured:
        verdict = "met" if _flat(measured) else "missed"
        print(f"\nCPU flat over {what}, within {FLAT} times: {verdict}")


def _draw(growth: Growth) -> None:
    """Plot all available results."""
    PLOTS.mkdir(parents=True, exist_ok=True)
    if growth.fleets:
        picture = plot("More tenants", "tenants, 10 schedules each", "seconds", _commands(growth))
        (PLOTS / "tenants.svg").write_text(picture, encoding="utf-8")
    if growth.occurrences:
        lines = _occurrences(_sorted(growth.occurrences))
        picture = plot("An occurrence, more tenants", "tenants", "µs", lines)
        (PLOTS / "occurrence.svg").write_text(picture, encoding="utf-8")
    if growth.history:
        lines = _occurrences(_sorted(growth.history))
        label = "rows of history; the point at 100,000 has none"
        picture = plot("An occurrence, more history", label, "µs", lines)
        (PLOTS / "history.svg").write_text(picture, encoding="utf-8")


def _commands(growth: Growth) -> dict[str, Points]:
    def line(value: Callable[[FleetCost], float]) -> Points:
        return [(cost.tenants, value(cost)) for cost in _sorted(growth.fleets)]

    return {
        "apply, created": line(lambda cost: cost.created),
        "apply, unchanged": line(lambda cost: cost.unchanged),
        "validate": line(lambda cost: cost.validate),
        "first refresh": line(lambda cost: cost.first_refresh),
        "refresh, one change": line(lambda cost: cost.one_change_ms / 1_000),
    }


def _occurrences(costs: list[OccurrenceCost]) -> dict[str, Points]:
    """Return the lines; a logarithmic axis has no 0, so no history is plotted at 100,000."""
    return {
        "elapsed": [(cost.size or 100_000, cost.elapsed) for cost in costs],
        "CPU": [(cost.size or 100_000, cost.cpu) for cost in costs],
    }


if __name__ == "__main__":
    sys.exit(main())
