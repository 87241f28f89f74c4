"""API tokens as JSON; the keys are stable."""

from tenantcron.service.responses.executions import iso
from tenantcron.service.responses.platform_shapes import TokenResponse
from tenantcron.store.rows.api_tokens import TokenRow


def token_as_json(row: TokenRow) -> TokenResponse:
    """Return a token without its secret."""
    return {
        "id": row.id,
        "name": row.name,
        "role": row.grant.role.value,
        "tenant": row.grant.tenant,
        "created_by": row.created_by,
        "created_at": row.created_at.isoformat(),
        "expires_at": row.expires_at.isoformat(),
        "revoked_at": iso(row.revoked_at),
    }
