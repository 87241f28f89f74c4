"""Writes: atomic and idempotent.

A write is one transaction. With an `Idempotency-Key`, it first claims the key and finally stores
the response, so that the change and its response are committed together. A concurrent duplicate
waits for the key: after a commit it gets the stored response, after a rollback it runs itself. A
rejected request changes nothing and stores no key.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus

from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request
from starlette.responses import Response

from tenantcron.api.replies import encoded, json_reply, stored_reply
from tenantcron.service.problems import ApiProblem
from tenantcron.service.work import Work
from tenantcron.store.connection.engine import Database
from tenantcron.store.rows import idempotency_keys

KEY = "idempotency-key"
REPEATED = {"Idempotency-Replayed": "true"}


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write."""

    data: Mapping[str, object]
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    # What an idempotency key stores instead, if the response contains a secret.
    stored: Mapping[str, object] | None = None


# The change, on a database whose transactions join the transaction of the write.
Step = Callable[[Database], Awaitable[WriteResult]]


async def write(request: Request, work: Work, step: Step) -> Response:
    """Run the change of a request once, and return the response."""
    key = request.headers.get(KEY)
    if key is None:
        async with work.writing.transaction() as connection:
            return _reply(await step(work.writing.joining(connection)))
    request_hash = await _hash(request)
    async with work.writing.transaction() as connection:
        kept = await idempotency_keys.take(connection, work.caller.key, key, request_hash)
        if kept is None:
            return _reply(await _run_and_store(connection, work, key, step))
    if kept.request_hash != request_hash:
        raise ApiProblem("TC708", "the key was already used for a different request: use a new key")
    return stored_reply(kept.answer.encode(), kept.status, REPEATED)


async def _run_and_store(
    connection: AsyncConnection, work: Work, key: str, step: Step
) -> WriteResult:
    """Run the change and store its response, in one transaction."""
    result = await step(work.writing.joining(connection))
    stored = result.data if result.stored is None else result.stored
    caller, answer = work.caller.key, encoded(stored).decode()
    await idempotency_keys.keep(connection, caller, key, result.status, answer)
    return result


async def _hash(request: Request) -> str:
    """Return the hash of everything that determines the effect of a request."""
    parts = (request.method, request.url.path, request.url.query)
    digest = sha256()
    for part in (*(text.encode() for text in parts), await request.body()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _reply(result: WriteResult) -> Response:
    return json_reply(result.data, result.status, result.headers)
