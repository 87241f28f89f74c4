"""Owner checks: whether the owner of a schedule may still run it, decided for each attempt.

An authoriser decides. Only `Allowed` and `Refused` are decisions. Anything else (an error, a
timeout, another value) is no decision, and the attempt does not start.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol, final
from uuid import UUID

from tenantcron.core.errors import TenantcronError
from tenantcron.core.names import Owner, SagaName, ScheduleName, TenantId
from tenantcron.core.words import shortened
from tenantcron.targets.no_tokens import NO_TOKENS
from tenantcron.targets.signals import WithoutTraceback
from tenantcron.targets.tokens import Tokens

# An attempt that waits for a decision holds a slot.
LONGEST_CHECK: Final = timedelta(seconds=10)
NO_REASON: Final = "no reason was given"
_LONGEST_REASON: Final = 300


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorisationRequest:
    """The request for a decision: may the owner still run this saga for this tenant?"""

    tenant_id: TenantId
    schedule_name: ScheduleName
    saga_name: SagaName
    owner: Owner
    execution_id: UUID
    scheduled_for: datetime
    _tokens: Tokens = field(default=NO_TOKENS, repr=False, compare=False)

    def token(self, audience: str) -> Awaitable[str]:
        """Return a token of the execution for a service; raise a `TokenError` if there is none."""
        return self._tokens.mint(audience)


@final
@dataclass(frozen=True, slots=True)
class Allowed:
    """The owner may run it."""


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """The owner may not run it; the history shows the reason."""

    reason: str = NO_REASON


class Authoriser(Protocol):
    """Decides in the event loop, so it must not block."""

    async def authorise(self, request: AuthorisationRequest) -> Allowed | Refused:
        """Decide on one execution."""


class CheckError(WithoutTraceback, TenantcronError):
    """There is no decision, so the attempt does not start."""


async def decide(
    authoriser: Authoriser, request: AuthorisationRequest, longest: timedelta
) -> str | None:
    """Return why the owner is refused, None if allowed; any exception means no decision."""
    late = CheckError(f"no decision within {longest.total_seconds():g} s")
    try:
        async with asyncio.timeout(longest.total_seconds()) as bound:
            decision: object = await authoriser.authorise(request)
    except TimeoutError:
        if bound.expired():
            raise late from None
        raise
    # An authoriser that suppresses the cancellation still returns.
    if bound.expired():
        raise late
    match decision:
        case Allowed():
            return None
        case Refused(str(reason)):
            return _line(reason)
        case _:
            what = f"{shortened(repr(decision))}, which is neither Allowed() nor Refused(reason)"
            raise CheckError(f"the authoriser returned {what}")


def _line(reason: str) -> str:
    """Return a reason as one short line."""
    return shortened(" ".join(reason.split()), _LONGEST_REASON) or NO_REASON
