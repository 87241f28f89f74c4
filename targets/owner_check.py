"""The authoriser that is built in: a policy service is asked over HTTP, by the rules of all calls.

The service gets what is to be decided as JSON, and answers 200 with `{"allowed": true}`, or false
and a `reason`. A 403 is a no, too. Every other answer, and none at all, is no decision.
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
from tenantcron.targets.http import HttpClient, RequestCredentials, bearer
from tenantcron.targets.responses import FailCall, FullResponse, RetryCall, redacted
from tenantcron.targets.tokens import TokenError

_OK: Final = 200
_FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True)
class OwnerCheck:
    """Asks a policy service; with an audience it proves which execution asks."""

    caller: HttpClient
    url: str = field(repr=False)
    audience: str | None = None

    async def authorise(self, request: AuthorisationRequest) -> Allowed | Refused:
        """Ask about one execution."""
        answer = FullResponse()
        try:
            proof = await self._proof(request)
            await self.caller.post(self.url, _question(request), proof, answer)
        except (FailCall, RetryCall) as error:
            raise CheckError(error.reason) from None
        except TokenError as error:
            raise CheckError(str(error)) from None
        return _decision(answer, proof)

    async def _proof(self, request: AuthorisationRequest) -> RequestCredentials:
        if self.audience is None:
            return RequestCredentials()
        return bearer(await request.token(self.audience))


def _question(request: AuthorisationRequest) -> bytes:
    document = {
        "tenant": request.tenant_id,
        "schedule": request.schedule_name,
        "saga": request.saga_name,
        "owner": request.owner,
        "execution_id": str(request.execution_id),
        "scheduled_for": request.scheduled_for.astimezone(UTC).isoformat(),
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _decision(answer: FullResponse, proof: RequestCredentials) -> Allowed | Refused:
    said = _said(answer)
    allowed, reason = said.get("allowed"), said.get("reason")
    words = redacted(reason, proof.hidden) if isinstance(reason, str) else NO_REASON
    if answer.status == _FORBIDDEN:
        return Refused(words)
    if answer.status != _OK:
        raise CheckError(f"the policy service answered {answer.status}")
    if not isinstance(allowed, bool):
        raise CheckError("the policy service answered without an `allowed` of true or false")
    return Allowed() if allowed else Refused(words)


def _said(answer: FullResponse) -> Mapping[str, object]:
    """Read the answer; what cannot be read says nothing, and that is no yes."""
    try:
        said: object = json.loads(answer.body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
