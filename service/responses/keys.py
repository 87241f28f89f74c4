"""Keys that sign execution tokens as JSON; the keys of the JSON are stable."""

from collections.abc import Sequence

from tenantcron.actor.keys import PemKeys
from tenantcron.scheduler.tokens.signing_keys import KeyStatus
from tenantcron.service.responses.executions import iso
from tenantcron.service.responses.platform_shapes import SigningKeyList, SigningKeyResponse


def key_as_json(key: KeyStatus) -> SigningKeyResponse:
    """Return a key without its private part."""
    row = key.row
    return {
        "kid": row.kid,
        "algorithm": row.algorithm,
        "state": key.state.value,
        "until": iso(key.until),
        "created_at": row.created_at.isoformat(),
        "active_from": row.active_from.isoformat(),
        "retired_at": iso(row.retired_at),
        "sealed_by": row.sealed.sealed_by if row.sealed else None,
    }


def keys_as_json(own: PemKeys | None, known: Sequence[KeyStatus]) -> SigningKeyList:
    """Return the keys of the database, and the ids of those in the settings."""
    configured = [] if own is None else [key.kid for key in own.published]
    return {"configured": configured, "keys": [key_as_json(key) for key in known]}
