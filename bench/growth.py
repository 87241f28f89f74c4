"""What it costs with more tenants, and with more history.

    .venv/bin/python bench/growth.py [--quick] [--only fleets occurrences history] [--rounds N]
        [--tenants N...] [--history ROWS...] [--occurrences N] [--results FILE] [--report]

On fresh embedded servers with durable commits:

- `fleets`: for each number of tenants, with 10 schedules each, `validate` and `apply-manifest` as
  commands, the first time and again; how fast the first and the last thousand tenants are created;
  the refresh that takes up all schedules, and one after a single tenant's change.
- `occurrences`: for each number of tenants, two schedulers that fire and finish 20,000 occurrences.
- `history`: the same after so many executions of the last thirty days.

Results are added to a file; `--report` only shows what is in it, and draws it into docs/plots. Ends
with 1 if the computing for an occurrence is not flat: time by the clock is shown, but on a machine
that does other things it says more about those.
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
from compare import Stage, Trial
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
from tenantcron.store.embedded import FOLDER
from tenantcron.store.engine import Database, open_database
from tenantcron.store.scripts import for_schema, run_script

Size = TypeVar("Size")

RESULTS = Path("build/bench/growth.json")
PLOTS = Path("docs/plots")
PARTS = ("fleets", "occurrences", "history")
SCHEDULES = 10
OF_TENANTS = 200
CHANGES = 20
PATIENCE = 90.0
_WHOLE = {
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
# Tenants of which the rate of creating is taken, at the beginning and at the end of a command.
SLICE = 1_000
CREATED = "SELECT extract(epoch FROM created_at) FROM tenantcron.tenant ORDER BY 1"
# The dearest to the cheapest.
FLAT = 1.25
EDIT = """
UPDATE {schema}.tenant_schedule SET effective_from = now(),
    cron_expr = CASE cron_expr WHEN '5 5 * * *' THEN '6 6 * * *' ELSE '5 5 * * *' END
WHERE schedule_name = 'saga_000'
"""


@dataclass(frozen=True, slots=True)
class FleetCost:
    """Seconds for so many tenants; the refresh after one change in milliseconds.

    And tenants created a second, of the first and the last thousand; 0 if there are fewer.
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
    """Microseconds from due to finished, by the clock and of computing, each with so many of it."""

    size: int
    clock: float
    computing: float


@dataclass(slots=True)
class Growth:
    """All that was measured, by size."""

    fleets: dict[int, FleetCost] = field(default_factory=dict)
    occurrences: dict[int, OccurrenceCost] = field(default_factory=dict)
    history: dict[int, OccurrenceCost] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> "Growth":
        """Return what was measured before."""
        if not file.exists():
            return cls()
        kept = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            {one["tenants"]: FleetCost(**one) for one in kept["fleets"]},
            {one["size"]: OccurrenceCost(**one) for one in kept["occurrences"]},
            {one["size"]: OccurrenceCost(**one) for one in kept["history"]},
        )

    def write(self, file: Path) -> None:
        """Keep it, smallest first."""
        kept = {part: [asdict(one) for one in _sorted(getattr(self, part))] for part in PARTS}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept), encoding="utf-8")


class Kept(Postgres):
    """A server whose database stays as it is between two trials."""

    __slots__ = ()

    def renew(self) -> None:
        """Leave it all there."""


def fleet_cost(count: int) -> FleetCost:
    """Measure a fleet of so many tenants."""
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
    """Return how many tenants a second were created, first and last."""
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
        raise RuntimeError(f"not what was to be measured: {done}")
    return seconds


def occurrence_cost(count: int, occurrences: int, rounds: int) -> OccurrenceCost:
    """Measure occurrences of so many tenants."""
    with embedded_server() as folder, TemporaryDirectory(prefix="growth-") as notes:
        stage = Stage(Path(notes), Postgres(folder / FOLDER / "postgres"), None, None)
        trial = Trial(stage, catalogue.OURS, occurrences, PATIENCE)
        return _cost(trial, count, count, rounds)


def history_costs(sizes: Iterable[int], occurrences: int, rounds: int) -> Iterator[OccurrenceCost]:
    """Measure occurrences after more and more history, in one database."""
    with embedded_server() as folder, TemporaryDirectory(prefix="growth-") as notes:
        postgres = Postgres(folder / FOLDER / "postgres")
        postgres.renew()
        stage = Stage(Path(notes), Kept(postgres.data), None, None)
        again = replace(catalogue.OURS, kind="schedules again")
        trial = Trial(stage, again, occurrences, PATIENCE)
        there = 0
        for rows in sorted(sizes):
            asyncio.run(_fill(postgres.url, there, rows))
            postgres.settle()
            there = rows
            yield _cost(trial, rows, OF_TENANTS, rounds)


