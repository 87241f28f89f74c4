"""The built-in authoriser: it asks a policy service over HTTP, subject to the egress rules.

The service receives the request as JSON and answers 200 with `{"allowed": true}`, or false and a
`reason`. A 403 also refuses. Every other response, and a missing one, is no decision.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Final

from tenantcron.targets.authorising import (
    NO_REASON,
    Allowed,
    AuthorisationRequest,
    CheckError,
    Refused,
)
from tenantcron.targets.http.client import HttpClient
from tenantcron.targets.http.credentials import RequestCredentials, bearer
from tenantcron.targets.responses import FailCall, FullResponse, RetryCall, redacted
from tenantcron.targets.tokens import TokenError

_OK: Final = 200
_FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True)
class OwnerCheck:
    """Asks a policy service; with an audience, the request carries a token of the execution."""

    caller: HttpClient
    url: str = field(repr=False)
    audience: str | None = None

    async def authorise(self, request: AuthorisationRequest) -> Allowed | Refused:
        """Ask about one execution."""
        response = FullResponse()
        try:
            credentials = await self._credentials(request)
            await self.caller.post(self.url, _body(request), credentials, response)
        except (FailCall, RetryCall) as error:
            raise CheckError(error.reason) from None
        except TokenError as error:
            raise CheckError(str(error)) from None
        return _decision(response, credentials)

    async def _credentials(self, request: AuthorisationRequest) -> RequestCredentials:
        if self.audience is None:
            return RequestCredentials()
        return bearer(await request.token(self.audience))


def _body(request: AuthorisationRequest) -> bytes:
    document = {
        "tenant": request.tenant_id,
        "schedule": request.schedule_name,
        "saga": request.saga_name,
        "owner": request.owner,
        "execution_id": str(request.execution_id),
        "scheduled_for": request.scheduled_for.astimezone(UTC).isoformat(),
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _decision(response: FullResponse, credentials: RequestCredentials) -> Allowed | Refused:
    document = _document(response)
    allowed, reason = document.get("allowed"), document.get("reason")
    text = redacted(reason, credentials.hidden) if isinstance(reason, str) else NO_REASON
    if response.status == _FORBIDDEN:
        return Refused(text)
    if response.status != _OK:
        raise CheckError(f"the policy service answered {response.status}")
    if not isinstance(allowed, bool):
        raise CheckError("the policy service answered without an `allowed` of true or false")
    return Allowed() if allowed else Refused(text)


def _document(response: FullResponse) -> Mapping[str, object]:
    """Parse the response; an invalid one counts as empty, which allows nothing."""
    try:
        document: object = json.loads(response.body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
