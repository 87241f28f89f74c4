"""Authorisers with the result that a test needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from support.attempts import SETTINGS

from tenantcron.core.names import Owner
from tenantcron.targets.authorising import Allowed, AuthorisationRequest, Refused

MARIA = Owner("user:maria")
OWNED = SETTINGS._replace(owner=MARIA)
NEVER = timedelta(hours=1)
UNDECIDED = "whether owner user:maria may do this could not be checked: "
Decide = Callable[[AuthorisationRequest], Awaitable[object]]


@dataclass(slots=True)
class Deciding:
    """An authoriser with a fixed result, which records its requests."""

    decide: Decide
    asked: list[AuthorisationRequest] = field(default_factory=list)

    async def authorise(self, request: AuthorisationRequest) -> Allowed | Refused:
        self.asked.append(request)
        return await self.decide(request)  # type: ignore[return-value] # invalid results, too


def saying(answer: object) -> Deciding:
    async def decide(_: AuthorisationRequest) -> object:
        return answer

    return Deciding(decide)


def failing(error: BaseException) -> Deciding:
    async def decide(_: AuthorisationRequest) -> object:
        raise error

    return Deciding(decide)
