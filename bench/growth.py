"""What it costs with more tenants, and with more history.

    .venv/bin/python bench/growth.py [--quick] [--tenants N...] [--history ROWS...] [--results FILE]
        [--report]

For each number of tenants, with 10 schedules each, on a fresh embedded server with durable commits:
`validate` and `apply-manifest` as commands, the first time and again; the refresh that takes up all
schedules, and one after a single tenant's change; and two schedulers that fire and finish 20,000
occurrences. For history: the same occurrences after so many executions and attempts of the last
thirty days. Results are added to a file; `--report` only shows what is in it, and draws it into
docs/plots. Ends with 1 if the cost of an occurrence is not flat.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from apply import Fleet
from compare import Stage, Trial
from peers import catalogue
from peers.servers import Postgres
from plotting import plot
from seeding import seeding
from serving import embedded_server

from tenantcron.core.names import TenantId
from tenantcron.core.settings import Settings
from tenantcron.provider.refresh import refresh
from tenantcron.provider.tenant_schedules import TenantScheduleProvider
from tenantcron.store import tenants
from tenantcron.store.embedded import FOLDER
from tenantcron.store.engine import Database, open_database
from tenantcron.store.scripts import for_schema, run_script

RESULTS = Path("build/bench/growth.json")
PLOTS = Path("docs/plots")
TENANTS = (10, 100, 1_000, 5_000)
HISTORY = (0, 1_000_000, 10_000_000)
SCHEDULES = 10
OCCURRENCES = 20_000
OF_TENANTS = 200
ROUNDS = 3
CHANGES = 20
PATIENCE = 90.0
# The dearest to the cheapest: a noisy machine alone makes for some of it.
FLAT = 1.5
_WHOLE = {"tenants": TENANTS, "history": HISTORY, "occurrences": OCCURRENCES, "rounds": ROUNDS}
_QUICK = {"tenants": (10, 100), "history": (0, 100_000), "occurrences": 2_000, "rounds": 1}
# It gets some seconds more to start: what it has to take up is large.
PATIENT = replace(catalogue.OURS, lead=catalogue.OURS.lead + 3)
EDIT = """
UPDATE {schema}.tenant_schedule SET effective_from = now(),
    cron_expr = CASE cron_expr WHEN '5 5 * * *' THEN '6 6 * * *' ELSE '5 5 * * *' END
