"""Sends the calls of commands, and turns problems into errors with the exit codes of commands."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tenantcron.client import ApiCall, AsyncClient, ListCall, ProblemError, RequestError
from tenantcron.client.calls import LARGEST_PAGE
from tenantcron.core.errors import DeclinedError, NotFoundError, TenantcronError, UsageError

T = TypeVar("T")

_BUSY: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class ServerCaller:
    """The user of a command, as the server sees it."""

    client: AsyncClient
    # Where the token comes from or belongs, for messages.
    token_source: str

    async def send(self, call: ApiCall[T]) -> T:
        """Send a call; a problem is raised as the error that the command would raise locally."""
        try:
            return await self.client.send(call)
        except ProblemError as problem:
            raise self.error_of(problem) from problem

    async def first(self, call: ListCall[T], limit: int) -> list[T]:
        """Return at most the first items of a list."""
        found: list[T] = []
        async for page in self.pages(call, min(limit, LARGEST_PAGE)):
            found += page
            if len(found) >= limit:
                break
        return found[:limit]

    async def pages(self, call: ListCall[T], size: int = LARGEST_PAGE) -> AsyncIterator[list[T]]:
        """Yield the pages of a list."""
        try:
            async for page in self.client.pages(call, size):
                yield page
        except ProblemError as problem:
            raise self.error_of(problem) from problem

    def error_of(self, problem: ProblemError) -> TenantcronError:
        """Return the error of a problem."""
        # Any proxy can send a problem, so a detail may be a sentence.
        server, detail = self.client.server, problem.detail.strip().removesuffix(".")
        match problem.code:
            case "TC701":  # not authenticated
                error: TenantcronError = RequestError(f"{server}: {self._unauthenticated(detail)}")
            case "TC702":  # not allowed
                error = DeclinedError(f"{server}: {detail}: use a token with another role")
            case "TC703":  # not found
                error = _not_found(problem, detail)
            case "TC707" | "TC708":  # invalid
                error = UsageError("\n".join([detail, *_errors(problem.members)]))
            case "TC721" | "TC712":  # no such path or method
                error = RequestError(
                    f"{server} cannot do this: check the URL, or upgrade the server"
                )
            case "TC714":  # internal
                cause = f"find {problem.correlation_id} in its log"
                error = RequestError(f"{server}: the server failed: {cause}")
            case "TC732":  # over a quota: waiting for the server does not help
                error = DeclinedError(detail)
            case _ if problem.status in _BUSY:
                error = RequestError(f"{server}: {detail}")
            case _:
                error = DeclinedError(detail)
        return error

    def _unauthenticated(self, detail: str) -> str:
        if not self.client.has_token:
            return f"it needs a token: set {self.token_source}"
        return f"{detail}. Check {self.token_source}, or create a new token"


def _not_found(problem: ProblemError, detail: str) -> NotFoundError:
    match problem.members:
        case {"problem": str(what), "hint": str(hint)}:
            return NotFoundError(what, hint)
    return NotFoundError(detail)


def _errors(members: Mapping[str, object]) -> Iterator[str]:
    """Yield the errors of an invalid request."""
    errors = members.get("errors")
    for error in errors if isinstance(errors, list) else ():
        match error:
            case {"name": str(name), "message": str(message)}:
                yield f"  {name}: {message}"
