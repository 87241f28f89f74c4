"""The demo of the README runs to its end, on a database of its own."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from support.pages import README, ROOT


def test_the_demo_of_the_readme_shows_a_night_that_was_caught_up(run_folder: Path) -> None:
    assert "\nmake demo " in README.read_text(encoding="utf-8")
    folder = Path(tempfile.mkdtemp(dir=run_folder)) / "demo"
    done = subprocess.run(
        [
            # The environment that the test runs in is the one that is set up.
            *("make", "--assume-old=.venv/.ready", f"BIN={Path(sys.executable).parent}"),
            *("demo", "ONCE=1", "DEMO_RUN=4s", f"DEMO={folder}"),
        ],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    assert ": no findings" in done.stdout
    found = re.search(r"(\d+) occurrences since", done.stdout)
    assert found is not None
    # Of the night alone there are 92 of one schedule.
    assert int(found[1]) > 200
    assert "error: " not in done.stdout
