"""Health findings about the tenant source."""

from collections.abc import Iterator

from tenantcron.core.durations import format_duration
from tenantcron.core.words import number_of
from tenantcron.scheduler.inspect.cluster_status import ClusterStatus, SourceStatus
from tenantcron.scheduler.inspect.findings import Finding, FindingSeverity
from tenantcron.store.rows.tenant_sources import SOURCE_ITSELF


def source_findings(status: ClusterStatus) -> Iterator[Finding]:
    """Yield the findings about the source, its rows and its tenants."""
    for check in (_stale, _unreadable, _held, _bad_rows, _missing):
        yield from check(status)


def _stale(status: ClusterStatus) -> Iterator[Finding]:
    source = status.tenant_source
    if source is None or not source.row.is_stale(status.now):
        return
    age = format_duration(status.now - source.row.refreshed_at)
    yield Finding(
        "tenant-source-stale",
        FindingSeverity.ERROR,
        f"the tenant source ({source.row.name}) was last read {age} ago, so no execution starts"
        + _fault_of(source),
        "`tenantcron tenant refresh --check` shows what is wrong; if the platform no longer "
        "provides the tenants, `tenantcron tenant refresh --detach`",
    )


def _unreadable(status: ClusterStatus) -> Iterator[Finding]:
    source = status.tenant_source
    if source is None or source.row.is_stale(status.now) or not _fault_of(source):
        return
    left = format_duration(source.row.refreshed_at + source.row.max_age - status.now)
    yield Finding(
        "tenant-source-unreadable",
        FindingSeverity.WARNING,
        f"the tenant source ({source.row.name}) cannot be read, and executions stop starting in "
        f"{left}{_fault_of(source)}",
        "`tenantcron tenant refresh --check` shows what is wrong",
    )


def _fault_of(source: SourceStatus) -> str:
    problems = source.problems
    faults = (problem.problem for problem in problems if problem.tenant_id == SOURCE_ITSELF)
    return "".join(f": {fault}" for fault in faults)


def _held(status: ClusterStatus) -> Iterator[Finding]:
    source = status.tenant_source
    if source is not None and source.row.held:
        held = source.row.held
        yield Finding(
            "tenants-held",
            FindingSeverity.ERROR,
            f"{number_of(held, 'tenant')} disappeared from the tenant source or lost a valid "
            "status at once, and kept the previous status",
            "check that the source is complete; if it is, run `tenantcron tenant refresh "
            f"--max-missing {held}`",
            count=held,
        )


def _bad_rows(status: ClusterStatus) -> Iterator[Finding]:
    source = status.tenant_source
    problems = source.problems if source else ()
    rows = [problem for problem in problems if problem.tenant_id != SOURCE_ITSELF]
    if source is not None and rows:
        yield Finding(
            "tenant-source-rows",
            FindingSeverity.WARNING,
            f"{number_of(source.row.problems, 'problem')} in the rows of the tenant source; the "
            f"first: {rows[0].tenant_id}: {rows[0].problem}",
            "`tenantcron tenant refresh --check` lists them; fix them in the platform's registry",
            tuple(dict.fromkeys(row.tenant_id for row in rows)),
            source.row.problems,
        )


def _missing(status: ClusterStatus) -> Iterator[Finding]:
    source = status.tenant_source
    if source is not None and source.missing:
        yield Finding(
            "tenants-missing",
            FindingSeverity.WARNING,
            f"{number_of(source.missing_number, 'tenant')} missing from the tenant source, and "
            "suspended",
            "`tenantcron tenant show` shows since when; if it is gone for good, `tenantcron tenant "
            "deprovision`",
            source.missing,
            source.missing_number,
        )
