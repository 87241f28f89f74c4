"""Delete old audit records and manifest versions, with SECURITY DEFINER functions.

The database decides which records may be deleted: see the migration `0013_record_retention`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from tenantcron.core.names import TenantId

# Each schema adds about six locks to the transaction.
TENANTS_A_TRANSACTION = 50
# For each tenant, and for the control schema.
ROWS_A_TRANSACTION = 1_000
_BEFORE_ALL = TenantId("")

_OF_CONTROL = "SELECT tenantcron.forget_audit_records('tenantcron', %(age)s, %(most)s)"
# The functions are called only for the tenants of the batch, in the order of their ids.
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
    """The retention of audit records, and how many manifest versions of a tenant are kept."""

    audit: timedelta
    versions: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The deleted records of some tenants, or of the control schema."""

    audit_records: int = 0
    manifest_versions: int = 0
    # The next batch begins after this tenant; None: there are no more tenants.
    last: TenantId | None = None
    # There are more old records.
    is_partial: bool = False


async def forget_of_control(connection: AsyncConnection, kept: Kept) -> Forgotten:
    """Delete a batch of old records of the control schema."""
    values = {"age": kept.audit, "most": ROWS_A_TRANSACTION}
    number: int = (await connection.exec_driver_sql(_OF_CONTROL, values)).scalar_one()
    return Forgotten(number, last=_BEFORE_ALL, is_partial=number == ROWS_A_TRANSACTION)


async def forget_of_tenants(connection: AsyncConnection, after: TenantId, kept: Kept) -> Forgotten:
    """Delete a batch of old records of each of the next tenants after an id."""
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