WHERE schedule_name = 'saga_000'
"""


@dataclass(frozen=True, slots=True)
class Size:
    """What was measured with so many tenants; seconds, but for what has a unit."""

    tenants: int
    validate: float
    created: float
    unchanged: float
    first_refresh: float
    one_change_ms: float
    occurrence_us: float


@dataclass(frozen=True, slots=True)
class Past:
    """What an occurrence costs after so many."""

    rows: int
    occurrence_us: float


class Kept(Postgres):
    """A server whose database stays as it is between two trials."""

    __slots__ = ()

    def renew(self) -> None:
        """Leave it all there."""


def with_tenants(count: int, occurrences: int, rounds: int) -> Size:
    """Measure a fleet of so many tenants."""
    with embedded_server() as folder, TemporaryDirectory(prefix="growth-") as notes:
        fleet = Fleet(folder / "manifests", count, SCHEDULES)
        fleet.folder.mkdir()
        fleet.write(0)
        validate = _command(folder, "validate", "manifests")
        created = _command(folder, "apply-manifest", "manifests", "--create-tenants")
        unchanged = _command(folder, "apply-manifest", "manifests")
        first, change = asyncio.run(_refreshes(folder, count))
        postgres = Postgres(folder / FOLDER / "postgres")
        stage = Stage(Path(notes), postgres, None, None)
        trial = Trial(stage, PATIENT, occurrences, PATIENCE)
        cost = _occurrence(trial, count, rounds)
    return Size(count, validate, created, unchanged, first, change, cost)


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
        await connection.run_sync(run_script, for_schema(EDIT, tenants.schema_of(name)))
    return await _refresh(database, 1)


async def _refresh(database: Database, moved: int) -> float:
    begin = perf_counter()
    done = await refresh(database, TenantScheduleProvider())
    seconds = perf_counter() - begin
    if done.created + done.updated != moved or done.broken:
        raise RuntimeError(f"not what was to be measured: {done}")
    return seconds


def _occurrence(trial: Trial, count: int, rounds: int) -> float:
    """Return microseconds from due to finished, for each of many; the median of some rounds."""
    os.environ["BENCH_TENANTS"] = str(count)
    return median(1_000_000 / trial.at_once().rate for _ in range(rounds))


def with_history(sizes: Iterable[int], occurrences: int, rounds: int) -> Iterable[Past]:
    """Measure after more and more history, in one database."""
    with embedded_server() as folder, TemporaryDirectory(prefix="growth-") as notes:
        postgres = Postgres(folder / FOLDER / "postgres")
        postgres.renew()
        stage = Stage(Path(notes), Kept(postgres.data), None, None)
        again = replace(PATIENT, kind="schedules again")
        trial = Trial(stage, again, occurrences, PATIENCE)
        there = 0
        for rows in sorted(sizes):
            asyncio.run(_fill(postgres.url, there, rows))
            there = rows
            yield Past(rows, _occurrence(trial, OF_TENANTS, rounds))


async def _fill(url: str, there: int, rows: int) -> None:
    async with seeding(url) as filled:
        if not there:
            await filled.prepare()
        await filled.add_past(there, rows, tenants=OF_TENANTS)


def main() -> int:
    """Measure, report and draw."""
    arguments = _arguments()
    sizes, pasts = _read(arguments.results)
    if not arguments.report:
        arguments.results.parent.mkdir(parents=True, exist_ok=True)
        for count in arguments.tenants:
            sizes[count] = with_tenants(count, arguments.occurrences, arguments.rounds)
            _write(arguments.results, sizes, pasts)
        if arguments.history:
            for past in with_history(arguments.history, arguments.occurrences, arguments.rounds):
                pasts[past.rows] = past
                _write(arguments.results, sizes, pasts)
    _report(sizes, pasts)
    if arguments.report:
        _draw(sizes, pasts)
    return int(not (_flat(sizes.values()) and _flat(pasts.values())))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 and 100 tenants, 100,000 rows")
    parser.add_argument("--tenants", type=int, nargs="*")
    parser.add_argument("--history", type=int, nargs="*", help="how many rows, ascending")
    parser.add_argument("--occurrences", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--report", action="store_true", help="only show and draw what was measured"
    )
    given = parser.parse_args()
    usual = _QUICK if given.quick else _WHOLE
    for name, value in usual.items():
        if getattr(given, name) is None:
            setattr(given, name, value)
    return given


def _read(file: Path) -> tuple[dict[int, Size], dict[int, Past]]:
    if not file.exists():
        return {}, {}
    kept = json.loads(file.read_text(encoding="utf-8"))
    sizes, pasts = [Size(**x) for x in kept["sizes"]], [Past(**x) for x in kept["pasts"]]
    return {x.tenants: x for x in sizes}, {x.rows: x for x in pasts}


def _write(file: Path, sizes: dict[int, Size], pasts: dict[int, Past]) -> None:
    kept = {
        "sizes": [asdict(one) for _, one in sorted(sizes.items())],
        "pasts": [asdict(one) for _, one in sorted(pasts.items())],
    }
    file.write_text(json.dumps(kept), encoding="utf-8")


def _flat(measured: Iterable[Size | Past]) -> bool:
    costs = [one.occurrence_us for one in measured]
    return not costs or max(costs) <= FLAT * min(costs)


def _report(sizes: dict[int, Size], pasts: dict[int, Past]) -> None:
    print(
        "| tenants | validate | apply, created | apply, unchanged | first refresh |"
        " refresh after one change | an occurrence |"
    )
    print("|---" * 7 + "|")
    for _, one in sorted(sizes.items()):
        print(
            f"| {one.tenants:,} | {one.validate:.1f} s | {one.created:.1f} s |"
            f" {one.unchanged:.1f} s | {one.first_refresh:.2f} s | {one.one_change_ms:.0f} ms |"
            f" {one.occurrence_us:.0f} µs |"
        )
    print("\n| rows of history | an occurrence |\n|---|---|")
    for _, one in sorted(pasts.items()):
        print(f"| {one.rows:,} | {one.occurrence_us:.0f} µs |")
    for words, measured in (("tenants", sizes), ("history", pasts)):
        if measured:
            verdict = "met" if _flat(measured.values()) else "missed"
            print(f"cost of an occurrence flat over {words} (within {FLAT} times): {verdict}")


def _draw(sizes: dict[int, Size], pasts: dict[int, Past]) -> None:
    """Draw what there is; an axis that counts by tens has no place for 0."""
    PLOTS.mkdir(parents=True, exist_ok=True)
    fleets = [one for _, one in sorted(sizes.items())]

    def line(value: Callable[[Size], float]) -> list[tuple[float, float]]:
        return [(one.tenants, value(one)) for one in fleets]

    if fleets:
        commands = {
            "apply, created": line(lambda x: x.created),
            "apply, unchanged": line(lambda x: x.unchanged),
            "validate": line(lambda x: x.validate),
            "first refresh": line(lambda x: x.first_refresh),
            "refresh, one change": line(lambda x: x.one_change_ms / 1_000),
        }
        occurrence = {"due to finished": line(lambda x: x.occurrence_us)}
        _save("tenants.svg", plot("More tenants", "tenants, 10 schedules each", "s", commands))
        _save(
            "occurrence.svg",
            plot("An occurrence, more tenants", "tenants", "µs an occurrence", occurrence),
        )
    if len(pasts) > 1:
        rows = [(max(one.rows, 100_000), one.occurrence_us) for _, one in sorted(pasts.items())]
        words = "rows of history (the first point has none)"
        picture = plot(
            "An occurrence, more history", words, "µs an occurrence", {"due to finished": rows}
        )
        _save("history.svg", picture)


def _save(name: str, picture: str) -> None:
    (PLOTS / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
