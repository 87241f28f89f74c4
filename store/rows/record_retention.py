"""Forgets old audit records and manifest versions, by functions with the rights of their owner.

Which records may go is decided by the database: see the migration `0013_record_retention`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId

# Each schema adds about six locks to the transaction.
TENANTS_A_TRANSACTION = 50
# Of each tenant, and of the control schema.
ROWS_A_TRANSACTION = 1_000
_BEFORE_ALL = TenantId("")

_OF_CONTROL = "SELECT tenantcron.forget_audit_records('tenantcron', %(age)s, %(most)s)"
# The functions are called for the tenants of the batch only, in order of their ids.
_OF_TENANTS = """
SELECT
    batch.id,
    tenantcron.forget_audit_records(batch.schema_name, %(age)s, %(most)s),
    tenantcron.forget_manifest_versions(batch.id, %(versions)s, %(most)s)
FROM (
    SELECT id, schema_name FROM tenantcron.tenant WHERE id > %(after)s ORDER BY id LIMIT %(tenants)s
) AS batch
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept: audit records for a time, and a number of each tenant's manifest versions."""

    audit: timedelta
    versions: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten of some tenants, or of the control schema."""

    audit_records: int = 0
    manifest_versions: int = 0
    # Where the next batch begins: after this tenant; None: there are no more tenants.
    last: TenantId | None = None
    # Some have more that is old.
    is_partial: bool = False


async def forget_of_control(connection: AsyncConnection, kept: Kept) -> Forgotten:
    """Forget old records of the control schema, a batch of them."""
    values = {"age": kept.audit, "most": ROWS_A_TRANSACTION}
    number: int = (await connection.exec_driver_sql(_OF_CONTROL, values)).scalar_one()
    return Forgotten(number, last=_BEFORE_ALL, is_partial=number == ROWS_A_TRANSACTION)


async def forget_of_tenants(connection: AsyncConnection, after: TenantId, kept: Kept) -> Forgotten:
    """Forget what is old of the tenants after an id, of each a batch."""
    values = {
        "after": after,
        "age": kept.audit,
        "versions": kept.versions,
        "most": ROWS_A_TRANSACTION,
        "tenants": TENANTS_A_TRANSACTION,
    }
    found = await connection.exec_driver_sql(_OF_TENANTS, values)
    rows: Sequence[Sequence[Any]] = found.all()
    return Forgotten(
        sum(records for _, records, _ in rows),
        sum(versions for _, _, versions in rows),
        max((tenant for tenant, _, _ in rows), default=None),
        any(ROWS_A_TRANSACTION in (records, versions) for _, records, versions in rows),
    )
