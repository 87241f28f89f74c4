"""Take the screenshots of the dashboard: `make demo ONCE=1 screenshots`.

They show the database of the demo with a running scheduler, so they differ a little each time.
`docs/picture_inputs.py` explains how a test notices that they are out of date.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import ViewportSize, sync_playwright

from docs.picture_inputs import store

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
ADDRESS = "http://127.0.0.1:8081/ui"
COMMAND = str(Path(sys.executable).parent / "tenantcron")
# Name, page, theme.
SCREENSHOTS: tuple[tuple[str, str, Literal["light", "dark"]], ...] = (
    ("overview", ADDRESS, "light"),
    ("schedule", f"{ADDRESS}/tenants/meadow/schedules/balance_reservoirs", "dark"),
)
SIZE: ViewportSize = {"width": 1200, "height": 1150}
# Small enough for the page and for the repository.
SCALE = 0.6
PATIENCE = 30


def main(demo: Path) -> None:
    """Start a scheduler and a server on the demo's database, and take the screenshots."""
    with _running(demo, "run", "--handlers", "handlers"), _served(demo), sync_playwright() as play:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, address, theme in SCREENSHOTS:
            page = browser.new_page(viewport=SIZE, color_scheme=theme, device_scale_factor=SCALE)
            page.goto(address)
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()
    store()


@contextmanager
def _served(demo: Path) -> Iterator[None]:
    with _running(demo, "serve", "--anonymous", "--port", "8081"):
        until = time.monotonic() + PATIENCE
        while not _responds() and time.monotonic() < until:
            time.sleep(0.2)
        yield


def _responds() -> bool:
    try:
        with urlopen(ADDRESS):
            return True
    except URLError:
        return False


@contextmanager
def _running(demo: Path, *arguments: str) -> Iterator[None]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "examples")}
    environment.pop("TENANTCRON_DATABASE_URL", None)
    command = [COMMAND, *arguments]
    with subprocess.Popen(command, cwd=demo, env=environment) as process:  # noqa: S603 -- our own
        try:
            yield
        finally:
            process.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
