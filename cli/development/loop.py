"""The loop of `tenantcron dev`.

It applies the manifests to the embedded database, starts a scheduler and a server as child
processes, shows what happens, and reacts to edits: changed manifests are applied, changed handlers
restart the scheduler, a changed tenantcron.toml does both and restarts the server.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from tenantcron.cli.contexts.context import EMBEDDED
from tenantcron.cli.development.children import ChildProcess, OutputLine
from tenantcron.cli.development.event_lines import (
    SCHEDULER_STARTED,
    SERVER_STARTED,
    EventLines,
    event_of,
)
from tenantcron.cli.development.project_files import Change, WatchedFiles
from tenantcron.cli.tables import output
from tenantcron.core.durations import format_duration
from tenantcron.core.settings import Settings

HOST = "127.0.0.1"
_POLL_SECONDS = 0.5
# Time for running executions after Ctrl-C or an edit, unless the settings define it.
_DRAIN = "5s"
# The commands of `dev` never use the cluster of the environment or of the current context.
_CLUSTER = {"TENANTCRON_CONTEXT": EMBEDDED, "TENANTCRON_SERVER": ""}


@dataclass(frozen=True, slots=True)
class Project:
    """What `dev` runs."""

    folder: Path
    settings: Settings
    manifests: tuple[str, ...]
    handlers: tuple[str, ...]


@dataclass(slots=True)
class Development:
    """The loop of `dev`."""

    project: Project
    port: int
    lines: "SimpleQueue[OutputLine]" = field(default_factory=SimpleQueue)
    events: EventLines = field(default_factory=EventLines)
    # Signals received: the first one stops, the second one stops at once.
    _signals: int = 0
    _is_ready: bool = False
    _children: tuple[ChildProcess, ...] = ()

    def run(self) -> int:
        """Apply, start, and react until a signal or until the server ends."""
        files = WatchedFiles(self.project.folder, tuple(map(Path, self.project.manifests)))
        self._children = scheduler, server = self._declared_children()
        with self._counting_signals():
            print("Starting the database. The first start takes a few seconds.", flush=True)
            self._apply()
            if not self._signals:
                scheduler.start()
                server.start()
            while not self._signals and server.exit_code() is None:
                self._show_output(_POLL_SECONDS)
                self._report_exit(scheduler)
                self._react(files.changes(), scheduler, server)
            has_failed = not self._signals
            self._stop()
        print(f"Stopped. {self.events.summary()}.")
        self._mention_database()
        return int(has_failed)

    def _declared_children(self) -> tuple[ChildProcess, ChildProcess]:
        variables = {**_CLUSTER, "TENANTCRON_LOG_FORMAT": "json", "PYTHONUNBUFFERED": "1"}
        if self.project.settings.drain == Settings(folder=self.project.folder).drain:
            variables["TENANTCRON_DRAIN"] = _DRAIN
        modules = [part for module in self.project.handlers for part in ("--handlers", module)]
        serve = ("serve", "--anonymous", "--port", str(self.port))
        folder = self.project.folder
        return (
            ChildProcess("scheduler", ("run", *modules), folder, variables, self.lines),
            ChildProcess("server", serve, folder, variables, self.lines),
        )

    def _apply(self) -> None:
        """Apply the manifests; its errors are for the user, who edits the file again."""
        command = ("apply-manifest", *self.project.manifests, "--create-tenants")
        subprocess.run(  # noqa: S603 -- our own command
            [sys.executable, "-m", "tenantcron", *command],
            check=False,
            cwd=self.project.folder,
            env={**os.environ, **_CLUSTER},
        )
        print(flush=True)

    def _show_output(self, seconds: float) -> None:
        """Show the output of the children for this long."""
        console = output()
        try:
            while True:
                received = self.lines.get(timeout=seconds)
                seconds = 0.01
                self._greet(received)
                line = self.events.line(received)
                if line is not None:
                    console.print(line)
        except Empty:
            return

    def _greet(self, received: OutputLine) -> None:
        event = event_of(received) or {}
        if event.get("event") == SERVER_STARTED and not self._is_ready:
            self._is_ready = True
            print(f"Dashboard  http://{HOST}:{self.port}/ui")
            print("Edit the manifests or the handlers at any time. Ctrl-C ends it.\n", flush=True)
        if event.get("event") == SCHEDULER_STARTED:
            print("The scheduler is running.", flush=True)

    def _report_exit(self, scheduler: ChildProcess) -> None:
        code = scheduler.exit_code()
        if code is not None:
            scheduler.finish()
            self._show_output(0.01)
            print(f"The scheduler has ended (exit code {code}). Edit the handlers to restart it.")

    def _react(self, changes: set[Change], scheduler: ChildProcess, server: ChildProcess) -> None:
        if changes & {Change.MANIFESTS, Change.CONFIGURATION}:
            print("\nThe manifests have changed.")
            self._apply()
        if changes & {Change.HANDLERS, Change.CONFIGURATION}:
            print("The code has changed: the scheduler restarts.", flush=True)
            self._restart(scheduler)
        if Change.CONFIGURATION in changes:
            self._restart(server)

    def _restart(self, child: ChildProcess) -> None:
        child.request_stop()
        child.finish()
        if not self._signals:
            child.start()

    def _stop(self) -> None:
        for child in self._children:
            child.request_stop()
        for child in self._children:
            child.finish()
        self._show_output(0.01)

    def _mention_database(self) -> None:
        linger = self.project.settings.embedded_linger
        if linger:
            print(
                f"The database keeps running for {format_duration(linger)}; "
                "`tenantcron dev --stop` stops it."
            )

    @contextmanager
    def _counting_signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._count) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _count(self, *_: object) -> None:
        self._signals += 1
        if self._signals > 1:
            for child in self._children:
                child.request_stop()