async def _fill(url: str, there: int, rows: int) -> None:
    async with seeding(url) as filled:
        if not there:
            await filled.prepare()
        await filled.add_past(there, rows, tenants=OF_TENANTS)


def _cost(trial: Trial, size: int, count: int, rounds: int) -> OccurrenceCost:
    os.environ["BENCH_TENANTS"] = str(count)
    runs = [trial.at_once() for _ in range(rounds)]
    clock = median(1_000_000 / one.rate for one in runs)
    return OccurrenceCost(size, clock, median(one.computing for one in runs))


def main() -> int:
    """Measure, report and draw."""
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
    """Add figure after figure; each can be kept before the next."""
    often = (arguments.occurrences, arguments.rounds)
    if "fleets" in arguments.only:
        for count in arguments.fleets:
            growth.fleets[count] = fleet_cost(count)
            yield
    if "occurrences" in arguments.only:
        for count in arguments.tenants:
            growth.occurrences[count] = occurrence_cost(count, *often)
            yield
    if "history" in arguments.only:
        for one in history_costs(arguments.history, *often):
            growth.history[one.size] = one
            yield


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 and 100 tenants, 100,000 rows")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--tenants", type=int, nargs="+")
    parser.add_argument("--history", type=int, nargs="+", help="how many rows")
    parser.add_argument("--occurrences", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--report", action="store_true", help="only show and draw what was measured"
    )
    given = parser.parse_args()
    usual = _QUICK if given.quick else _WHOLE
    given.fleets = given.tenants
    for name, value in usual.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


def _sorted(measured: dict[int, Size]) -> list[Size]:
    return [one for _, one in sorted(measured.items())]


def _flat(measured: dict[int, OccurrenceCost]) -> bool:
    costs = [one.computing for one in measured.values()]
    return not costs or max(costs) <= FLAT * min(costs)


def _report(growth: Growth) -> None:
    print(
        "| tenants | validate | apply, created | created a second, first and last thousand |"
        " apply, unchanged | first refresh | refresh after one change |"
    )
    print("|---" * 7 + "|")
    for one in _sorted(growth.fleets):
        print(
            f"| {one.tenants:,} | {one.validate:.1f} s | {one.created:.1f} s |"
            f" {_both_rates(one)} | {one.unchanged:.1f} s | {one.first_refresh:.2f} s |"
            f" {one.one_change_ms:.0f} ms |"
        )
    _report_occurrences("tenants", growth.occurrences)
    _report_occurrences("rows of history", growth.history)


def _both_rates(cost: FleetCost) -> str:
    return f"{cost.first_rate:.0f}, {cost.last_rate:.0f}" if cost.first_rate else ""


def _report_occurrences(what: str, measured: dict[int, OccurrenceCost]) -> None:
    print(f"\n| {what} | computing for an occurrence | by the clock |\n|---|---|---|")
    for one in _sorted(measured):
        print(f"| {one.size:,} | {one.computing:.0f} µs | {one.clock:.0f} µs |")
    if measured:
        verdict = "met" if _flat(measured) else "missed"
        print(f"\ncomputing flat over {what}, within {FLAT} times: {verdict}")


def _draw(growth: Growth) -> None:
    """Draw what there is of each."""
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
        words = "rows of history; the point at 100,000 has none"
        picture = plot("An occurrence, more history", words, "µs", lines)
        (PLOTS / "history.svg").write_text(picture, encoding="utf-8")


def _commands(growth: Growth) -> dict[str, Points]:
    def line(value: Callable[[FleetCost], float]) -> Points:
        return [(one.tenants, value(one)) for one in _sorted(growth.fleets)]

    return {
        "apply, created": line(lambda x: x.created),
        "apply, unchanged": line(lambda x: x.unchanged),
        "validate": line(lambda x: x.validate),
        "first refresh": line(lambda x: x.first_refresh),
        "refresh, one change": line(lambda x: x.one_change_ms / 1_000),
    }


def _occurrences(costs: list[OccurrenceCost]) -> dict[str, Points]:
    """An axis that counts by tens has no place for 0: no history is drawn at 100,000."""
    return {
        "by the clock": [(one.size or 100_000, one.clock) for one in costs],
        "computing": [(one.size or 100_000, one.computing) for one in costs],
    }


if __name__ == "__main__":
    sys.exit(main())
