"""Writes: done once, whole or not at all, and answered.

A write is one transaction. With an `Idempotency-Key` it begins by taking the key and ends by
keeping the answer beside the work, so the two are committed together. A twin that comes meanwhile
waits at the key: after a commit it gets the same answer, after a failure it does the work itself. A
request that is refused changes nothing and leaves no key.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus

from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request
from starlette.responses import Response

from tenantcron.api.replies import done, repeated, written
from tenantcron.service.problems import ApiProblem
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import idempotency_keys

KEY = "idempotency-key"
REPEATED = {"Idempotency-Replayed": "true"}


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a write."""

    data: Mapping[str, object]
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


# The work, on a database whose transactions are parts of the one that the write is.
Step = Callable[[Database], Awaitable[Done]]


async def write(request: Request, work: Work, step: Step) -> Response:
    """Do the work of a request once, and reply."""
    key = request.headers.get(KEY)
    if key is None:
        async with work.writing.transaction() as connection:
            return _reply(await step(work.writing.joining(connection)))
    asked = await _hash(request)
    async with work.writing.transaction() as connection:
        kept = await idempotency_keys.take(connection, work.caller.key, key, asked)
        if kept is None:
            return _reply(await _kept(connection, work, key, step))
    if kept.request_hash != asked:
        raise ApiProblem("TC708", "this key came with another request before: use a new one")
    return repeated(kept.answer.encode(), kept.status, REPEATED)


async def _kept(connection: AsyncConnection, work: Work, key: str, step: Step) -> Done:
    """Do the work and keep its answer, in one transaction."""
    result = await step(work.writing.joining(connection))
    caller, answer = work.caller.key, written(result.data).decode()
    await idempotency_keys.keep(connection, caller, key, result.status, answer)
    return result


async def _hash(request: Request) -> str:
    """Return the fingerprint of all that decides what a request does."""
    parts = (request.method, request.url.path, request.url.query)
    digest = sha256()
    for part in (*(text.encode() for text in parts), await request.body()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _reply(result: Done) -> Response:
    return done(result.data, result.status, result.headers)
