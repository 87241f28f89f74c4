"""The benchmarks: what their tables and pictures say, and what they install."""

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
    """Import a module of the folder as its scripts do; nothing of it stays."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(BENCH)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if str(BENCH) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def at_once(bench: Any, peer: str, a_round: str, **figures: float) -> Any:
    usual = {"started": 1_000, "rate": 100.0, "median": 10.0, "late": 20.0}
    return bench("measured").Run(peer, "at once", 1_000, round=a_round, **usual | figures)


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
    assert row_of(bench("comparison").table(runs), "pg_cron")[5] == "20.0 times"


def test_a_peer_that_is_not_installed_has_a_row_that_says_so(bench: Any) -> None:
    missing = bench("measured").Run("pg_cron", "not installed", 0)
    table = bench("comparison").table([at_once(bench, "tenantcron", "1"), missing])
    assert row_of(table, "pg_cron")[1] == "not installed"


def test_what_did_not_start_in_time_is_said_beside_the_lateness_of_the_rest(bench: Any) -> None:
    table = bench("comparison").table([at_once(bench, "Celery beat, Redis", "1", started=854)])
    assert row_of(table, "Celery beat, Redis")[3] == "20 ms; 854 started in time"


def test_an_aim_is_missed_when_a_peer_with_a_database_is_less_late(bench: Any) -> None:
    runs = [
        at_once(bench, "tenantcron", "1", late=200.0),
        at_once(bench, "PGQueuer, schedules", "1", late=199.0),
        at_once(bench, "APScheduler, Postgres job store", "1", late=201.0),
        # A queue without schedules is shown beside them, and is no aim.
        at_once(bench, "PGQueuer, jobs with a time", "1", late=100.0),
    ]
    missed = [str(one) for one in bench("comparison").aims(runs) if one.missed]
    assert len(missed) == 1
    assert "PGQueuer, schedules" in missed[0]


def test_a_module_that_is_not_there_makes_a_peer_not_installed(bench: Any) -> None:
    assert not bench("peers.installing").installed(("no_such_module_anywhere",))


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)  # noqa: S314 -- written by the code under test


def test_a_plot_is_well_formed_and_shows_every_point_and_every_name(bench: Any) -> None:
    lines = {"one & all": [(10, 0.5), (5_000, 90)], "other": [(10, 0.5), (5_000, 91)]}
    picture = parsed(bench("plotting").plot("T", "tenants", "s", lines))
    words = [one.text for one in picture.iter(f"{SVG}text")]
    assert len(list(picture.iter(f"{SVG}circle"))) == 4
    assert {"one & all", "other", "tenants", "s"} <= set(words)


def test_names_of_lines_that_end_together_do_not_cover_each_other(bench: Any) -> None:
    lines = {"one": [(1, 1), (10, 5)], "two": [(1, 1), (10, 5)]}
    picture = parsed(bench("plotting").plot("T", "x", "y", lines))
    places = [float(x.get("y", "")) for x in picture.iter(f"{SVG}text") if x.text in lines]
    assert abs(places[0] - places[1]) >= 12


def test_more_of_something_is_further_along_its_axis(bench: Any) -> None:
    axis = bench("plotting").axis([10, 5_000], 64, 470)
    assert (axis.at(10), axis.at(10_000)) == (64, 470)
    assert 64 < axis.at(100) < axis.at(1_000) < 470


CHILD = "import os, sys; os.setsid(); print(os.getpid(), flush=True); sys.stdin.read()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_a_server_costs_what_its_children_cost_though_they_have_their_own_sessions(
    bench: Any,
) -> None:
    command = [sys.executable, "-c", PARENT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, start_new_session=True, text=True, **pipes) as parent:
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


def test_make_bench_runs_every_script_that_measures() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = next(x for x in makefile.splitlines() if x.startswith("BENCHES")).split()[2:]
    scripts = [x.stem for x in BENCH.glob("*.py") if MAIN in x.read_text(encoding="utf-8")]
    assert sorted(listed) == sorted(scripts)


def test_the_page_of_benchmarks_names_every_script_that_measures() -> None:
    page = (BENCH / "README.md").read_text(encoding="utf-8")
    scripts = [x.name for x in BENCH.glob("*.py") if MAIN in x.read_text(encoding="utf-8")]
    assert [name for name in scripts if f"`{name}`" not in page] == []
