"""`plan` and `apply-manifest` on a server: the same answer, and no database driver.

Each manifest is a request of its own, under the id of its tenant; some go at a time. Which tenant
that is, is found out here, and so is what only shows across files. Everything else is the server's:
its policy holds, and its answer is what is reported. A request that meets a busy server is sent
again, with the same key, so that nothing is done twice.
"""

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, cast
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from tenantcron.answers.diagnostics import as_json
from tenantcron.answers.shapes import OutcomesAnswer, Summary, TenantAnswer, ToldError
from tenantcron.cli.report import progress
from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile, declared_in_several, find_files, read_files
from tenantcron.manifests.files import Policies as LocalPolicies

Action = Literal["plan", "apply"]
TOKEN: Final = "TENANTCRON_TOKEN"  # noqa: S105 -- the name of a variable
_AT_A_TIME: Final = 8
_PATIENCE: Final = 60.0
_TRIES: Final = 5
_LONGEST_WAIT: Final = 61
_BUSY: Final = (429, 503)
_INVALID: Final[ToldError] = {"code": "TC605", "message": "the manifest has errors"}
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class ServerError(TenantcronError):
    """The server cannot be asked; the text says why."""


def ask(
    arguments: argparse.Namespace, action: Action, source_ref: str | None = None
) -> OutcomesAnswer:
    """Ask the server about all manifests, and put its answers together."""
    if arguments.policy:
        raise UsageError("--policy does not go with --server: the policy of the server holds")
    server = _server(arguments.server)
    files = list(read_files(find_files(arguments.paths), LocalPolicies(None), arguments.tenant))
    parameters: dict[str, str] = {}
    if arguments.create_tenants:
        parameters["create_tenants"] = "true"
    if arguments.max_deletes is not None:
        parameters["max_deletes"] = str(arguments.max_deletes)
    if source_ref and action == "apply":
        parameters["source_ref"] = source_ref
    title = "Applying" if action == "apply" else "Planning"
    with progress(title, len(files)) as step:
        return asyncio.run(_Asking(server, action, parameters, step).all(files))


def _server(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--server {url!r} is not an address such as https://cron.internal")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and os.environ.get(TOKEN):
        raise UsageError(f"--server {url}: over http anybody can read the token; use https")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class _Asking:
    """Asks one server for one thing."""

    server: str
    action: Action
    parameters: Mapping[str, str]
    step: Callable[[], None]
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_A_TIME))

    async def all(self, files: Sequence[ManifestFile]) -> OutcomesAnswer:
        """Ask about all manifests, some at a time."""
        now = datetime.now(UTC)
        checked = [(file, *_own(file, now)) for file in files]
        count = Counter(tenant for _, tenant, _ in checked)
        token = os.environ.get(TOKEN)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(headers=headers, timeout=_PATIENCE) as client:
            tasks = [
                self._one(client, file, tenant, diagnostics, count[tenant])
                for file, tenant, diagnostics in checked
            ]
            try:
                answers = await asyncio.gather(*tasks)
            except httpx.HTTPError as error:
                raise ServerError(f"{self.server} cannot be asked: {error!r}") from error
        return _together(answers, now)

    async def _one(
        self,
        client: httpx.AsyncClient,
        file: ManifestFile,
        tenant: str | None,
        diagnostics: list[Diagnostic],
        declared: int,
    ) -> OutcomesAnswer:
        if tenant is None or file.asked_for not in (None, tenant):
            return _failed(file, tenant, _INVALID, diagnostics)
        if declared > 1:
            double = declared_in_several(tenant, declared, file.path)
            return _failed(file, tenant, _INVALID, [*diagnostics, double])
        async with self.slots:
            answer = await self._send(client, file, tenant)
        self.step()
        return answer

    async def _send(
        self, client: httpx.AsyncClient, file: ManifestFile, tenant: str
    ) -> OutcomesAnswer:
        is_json = file.path.suffix.lower() == ".json"
        headers = {"Content-Type": "application/json" if is_json else "application/yaml"}
        if self.action == "apply":
            headers["Idempotency-Key"] = str(uuid4())
        request = client.build_request(
            "POST",
            f"{self.server}/v1/tenants/{tenant}/manifest:{self.action}",
            params={**self.parameters, "file": file.path.as_posix()},
            content=file.content,
            headers=headers,
        )
        return self._read(await _patiently(client, request), file, tenant)

    def _read(self, reply: httpx.Response, file: ManifestFile, tenant: str) -> OutcomesAnswer:
        try:
            body = reply.json()
        except ValueError as error:
            raise ServerError(f"{self.server} is not a tenantcron: {reply.status_code}") from error
        match body:
            case {"at": str(), "tenants": [{"status": str()}], "summary": dict()}:
                return cast("OutcomesAnswer", body)
            case {"code": "TC701", "detail": str(detail)}:
                raise ServerError(f"{self.server}: {detail} (set {TOKEN})")
            case {"code": str(code), "detail": str(detail)}:
                return _failed(file, tenant, {"code": code, "message": detail}, [])
        raise ServerError(f"{self.server} is not a tenantcron of this version")


async def _patiently(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send a request, again if the server is busy, as long as it says."""
    for _ in range(_TRIES - 1):
        reply = await client.send(request)
        wait = reply.headers.get("retry-after", "")
        if reply.status_code not in _BUSY or not wait.isdecimal():
            return reply
        await asyncio.sleep(min(int(wait), _LONGEST_WAIT))
    return await client.send(request)


def _own(file: ManifestFile, now: datetime) -> tuple[str | None, list[Diagnostic]]:
    """Return whose manifest it is, and what can be said about it without the server."""
    found = file.check(now)
    return found.checked.tenant, found.diagnostics


def _failed(
    file: ManifestFile, tenant: str | None, error: ToldError, diagnostics: Sequence[Diagnostic]
) -> OutcomesAnswer:
    told: TenantAnswer = {
        "tenant": tenant,
        "file": file.path.as_posix(),
        "status": "failed",
        "manifest_version": None,
        "revision": None,
        "changes": [],
        "drift": [],
        "schedules": [],
        "diagnostics": [as_json(one) for one in diagnostics],
        "error": error,
    }
    summary: Summary = {**_NOTHING, "tenants": 1, "failed": 1}
    return {"at": "", "tenants": [told], "summary": summary}


_NOTHING: Final[Summary] = {
    "tenants": 0,
    "create": 0,
    "update": 0,
    "delete": 0,
    "unchanged": 0,
    "failed": 0,
}


def _together(answers: Sequence[OutcomesAnswer], now: datetime) -> OutcomesAnswer:
    summaries = [one["summary"] for one in answers]
    return {
        "at": max((one["at"] for one in answers), default="") or now.isoformat(),
        "tenants": [tenant for one in answers for tenant in one["tenants"]],
        "summary": {
            "tenants": sum(one["tenants"] for one in summaries),
            "create": sum(one["create"] for one in summaries),
            "update": sum(one["update"] for one in summaries),
            "delete": sum(one["delete"] for one in summaries),
            "unchanged": sum(one["unchanged"] for one in summaries),
            "failed": sum(one["failed"] for one in summaries),
        },
    }
