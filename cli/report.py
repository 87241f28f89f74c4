"""Reports of `plan` and `apply-manifest`: as text, as JSON, and as a pipeline's job summary.

Each tenant is reported as soon as it is done. Only the totals and the job summary, which has a
maximum size, are kept until the end.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import Progress

from tenantcron.cli.formats.listings import YamlListing
from tenantcron.cli.formats.outcomes_markdown import SummaryPage
from tenantcron.cli.formats.outcomes_text import (
    is_small,
    is_worth_reading,
    tenant_lines,
    totals_line,
)
from tenantcron.cli.formats.policies_text import policy_lines
from tenantcron.cli.pipes import reader_may_leave
from tenantcron.cli.tables import columns_available
from tenantcron.cli.terminal import Palette
from tenantcron.core.json_stream import JsonStream
from tenantcron.core.words import number_of
from tenantcron.service.responses.shapes import (
    ManifestResultResponse,
    PolicyResponse,
    Summary,
    TenantResultResponse,
)

# Of a large fleet, this many failed tenants are shown again at the end.
_REPEATED = 20


class _ReportWriter(Protocol):
    """Writes a report to standard output."""

    def tenant(self, tenant: TenantResultResponse, *, is_shown: bool) -> None:
        """Write a tenant."""

    def end(self, summary: Summary, *, is_applied: bool) -> None:
        """Write the totals."""


class OutcomeReport:
    """Reports the outcome of a fleet, tenant by tenant.

    If a reader such as head closes the pipe, the report ends but the work continues.
    """

    def __init__(
        self, title: str, output_format: str, *, is_wide: bool = False, has_sources: bool = True
    ) -> None:
        self._format = output_format
        self._columns = columns_available(is_wide=is_wide)
        # A saved plan contains its manifests; the files may have changed since.
        self._has_sources = has_sources
        self._page = SummaryPage(title)
        self._statuses: set[str] = set()
        self._writer: _ReportWriter | None = None
        self._policies: Sequence[PolicyResponse] = ()
        self._fleet = 0
        self._finished = 0
        # Applied, but not printed yet: tenants are printed in order. With the time of the result.
        self._unprinted: dict[str | None, tuple[datetime, TenantResultResponse]] = {}

    @property
    def is_for_programs(self) -> bool:
        """Whether the output is JSON or YAML."""
        return self._format != "text"

    @property
    def any_failed(self) -> bool:
        """Whether any tenant was refused."""
        return "failed" in self._statuses

    @property
    def any_planned(self) -> bool:
        """Whether any tenant has changes to apply."""
        return "planned" in self._statuses

    def expect(self, fleet: int) -> None:
        """Set how many tenants an apply has, for the message of an interrupted one."""
        self._fleet = fleet

    def finished(self, at: datetime, tenant: TenantResultResponse) -> None:
        """Keep a tenant that is applied or needs no change until it is printed."""
        self._finished += 1
        self._unprinted[tenant["tenant"]] = at, tenant

    def interrupted(self) -> None:
        """Report the tenants that an interrupted apply has finished, and how far it came."""
        for at, tenant in list(self._unprinted.values()):
            if self._writer is None:
                self.begin(at, self._fleet)
            self.add(tenant)
        sys.stdout.flush()
        done = f"{self._finished} of {self._fleet} applied; " if self._fleet else ""
        print(f"Interrupted: {done}run it again to finish", file=sys.stderr)

    def checked_with(self, policies: Sequence[PolicyResponse]) -> None:
        """Set the policies that checked the manifests, before the report begins."""
        self._policies = policies

    def begin(self, at: datetime, fleet: int) -> None:
        """Begin a report on `fleet` tenants; next executions are computed from `at`."""
        self._fleet = fleet
        with reader_may_leave():
            self._writer = self._report(at)

    def _report(self, at: datetime) -> _ReportWriter:
        if self._format == "json":
            return _JsonReport(at, self._policies)
        if self._format == "yaml":
            return _YamlReport(at, self._policies)
        is_detailed = is_small(self._fleet)
        return _TextReport(
            at,
            self._columns,
            self._policies,
            is_detailed=is_detailed,
            has_sources=self._has_sources,
        )

    def add(self, tenant: TenantResultResponse) -> None:
        """Report a tenant."""
        self._unprinted.pop(tenant["tenant"], None)
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
        self._write_job_summary(summary)

    def all(self, answer: ManifestResultResponse) -> None:
        """Report a complete response."""
        self.checked_with(answer.get("policies", []))
        self.begin(datetime.fromisoformat(answer["at"]), len(answer["tenants"]))
        for tenant in answer["tenants"]:
            self.add(tenant)
        self.end(answer["summary"])

    def _write_job_summary(self, summary: Summary) -> None:
        file = os.environ.get("GITHUB_STEP_SUMMARY")
        if not file:
            return
        try:
            with Path(file).open("a", encoding="utf-8") as stream:
                stream.write(self._page.text(summary, self._policies))
        except OSError as error:
            # The work is done, so a summary that cannot be written must not fail the pipeline.
            print(f"warning: {file}: {error.strerror}", file=sys.stderr)


class _TextReport:
    """Writes text for people.

    In a large fleet a failed tenant takes few lines. At the end it is shown again, in full.
    """

    def __init__(
        self,
        at: datetime,
        columns: int,
        policies: Sequence[PolicyResponse],
        *,
        is_detailed: bool,
        has_sources: bool,
    ) -> None:
        self._at = at
        self._policies = policies
        self._paint = Palette(sys.stdout)
        self._columns = columns
        self._is_detailed = is_detailed
        self._has_sources = has_sources
        self._failed: list[TenantResultResponse] = []

    def tenant(self, tenant: TenantResultResponse, *, is_shown: bool) -> None:
        if tenant["status"] == "failed" and len(self._failed) < _REPEATED:
            self._failed.append(tenant)
        if is_shown:
            self._print(tenant, is_detailed=self._is_detailed)

    def _print(self, tenant: TenantResultResponse, *, is_detailed: bool) -> None:
        has_excerpts = is_detailed and self._has_sources
        for line in tenant_lines(
            tenant, self._at, self._paint, self._columns, has_excerpts=has_excerpts
        ):
            print(line)

    def end(self, summary: Summary, *, is_applied: bool) -> None:
        if not self._is_detailed and self._failed:
            print(self._paint("error", f"failed: {number_of(summary['failed'], 'tenant')}"))
            for tenant in self._failed:
                self._print(tenant, is_detailed=True)
        for line in policy_lines(self._policies):
            print(line)
        print(self._paint("strong", totals_line(summary, is_applied=is_applied)))


class _JsonReport:
    """Writes JSON for programs, with all tenants."""

    def __init__(self, at: datetime, policies: Sequence[PolicyResponse]) -> None:
        self._stream = JsonStream(sys.stdout)
        self._stream.value("at", at.isoformat())
        self._stream.value("policies", policies)
        self._stream.open_list("tenants")

    def tenant(self, tenant: TenantResultResponse, *, is_shown: bool) -> None:  # noqa: ARG002 -- see above
        self._stream.item(tenant)

    def end(self, summary: Summary, *, is_applied: bool) -> None:  # noqa: ARG002 -- only the text uses it
        self._stream.close_list()
        self._stream.value("summary", summary)
        self._stream.close()
        print()


class _YamlReport:
    """Writes the same document as YAML."""

    def __init__(self, at: datetime, policies: Sequence[PolicyResponse]) -> None:
        from tenantcron.cli.formats.yaml_text import as_yaml  # noqa: PLC0415 -- few need ruamel.yaml

        print(as_yaml({"at": at.isoformat(), "policies": policies}), end="")
        self._listing = YamlListing(sys.stdout, "tenants")

    def tenant(self, tenant: TenantResultResponse, *, is_shown: bool) -> None:  # noqa: ARG002 -- all tenants
        self._listing.item({**tenant})

    def end(self, summary: Summary, *, is_applied: bool) -> None:  # noqa: ARG002 -- only the text uses it
        self._listing.end({"summary": summary})


@contextmanager
def progress(title: str, total: int, *, is_hidden: bool = False) -> Iterator[Callable[[], None]]:
    """Show a progress bar if stderr is a terminal."""
    console = Console(stderr=True)
    with Progress(
        console=console,
        transient=True,
        disable=is_hidden or not console.is_terminal,
        # If stdout is a terminal too, print the output above the bar.
        redirect_stdout=sys.stdout.isatty(),
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
