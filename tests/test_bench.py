"""The benchmarks: their tables, plots and requirements."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "bench"
MAIN = 'if __name__ == "__main__"'
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the folder as its scripts do; unload it afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(BENCH)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if str(BENCH) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def at_once(bench: Any, peer: str, a_round: str, **figures: float) -> Any:
    defaults = {"started": 1_000, "rate": 100.0, "median": 10.0, "p99": 20.0}
    return bench("results").Run(peer, "at once", 1_000, round=a_round, **defaults | figures)


def row_of(table: str, peer: str) -> list[str]:
    line = next(line for line in table.splitlines() if line.startswith(f"| {peer} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_ratio_is_the_median_of_the_ratios_within_each_round(bench: Any) -> None:
    runs = [
        at_once(bench, "tenantcron", "1", rate=1_000.0),
        at_once(bench, "pg_cron", "1", rate=100.0),
        at_once(bench, "tenantcron", "2", rate=300.0),
        at_once(bench, "pg_cron", "2", rate=10.0),
        at_once(bench, "tenantcron", "3", rate=400.0),
        at_once(bench, "pg_cron", "3", rate=20.0),
        at_once(bench, "pg_cron", "without ours", rate=1.0),
    ]
    assert row_of(bench("tables").table(runs), "pg_cron")[5] == "20.0 times"


def test_a_peer_that_is_not_installed_has_a_row_that_says_so(bench: Any) -> None:
    missing = bench("results").Run("pg_cron", "not installed", 0)
    table = bench("tables").table([at_once(bench, "tenantcron", "1"), missing])
    assert row_of(table, "pg_cron")[1] == "not installed"


def test_executions_that_did_not_start_in_time_are_counted_beside_the_lateness(bench: Any) -> None:
    table = bench("tables").table([at_once(bench, "Celery beat, Redis", "1", started=854)])
    assert row_of(table, "Celery beat, Redis")[3] == "20 ms; 854 started in time"


def test_a_goal_is_missed_when_a_peer_with_a_database_has_lower_lateness(bench: Any) -> None:
    runs = [
        at_once(bench, "tenantcron", "1", p99=200.0),
        at_once(bench, "PGQueuer, schedules", "1", p99=199.0),
        at_once(bench, "APScheduler, Postgres job store", "1", p99=201.0),
        # A queue without schedules is shown for reference only, and has no goal.
        at_once(bench, "PGQueuer, delayed jobs", "1", p99=100.0),
    ]
    missed = [str(goal) for goal in bench("tables").goals(runs) if goal.missed]
    assert len(missed) == 1
    assert "PGQueuer, schedules" in missed[0]


def test_a_peer_with_a_missing_module_is_not_installed(bench: Any) -> None:
    assert not bench("peers.environment").installed(("no_such_module_anywhere",))


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 -- written by the code under test


def test_a_plot_is_well_formed_and_shows_every_point_and_every_name(bench: Any) -> None:
    lines = {"one & all": [(10, 0.5), (5_000, 90)], "other": [(10, 0.5), (5_000, 91)]}
    picture = parsed(bench("plotting").plot("T", "tenants", "s", lines))
    texts = [element.text for element in picture.iter(f"{SVG}text")]
    assert len(list(picture.iter(f"{SVG}circle"))) == 4
    assert {"one & all", "other", "tenants", "s"} <= set(texts)


def test_labels_of_lines_that_end_together_do_not_overlap(bench: Any) -> None:
    lines = {"one": [(1, 1), (10, 5)], "two": [(1, 1), (10, 5)]}
    picture = parsed(bench("plotting").plot("T", "x", "y", lines))
    places = [
        float(element.get("y", ""))
        for element in picture.iter(f"{SVG}text")
        if element.text in lines
    ]
    assert abs(places[0] - places[1]) >= 12


def test_a_larger_value_is_further_along_its_axis(bench: Any) -> None:
    axis = bench("plotting").axis([10, 5_000], 64, 470)
    assert (axis.at(10), axis.at(10_000)) == (64, 470)
    assert 64 < axis.at(100) < axis.at(1_000) < 470


CHILD = "import os, sys; os.setsid(); print(os.getpid(), flush=True); sys.stdin.read()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_the_session_of_a_server_includes_children_with_their_own_sessions(
    bench: Any,
) -> None:
    command = [sys.executable, "-c", PARENT]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, start_new_session=True, text=True, stdin=pipe, stdout=pipe
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        child = int(parent.stdout.readline())
        members = bench("peers.processes").Session(parent.pid).members()
        parent.stdin.close()
    assert {parent.pid, child} <= members.keys()


def names_in(file: Path) -> set[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    found = (re.match(r"[A-Za-z0-9_.-]+", line) for line in lines)
    return {match[0].lower().replace("_", "-") for match in found if match}


def test_every_peer_is_pinned() -> None:
    folder = BENCH / "peers"
    assert names_in(folder / "requirements.txt") <= names_in(folder / "constraints.txt")


def test_make_bench_runs_every_script() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = next(line for line in makefile.splitlines() if line.startswith("BENCHES")).split()[2:]
    scripts = [file.stem for file in BENCH.glob("*.py") if MAIN in file.read_text(encoding="utf-8")]
    assert sorted(listed) == sorted(scripts)


def test_the_readme_of_benchmarks_names_every_script() -> None:
    page = (BENCH / "README.md").read_text(encoding="utf-8")
    scripts = [file.name for file in BENCH.glob("*.py") if MAIN in file.read_text(encoding="utf-8")]
    assert [name for name in scripts if f"`{name}`" not in page] == []
