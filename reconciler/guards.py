"""Checks that a plan must pass before it is applied."""

from tenantcron.core.names import TenantId
from tenantcron.reconciler.diff import Action, ScheduleDiff
from tenantcron.reconciler.refusals import RefusedError
from tenantcron.store.rows.tenants import TenantRow, TenantStatus

ALWAYS_ALLOWED_DELETES = 5


def guard_tenant(tenant_id: TenantId, tenant: TenantRow | None) -> TenantRow:
    """Refuse tenants that do not exist or are deprovisioned."""
    if tenant is None:
        message = f"tenant `{tenant_id}` does not exist"
        hint = f"run `tenantcron tenant create {tenant_id}` or apply with --create-tenants"
        raise RefusedError("TC601", f"{message}: {hint}")
    if tenant.status is TenantStatus.DEPROVISIONED:
        raise RefusedError("TC602", f"tenant `{tenant_id}` has been deprovisioned")
    return tenant


def guard_cap(number: int, tenant: TenantRow | None) -> None:
    """Refuse more schedules than the cap of the tenant; the check applied the policy's cap."""
    cap = tenant.max_schedules if tenant else None
    if cap is not None and number > cap:
        raise RefusedError(
            "TC607", f"the manifest has {number} schedules, the tenant's cap is {cap}"
        )


def guard_deletes(difference: ScheduleDiff, live: int, max_deletes: int | None) -> None:
    """Refuse to delete more schedules than allowed, by default half of the tenant's."""
    deleted = [change.schedule for change in difference.of(Action.DELETE)]
    allowed = max(ALWAYS_ALLOWED_DELETES, live // 2) if max_deletes is None else max_deletes
    if len(deleted) > allowed:
        message = f"{len(deleted)} of {live} schedules would be deleted, the limit is {allowed}"
        hint = f"if that is intended, apply with --max-deletes {len(deleted)}"
        raise RefusedError("TC603", f"{message}: {', '.join(deleted)}; {hint}")


def guard_revision(expected: int | None, actual: int | None) -> None:
    """Refuse a plan that was made from another revision."""
    if expected != actual:
        message = f"the plan was made for {_at(expected)}, now there is {_at(actual)}"
        raise RefusedError("TC604", f"{message}: plan again")


def guard_reviewed(expected: str | None, actual: str) -> None:
    """Refuse a plan whose manifest no longer results in the reviewed schedules."""
    if expected is not None and expected != actual:
        message = (
            "with the current policy, the manifest in the plan has other schedules than reviewed"
        )
        raise RefusedError("TC604", f"{message}: plan again")


def _at(revision: int | None) -> str:
    return "no such tenant" if revision is None else f"the tenant at revision {revision}"
