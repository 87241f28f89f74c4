"""Audits in a server: bounded in time and number, and outside the event loop.

An audit reads every schedule and computes its occurrences, which takes CPU time that other requests
need. So it runs in a thread with its own event loop and connection, a process runs few at a time
(`audit_slots`), and its work on the database must end within `api_timeout`.
"""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy.exc import DBAPIError

from tenantcron.core.durations import format_duration
from tenantcron.core.names import TenantId
from tenantcron.scheduler.inspect.audit import AuditReport, audit
from tenantcron.service.problems import ApiProblem, is_timeout
from tenantcron.service.work import Work
from tenantcron.store.connection.deadlines import BudgetSpentError
from tenantcron.store.connection.engine import Database, lone_database
from tenantcron.store.connection.errors import DatabaseAwayError


async def bounded_audit(work: Work, tenant: TenantId | None, since: datetime | None) -> AuditReport:
    """Audit what the caller sees; raise ApiProblem if that takes too long."""
    with work.service.audit_slots.take():
        try:
            return await asyncio.to_thread(
                _run, work.reading, work.settings.retention, tenant, since
            )
        except DatabaseAwayError as error:
            if isinstance(error.__cause__, BudgetSpentError):
                raise _too_long(work) from error
            raise
        except DBAPIError as error:
            if is_timeout(error):
                raise _too_long(work) from error
            raise


def _run(
    database: Database, retention: timedelta, tenant: TenantId | None, since: datetime | None
) -> AuditReport:
    """Audit in this thread. The context has the budget of the request."""

    async def work() -> AuditReport:
        async with lone_database(database.target) as own:
            same = replace(database, engine=own.engine)
            return await audit(same, retention, tenant=tenant, since=since)

    return asyncio.run(work())


def _too_long(work: Work) -> ApiProblem:
    limit = format_duration(work.settings.api_timeout)
    return ApiProblem(
        "TC722",
        f"the audit did not finish within {limit}: filter by `tenant`, use a later `since`, or run "
        "`tenantcron audit` on the database",
    )
