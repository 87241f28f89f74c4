"""`tenantcron history`: shows the audit trail of a tenant or a schedule."""

import argparse
from contextlib import aclosing

from rich.console import Console
from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.cli.columns import Column, Fit
from tenantcron.cli.formats.schedules_text import change_in_words
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import (
    CommandResult,
    add_format,
    add_tenant,
    past,
    resolved,
    respond,
    scope,
)
from tenantcron.cli.tables import print_table
from tenantcron.core.errors import UsageError
from tenantcron.core.words import in_utc
from tenantcron.scheduler.inspect.schedule_status import (
    ScheduleRef,
    existing_tenant,
    require_schedule,
)
from tenantcron.service.responses.records import record_as_json
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import audit_records
from tenantcron.store.rows.audit_records import AuditFilter, AuditRow
from tenantcron.store.rows.tenants import TenantRow
from tenantcron.store.schema import tenant_objects

_EXAMPLES = """\
examples:
  tenantcron history acme                        all changes of a tenant, newest first
  tenantcron history acme/nightly                changes, pauses and resumptions of a schedule
  tenantcron history acme --since 1d --limit 100 --format json
"""
_COLUMNS = (
    Column("when"),
    Column("entity", Fit.NAME),
    Column("change", Fit.PROSE),
    Column("by", Fit.NAME),
    Column("source", Fit.OPTIONAL),
)
_MOST = 1_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Show the audit trail of a tenant or a schedule, newest first."
    parser.epilog = _EXAMPLES
    add_tenant(parser, may_name_schedule=True)
    words = "changed at or after TIME, such as 1h or 18:00"
    parser.add_argument("--since", metavar="TIME", type=past, help=words)
    parser.add_argument(
        "--limit", metavar="N", type=number(1, _MOST), default=20, help="show at most N (20)"
    )
    add_format(parser, has_table=True)
    parser.set_defaults(run=respond, work=_work)


async def _work(database: Database, arguments: argparse.Namespace) -> CommandResult:
    tenant, schedule = scope(arguments)
    if tenant is None:
        raise UsageError("name a tenant or a schedule, such as acme or acme/nightly")
    filters = AuditFilter(since=await resolved(database, arguments.since))
    async with database.transaction() as connection:
        row = await existing_tenant(connection, tenant)
        if schedule is None:
            records = await _of_tenant(connection, row, filters, arguments.limit)
        else:
            ref = ScheduleRef(tenant, schedule)
            records = await _of_schedule(connection, row, ref, filters, arguments.limit)

    def show(console: Console) -> None:
        if records:
            print_table(console, _COLUMNS, [_cells(record) for record in records])
        else:
            console.print("no changes")

    return CommandResult({"audit_records": [record_as_json(record) for record in records]}, show)


async def _of_tenant(
    connection: AsyncConnection, tenant: TenantRow, filters: AuditFilter, limit: int
) -> list[AuditRow]:
    schema = await _schema(connection, tenant)
    rows = audit_records.page(connection, tenant.id, schema, filters, before=None, limit=limit)
    async with aclosing(rows):
        return [row async for row in rows]


async def _of_schedule(
    connection: AsyncConnection,
    tenant: TenantRow,
    ref: ScheduleRef,
    filters: AuditFilter,
    limit: int,
) -> list[AuditRow]:
    schema = await _schema(connection, tenant)
    found = await audit_records.of_schedule(
        connection, tenant.id, schema, ref.schedule, limit=limit
    )
    if not found:  # a deleted schedule still has its records; one that never existed is a typo
        await require_schedule(connection, ref)
    return [row for row in found if filters.since is None or row.changed_at >= filters.since]


async def _schema(connection: AsyncConnection, tenant: TenantRow) -> str | None:
    """Return the tenant's schema; None if its tables are dropped."""
    is_kept = await tenant_objects.has_tenant_tables(connection, tenant.schema_name)
    return tenant.schema_name if is_kept else None


def _cells(row: AuditRow) -> tuple[str, ...]:
    entity = f"{row.entity_type} {row.entity_id}"
    return in_utc(row.changed_at), entity, change_in_words(row), row.changed_by, row.actor_source
