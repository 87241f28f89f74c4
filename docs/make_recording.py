"""Record the sixty seconds of the README: `make recording`. It needs tmux.

The commands run for real in two terminals of tmux, which also serves as the terminal emulator. The
script types, polls what the terminals show, and keeps each picture that differs from the last one.
The result is an asciicast, for players, and an animated SVG, for the README. Waits are cut to
`LONGEST_WAIT`, so the recording is shorter than the run; the script prints how long that took.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from terminal_svg import animated_svg

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
NAME = "sixty-seconds"
COLUMNS, UPPER, LOWER = 80, 22, 11
SOCKET = "tenantcron-recording"
PATIENCE = 120.0
LONGEST_WAIT = 1.5
LAST_PICTURE = 4.0
READING = 2.0
POLL = 0.05
TYPING = 0.03
SEPARATOR = "\x1b[90m" + "─" * COLUMNS + "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Frame:
    """What the terminals show from a moment on, in seconds of the recording."""

    at: float
    lines: tuple[str, ...]


@dataclass(slots=True)
class Recorder:
    """Types into the two terminals and collects their pictures."""

    frames: list[Frame] = field(default_factory=list)
    _at: float = 0.0
    _last: float = field(default_factory=time.monotonic)

    def type(self, pane: int, text: str) -> None:
        """Type a command as a person does, and send it."""
        for character in text:
            _tmux("send-keys", "-t", f"r.{pane}", "-l", character)
            time.sleep(TYPING)
            self.look()
        self.press(pane, "Enter")

    def press(self, pane: int, key: str) -> None:
        """Press one key."""
        _tmux("send-keys", "-t", f"r.{pane}", key)
        self.look()

    def until(self, pane: int, text: str) -> None:
        """Wait until a terminal shows a text."""
        patience = time.monotonic() + PATIENCE
        while text not in _shown(pane):
            if time.monotonic() > patience:
                raise SystemExit(f"{text!r} did not appear:\n{_shown(pane)}")
            time.sleep(POLL)
            self.look()
        self.look()

    def hold(self, seconds: float) -> None:
        """Show the current picture for longer, so that it can be read."""
        self._at += seconds

    def look(self) -> None:
        """Keep the picture if it differs; shorten the wait before it."""
        upper, lower = (_lines(pane) for pane in (0, 1))
        lines = (*_fitted(upper, UPPER), SEPARATOR, *_fitted(lower, LOWER))
        now = time.monotonic()
        if self.frames and self.frames[-1].lines == lines:
            return
        self._at += min(now - self._last, LONGEST_WAIT) if self.frames else 0.0
        self._last = now
        self.frames.append(Frame(round(self._at, 2), lines))


def _tmux(*arguments: str) -> str:
    command = ["tmux", "-L", SOCKET, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 -- constants


def _shown(pane: int) -> str:
    return _tmux("capture-pane", "-p", "-t", f"r.{pane}")


def _lines(pane: int) -> list[str]:
    """Return the lines with their colours, without empty ones at the end."""
    return _tmux("capture-pane", "-p", "-e", "-t", f"r.{pane}").rstrip().splitlines()


def _fitted(lines: list[str], rows: int) -> list[str]:
    return [line.rstrip() for line in lines[-rows:]] + [""] * (rows - len(lines))


def record(folder: Path) -> list[Frame]:
    """Run the commands of the README in a new folder."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PS1": "$ ",
        "TERM": "xterm-256color",
    }
    shell = ["env", "-i", *(f"{key}={value}" for key, value in environment.items()), "sh"]
    size = ("-x", str(COLUMNS), "-y", str(UPPER + LOWER + 1))
    _tmux("-f", "/dev/null", "new-session", "-d", "-s", "r", *size, "-c", str(folder), *shell)
    _tmux("set-option", "-g", "status", "off")
    _tmux("split-window", "-v", "-l", str(LOWER), "-t", "r", "-c", str(folder), *shell)
    recorder = Recorder()
    try:
        recorder.until(0, "$")
        recorder.type(0, "tenantcron init shop && cd shop")
        recorder.until(0, "run it in a second terminal")
        recorder.hold(READING)
        recorder.type(0, "clear && tenantcron dev")
        recorder.until(0, "Dashboard")
        recorder.until(0, "The scheduler is running")
        recorder.type(1, "cd shop && clear")
        recorder.type(1, "tenantcron schedule trigger acme/say_hello --wait")
        recorder.until(0, "succeeded")
        recorder.until(1, "SUCCEEDED, at")
        recorder.hold(READING)
        recorder.press(0, "C-c")
        recorder.until(0, "Stopped.")
        recorder.until(0, "stops it.")
        _tmux("send-keys", "-t", "r.0", "tenantcron dev --stop", "Enter")
        Recorder().until(0, "is stopped")
    finally:
        _tmux("kill-server")
    return recorder.frames


def asciicast(frames: list[Frame]) -> str:
    """Return the frames in the format of asciinema, version 2: the changed lines of each."""
    rows = UPPER + LOWER + 1
    header = {"version": 2, "width": COLUMNS, "height": rows, "title": "tenantcron"}
    events: list[object] = [header, [0.0, "o", "\x1b[2J\x1b[?25l"]]
    before: tuple[str, ...] = ("",) * rows
    for frame in frames:
        changed = "".join(
            f"\x1b[{row};1H\x1b[2K{line}\x1b[0m"
            for row, (old, line) in enumerate(zip(before, frame.lines, strict=True), 1)
            if old != line
        )
        events.append([frame.at, "o", changed])
        before = frame.lines
    return "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in events)


def main() -> None:
    """Record, and write both files."""
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tenantcron-recording-"))
    try:
        frames = record(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    IMAGES.joinpath(f"{NAME}.cast").write_text(asciicast(frames), encoding="utf-8")
    pictures = [(frame.at, frame.lines) for frame in frames]
    svg = animated_svg(pictures, COLUMNS, LAST_PICTURE)
    IMAGES.joinpath(f"{NAME}.svg").write_text(svg, encoding="utf-8")
    took = time.monotonic() - started
    print(f"{len(frames)} pictures, {frames[-1].at:.0f} s; the run took {took:.0f} s")


if __name__ == "__main__":
    main()
