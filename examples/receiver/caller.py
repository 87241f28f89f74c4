"""A saga that calls the service with a token, and the execution id as idempotency key."""

import json
import os
from urllib.request import Request, urlopen

from tenantcron import Execution, saga

BILLING = os.environ.get("BILLING_URL", "http://127.0.0.1:8000")
AUDIENCE = "https://billing.internal"


@saga("charge")
def charge(execution: Execution) -> None:
    """Charge the tenant; a retry repeats the same charge and does not add a second one."""
    request = Request(  # noqa: S310 -- our own URL
        f"{BILLING}/tenants/{execution.tenant_id}/charges",
        data=json.dumps({"amount": 120}).encode(),
        headers={
            "Authorization": f"Bearer {execution.token_plain(AUDIENCE)}",
            "Content-Type": "application/json",
            "Idempotency-Key": str(execution.id),
        },
    )
    with urlopen(request, timeout=10) as response:  # noqa: S310 -- as above
        response.read()
