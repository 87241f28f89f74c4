"""How `plan` and `apply-manifest` report: on the terminal, to programs, and to the pipeline.

Each tenant is reported as soon as it is done. Kept to the end are numbers, and as much of the
pipeline's page as it may have.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import Progress

from tenantcron.cli.formats.outcomes_markdown import SummaryPage
from tenantcron.cli.formats.outcomes_text import is_worth_reading, tenant_lines, totals_line
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.tables import columns_available
from tenantcron.cli.terminal import Palette
from tenantcron.core.json_stream import JsonStream
from tenantcron.service.responses.shapes import OutcomesAnswer, Summary, TenantAnswer


class _ReportWriter(Protocol):
    """Writes a report to standard output."""

    def tenant(self, tenant: TenantAnswer, *, is_shown: bool) -> None:
        """Write one tenant."""

    def end(self, summary: Summary, *, is_applied: bool) -> None:
        """Write the totals."""


class OutcomeReport:
    """Reports what became of a fleet, tenant by tenant.

    A reader that leaves early, such as head, ends the report and never the work.
    """

    def __init__(self, title: str, output_format: str) -> None:
        self._format = output_format
        self._page = SummaryPage(title)
        self._statuses: set[str] = set()
        self._writer: _ReportWriter | None = None
        self._fleet = 0

    @property
    def is_json(self) -> bool:
        """Whether it is for programs."""
        return self._format == "json"

    @property
    def any_failed(self) -> bool:
        """Whether any tenant was refused."""
        return "failed" in self._statuses

    @property
    def any_planned(self) -> bool:
        """Whether there is anything to change."""
        return "planned" in self._statuses

    def begin(self, at: datetime, fleet: int) -> None:
        """Begin a report on so many tenants, whose next executions count from that time."""
        self._fleet = fleet
        with reader_may_leave():
            self._writer = _JsonReport(at) if self.is_json else _TextReport(at)

    def add(self, tenant: TenantAnswer) -> None:
        """Report one tenant."""
        self._statuses.add(tenant["status"])
        is_shown = is_worth_reading(tenant, self._fleet)
        if self._writer is not None:
            with reader_may_leave():
                self._writer.tenant(tenant, is_shown=is_shown)
        if is_shown:
            self._page.add(tenant)

    def end(self, summary: Summary) -> None:
        """Report the totals."""
        if self._writer is not None:
            with reader_may_leave():
                self._writer.end(summary, is_applied="applied" in self._statuses)
        self._tell_pipeline(summary)

    def all(self, answer: OutcomesAnswer) -> None:
        """Report an answer that is complete."""
        self.begin(datetime.fromisoformat(answer["at"]), len(answer["tenants"]))
        for tenant in answer["tenants"]:
            self.add(tenant)
        self.end(answer["summary"])

    def _tell_pipeline(self, summary: Summary) -> None:
        file = os.environ.get("GITHUB_STEP_SUMMARY")
        if not file:
            return
        try:
            with Path(file).open("a", encoding="utf-8") as stream:
                stream.write(self._page.text(summary))
        except OSError as error:
            # What was to be done is done; a page that cannot be written must not fail the pipeline.
            print(f"warning: {file}: {error.strerror}", file=sys.stderr)


class _TextReport:
    """Writes for people."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._paint = Palette(sys.stdout)
        self._columns = columns_available()

    def tenant(self, tenant: TenantAnswer, *, is_shown: bool) -> None:
        if is_shown:
            for line in tenant_lines(tenant, self._at, self._paint, self._columns):
                print(line)

    def end(self, summary: Summary, *, is_applied: bool) -> None:
        print(self._paint("strong", totals_line(summary, is_applied=is_applied)))


class _JsonReport:
    """Writes for programs: every tenant, shown or not."""

    def __init__(self, at: datetime) -> None:
        self._stream = JsonStream(sys.stdout)
        self._stream.value("at", at.isoformat())
        self._stream.open_list("tenants")

    def tenant(self, tenant: TenantAnswer, *, is_shown: bool) -> None:  # noqa: ARG002 -- see above
        self._stream.item(tenant)

    def end(self, summary: Summary, *, is_applied: bool) -> None:  # noqa: ARG002 -- people's words
        self._stream.close_list()
        self._stream.value("summary", summary)
        self._stream.close()
        print()


@contextmanager
def progress(title: str, total: int, *, is_hidden: bool = False) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal while many tenants are worked on."""
    console = Console(stderr=True)
    with Progress(
        console=console,
        transient=True,
        disable=is_hidden or not console.is_terminal,
        # What is printed meanwhile stands above the bar, if both go to the terminal.
        redirect_stdout=sys.stdout.isatty(),
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
