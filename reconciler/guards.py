"""Small checks that stand between a plan and the database."""

from tenantcron.core.names import TenantId
from tenantcron.reconciler.diff import Action, ScheduleDiff
from tenantcron.reconciler.refusals import RefusedError
from tenantcron.store.rows.tenants import TenantRow, TenantStatus

ALWAYS_ALLOWED_DELETES = 5


def guard_tenant(tenant_id: TenantId, tenant: TenantRow | None) -> TenantRow:
    """Refuse tenants that do not exist or are gone."""
    if tenant is None:
        message = f"tenant `{tenant_id}` does not exist"
        hint = f"run `tenantcron tenant create {tenant_id}` or apply with --create-tenants"
        raise RefusedError("TC601", f"{message}: {hint}")
    if tenant.status is TenantStatus.DEPROVISIONED:
        raise RefusedError("TC602", f"tenant `{tenant_id}` has been deprovisioned")
    return tenant


def guard_cap(number: int, tenant: TenantRow | None) -> None:
    """Refuse more schedules than the tenant's own cap; the policy's was judged before."""
    cap = tenant.max_schedules if tenant else None
    if cap is not None and number > cap:
        raise RefusedError("TC607", f"{number} schedules are wanted, the tenant's cap is {cap}")


def guard_deletes(difference: ScheduleDiff, live: int, max_deletes: int | None) -> None:
    """Refuse to delete more than half of a tenant's schedules, or more than was allowed."""
    doomed = [change.schedule for change in difference.of(Action.DELETE)]
    allowed = max(ALWAYS_ALLOWED_DELETES, live // 2) if max_deletes is None else max_deletes
    if len(doomed) > allowed:
        message = f"{len(doomed)} of {live} schedules would be deleted, {allowed} may be"
        hint = f"if that is meant, apply with --max-deletes {len(doomed)}"
        raise RefusedError("TC603", f"{message}: {', '.join(doomed)}; {hint}")


def guard_revision(expected: int | None, actual: int | None) -> None:
    """Refuse a plan that was made from another state."""
    if expected != actual:
        message = f"the plan was made for {_at(expected)}, there is {_at(actual)} now"
        raise RefusedError("TC604", f"{message}: plan again")


def guard_reviewed(expected: str | None, actual: str) -> None:
    """Refuse a plan whose manifest comes to other schedules than those that were reviewed."""
    if expected is not None and expected != actual:
        message = (
            "by the policy of now the manifest in the plan means other schedules than reviewed"
        )
        raise RefusedError("TC604", f"{message}: plan again")


def _at(revision: int | None) -> str:
    return "no such tenant" if revision is None else f"the tenant at revision {revision}"
