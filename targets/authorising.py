"""Whether the owner of a schedule may still do what it does: asked for each attempt, answered here.

An authoriser decides. What it answers is taken at its word, but only if it is one of the two
answers that there are. Anything else (an error, no answer in time, something that merely looks like
a yes) means that nobody has decided, and nothing starts.
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
from tenantcron.targets.signals import Said
from tenantcron.targets.tokens import Tokens

# A start that waits for a decision holds a slot.
LONGEST_CHECK: Final = timedelta(seconds=10)
NO_REASON: Final = "no reason was given"
_LONGEST_REASON: Final = 300


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorisationRequest:
    """The question: may the owner still have this saga run for this tenant?"""

    tenant_id: TenantId
    schedule_name: ScheduleName
    saga_name: SagaName
    owner: Owner
    execution_id: UUID
    scheduled_for: datetime
    _tokens: Tokens = field(default=NO_TOKENS, repr=False, compare=False)

    def token(self, audience: str) -> Awaitable[str]:
        """A token of the execution, for whoever is asked; a `TokenError` if there can be none."""
        return self._tokens.mint(audience)


@final
@dataclass(frozen=True, slots=True)
class Allowed:
    """They may."""


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """They may not; the reason is for people, and stands in the history."""

    reason: str = NO_REASON


class Authoriser(Protocol):
    """Decides; in the event loop, so it must not block."""

    async def authorise(self, request: AuthorisationRequest) -> Allowed | Refused:
        """Decide on one execution."""


class CheckError(Said, TenantcronError):
    """Nobody has decided, so nothing starts."""


async def decide(
    authoriser: Authoriser, request: AuthorisationRequest, longest: timedelta
) -> str | None:
    """Return why the owner may not, None if they may; anything raised: nobody has decided."""
    late = CheckError(f"no decision within {longest.total_seconds():g} s")
    try:
        async with asyncio.timeout(longest.total_seconds()) as bound:
            answer: object = await authoriser.authorise(request)
    except TimeoutError:
        if bound.expired():
            raise late from None
        raise
    # Who does not let itself be cancelled comes back all the same.
    if bound.expired():
        raise late
    match answer:
        case Allowed():
            return None
        case Refused(str(reason)):
            return _line(reason)
        case _:
            what = f"{shortened(repr(answer))}, which is neither Allowed() nor Refused(reason)"
            raise CheckError(f"the authoriser answered {what}")


def _line(reason: str) -> str:
    """One line, however long and however broken up it comes."""
    return shortened(" ".join(reason.split()), _LONGEST_REASON) or NO_REASON
