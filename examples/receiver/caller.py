"""A saga that calls the service: a token where it is used, and the execution's id as key."""

import json
import os
from urllib.request import Request, urlopen

from tenantcron import Execution, saga

BILLING = os.environ.get("BILLING_URL", "http://127.0.0.1:8000")
AUDIENCE = "https://billing.internal"


@saga("charge")
def charge(execution: Execution) -> None:
    """Charge the tenant; another attempt is the same charge, not a second one."""
    request = Request(  # noqa: S310 -- the address is ours
        f"{BILLING}/tenants/{execution.tenant_id}/charges",
        data=json.dumps({"amount": 120}).encode(),
        headers={
            "Authorization": f"Bearer {execution.token_plain(AUDIENCE)}",
            "Content-Type": "application/json",
            "Idempotency-Key": str(execution.id),
        },
    )
    with urlopen(request, timeout=10) as answer:  # noqa: S310 -- as above
        answer.read()
