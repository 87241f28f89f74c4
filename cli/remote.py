"""`plan` and `apply-manifest` through a server: the same output without a database driver.

Each manifest is sent in its own request to the URL of its tenant, several at a time. The client
finds the tenant of each manifest and rejects tenants that several files declare. The server does
everything else: its policy applies, and its response is the report. If the server is busy, the
request is sent again with the same idempotency key, so nothing is applied twice. A saved plan is
sent with the revisions that it was made from.
"""

import argparse
import asyncio
import os
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from tenantcron.cli.report import progress
from tenantcron.cli.server_plans import ReviewedManifest, ServerPlan, load_plan, save_plan
from tenantcron.core.errors import TenantcronError, UsageError
from tenantcron.core.settings import load_settings
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile, declared_in_several, find_files, read_files
from tenantcron.manifests.files import Policies as LocalPolicies
from tenantcron.reconciler.plan_keys import PlanKeys, plan_keys
from tenantcron.service.responses.diagnostics import as_json
from tenantcron.service.responses.shapes import (
    ErrorResponse,
    ManifestResultResponse,
    Summary,
    TenantResultResponse,
)
from tenantcron.service.responses.totals import total

Action = Literal["plan", "apply"]
TOKEN: Final = "TENANTCRON_TOKEN"  # noqa: S105 -- the name of a variable
_AT_A_TIME: Final = 8
_PATIENCE: Final = 60.0
_TRIES: Final = 5
_LONGEST_WAIT: Final = 61
_BUSY: Final = (429, 503)
_INVALID: Final[ErrorResponse] = {"code": "TC605", "message": "the manifest has errors"}
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class ServerError(TenantcronError):
    """A request to the server failed; the message explains why."""


def plan(arguments: argparse.Namespace) -> ManifestResultResponse:
    """Request the plan of the manifests, and save it if requested."""
    server, files = _server(arguments), _manifests(arguments)
    answer = _request_all(
        server, "plan", _parameters(arguments), [ManifestRequest(file) for file in files]
    )
    if arguments.out and not answer["summary"]["failed"]:
        reviewed = [
            ReviewedManifest(
                file.path.as_posix(), file.content, str(tenant["tenant"]), tenant["revision"]
            )
            for file, tenant in zip(files, answer["tenants"], strict=True)
        ]
        may = (arguments.create_tenants, arguments.max_deletes)
        save_plan(arguments.out, ServerPlan(server, reviewed, *may), _plan_keys())
    return answer


def _plan_keys() -> PlanKeys:
    return plan_keys(load_settings(os.environ, Path.cwd()))


def apply(arguments: argparse.Namespace, source_ref: str | None) -> ManifestResultResponse:
    """Request the apply of manifests or a saved plan; with --dry-run only their plan."""
    server = _server(arguments)
    saved = load_plan(arguments.plan, server, _plan_keys()) if arguments.plan else None
    files = _manifests(arguments) if saved is None else []
    requests = (
        [ManifestRequest(file) for file in files]
        if saved is None
        else list(map(_conditional, saved.manifests))
    )
    parameters = _parameters(arguments, saved)
    if arguments.dry_run:
        return _request_all(server, "plan", parameters, requests)
    if source_ref:
        parameters["source_ref"] = source_ref
    return _request_all(server, "apply", parameters, requests)


class ManifestRequest(NamedTuple):
    """A manifest to send, with the preconditions of a reviewed plan."""

    file: ManifestFile
    parameters: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}


def _conditional(reviewed: ReviewedManifest) -> ManifestRequest:
    """Make the request fail unless the tenant is at the reviewed revision."""
    path, content = Path(reviewed.file), reviewed.content
    file = ManifestFile(path, content, LocalPolicies(None).of(path), reviewed.tenant)
    if reviewed.revision is None:
        return ManifestRequest(file, headers={"If-None-Match": "*"})
    return ManifestRequest(file, {"revision": str(reviewed.revision)})


def _manifests(arguments: argparse.Namespace) -> list[ManifestFile]:
    return list(read_files(find_files(arguments.paths), LocalPolicies(None), arguments.tenant))


def _parameters(arguments: argparse.Namespace, saved: ServerPlan | None = None) -> dict[str, str]:
    """Return the rules of the apply: those of a reviewed plan, overridden by the options."""
    parameters: dict[str, str] = {}
    if arguments.create_tenants or (saved and saved.create_tenants):
        parameters["create_tenants"] = "true"
    max_deletes = arguments.max_deletes
    if max_deletes is None and saved:
        max_deletes = saved.max_deletes
    if max_deletes is not None:
        parameters["max_deletes"] = str(max_deletes)
    return parameters


def _request_all(
    server: str, action: Action, parameters: Mapping[str, str], requests: Sequence[ManifestRequest]
) -> ManifestResultResponse:
    """Send all manifests to the server and merge its responses."""
    title = "Applying" if action == "apply" else "Planning"
    with progress(title, len(requests)) as step:
        return asyncio.run(_ServerClient(server, action, parameters, step).send_all(requests))


def _server(arguments: argparse.Namespace) -> str:
    if arguments.policy:
        raise UsageError("--policy cannot be used with --server: the server applies its own policy")
    url: str = arguments.server
    scheme, host = _parts(url)
    if scheme not in ("http", "https") or not host:
        raise UsageError(f"--server {url!r} is not a URL such as https://cron.internal")
    if "@" in url or "?" in url:
        raise UsageError(
            f"--server {url!r} has a user, a password or a query: give only the scheme and the "
            f"host, and set {TOKEN}"
        )
    if scheme == "http" and host not in _LOOPBACK and _token():
        raise UsageError(f"--server {url}: http would expose the token; use https")
    return url.rstrip("/")


def _parts(url: str) -> tuple[str, str | None]:
    """Return the scheme and host of a URL; both are empty if it is malformed."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # urlsplit validates the port only here
    except ValueError:
        return "", None
    return parts.scheme, parts.hostname


def _client(headers: Mapping[str, str]) -> httpx.AsyncClient:
    try:
        return httpx.AsyncClient(headers=headers, timeout=_PATIENCE)
    except (httpx.InvalidURL, ValueError, ImportError):
        # The cause quotes the URL, which may contain a password.
        raise UsageError(
            "the proxy setting is not valid: check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
        ) from None


def _token() -> str | None:
    """Return the token without surrounding white space."""
    token = os.environ.get(TOKEN, "").strip()
    # httpx would print the entire header that it cannot send.
    if not token.isascii() or not token.isprintable():
        raise UsageError(f"{TOKEN} is not a token: it has characters that tokens never have")
    return token or None


@dataclass(frozen=True, slots=True)
class _ServerClient:
    """Sends manifests to a server, for a plan or an apply."""

    server: str
    action: Action
    parameters: Mapping[str, str]
    step: Callable[[], None]
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_A_TIME))

    async def send_all(self, requests: Sequence[ManifestRequest]) -> ManifestResultResponse:
        """Send all manifests, several at a time."""
        now = datetime.now(UTC)
        checked = [(request, *_check(request.file, now)) for request in requests]
        count = Counter(tenant for _, tenant, _ in checked)
        token = _token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with _client(headers) as client:
            tasks = [
                self._send_unless_invalid(client, request, tenant, diagnostics, count[tenant])
                for request, tenant, diagnostics in checked
            ]
            try:
                answers = await asyncio.gather(*tasks)
            except httpx.HTTPError as error:
                raise ServerError(f"{self.server}: {_failure(error)}") from error
        return _merged(answers, now)

    async def _send_unless_invalid(
        self,
        client: httpx.AsyncClient,
        request: ManifestRequest,
        tenant: str | None,
        diagnostics: list[Diagnostic],
        declared: int,
    ) -> ManifestResultResponse:
        file = request.file
        if tenant is None or file.asked_for not in (None, tenant):
            return _failed(file, tenant, _INVALID, diagnostics)
        if declared > 1:
            duplicate = declared_in_several(tenant, declared, file.path)
            return _failed(file, tenant, _INVALID, [*diagnostics, duplicate])
        async with self.slots:
            answer = await self._send(client, request, tenant)
        self.step()
        return answer

    async def _send(
        self, client: httpx.AsyncClient, request: ManifestRequest, tenant: str
    ) -> ManifestResultResponse:
        file = request.file
        is_json = file.path.suffix.lower() == ".json"
        media_type = "application/json" if is_json else "application/yaml"
        headers = {"Content-Type": media_type, **request.headers}
        if self.action == "apply":
            headers["Idempotency-Key"] = str(uuid4())
        built = client.build_request(
            "POST",
            f"{self.server}/v1/tenants/{tenant}/manifest:{self.action}",
            params={**self.parameters, **request.parameters, "file": file.path.as_posix()},
            content=file.content,
            headers=headers,
        )
        return self._parse(await _send_with_retry(client, built), file, tenant)

    def _parse(
        self, reply: httpx.Response, file: ManifestFile, tenant: str
    ) -> ManifestResultResponse:
        try:
            body = reply.json()
        except ValueError as error:
            raise ServerError(f"{self.server}: {_no_answer(reply.status_code)}") from error
        match body:
            case {"at": str(), "tenants": [{"status": str()}], "summary": dict()}:
                return cast("ManifestResultResponse", body)
            case {"code": "TC701", "detail": str(detail)}:
                hint = f"set {TOKEN}"
                if _token():
                    hint = f"the token in {TOKEN} is wrong, revoked or expired: create a new one"
                raise ServerError(f"{self.server}: {detail} ({hint})")
            case {"code": str(code), "detail": str(detail)}:
                return _failed(file, tenant, {"code": code, "message": detail}, [])
        raise ServerError(f"{self.server} is not a tenantcron server of this version")


def _failure(error: httpx.HTTPError) -> str:
    """Return why a request got no response, from the errors that caused it."""
    if isinstance(error, httpx.TimeoutException):
        return "the server did not respond in time: retry, or check that it is running"
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted: {cause.verify_message}"
            case ssl.SSLError():
                return "it does not accept TLS: check the scheme and the port of --server"
            case socket.gaierror():
                return "the host name cannot be resolved: check --server"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.ConnectError):
        return "cannot connect: check --server and that the server is running"
    return "the connection was lost before the response: run it again"


def _no_answer(status: int) -> str:
    """Return what a response without JSON means."""
    if status >= 500:
        return f"the server failed with HTTP {status}: retry, or read its log"
    if 300 <= status < 400:
        return f"it redirects (HTTP {status}): use the URL that it redirects to"
    return f"the response is not from tenantcron (HTTP {status}): check --server"


async def _send_with_retry(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send a request; if the server is busy, retry after the delay that it asks for."""
    for _ in range(_TRIES - 1):
        reply = await client.send(request)
        wait = reply.headers.get("retry-after", "")
        if reply.status_code not in _BUSY or not wait.isdecimal():
            return reply
        await asyncio.sleep(min(int(wait), _LONGEST_WAIT))
    return await client.send(request)


def _check(file: ManifestFile, now: datetime) -> tuple[str | None, list[Diagnostic]]:
    """Return the tenant of a manifest and its local diagnostics."""
    found = file.check(now)
    return found.checked.tenant, found.diagnostics


def _failed(
    file: ManifestFile, tenant: str | None, error: ErrorResponse, diagnostics: Sequence[Diagnostic]
) -> ManifestResultResponse:
    answer: TenantResultResponse = {
        "tenant": tenant,
        "file": file.path.as_posix(),
        "status": "failed",
        "manifest_version": None,
        "revision": None,
        "changes": [],
        "drift": [],
        "schedules": [],
        "diagnostics": [as_json(diagnostic) for diagnostic in diagnostics],
        "error": error,
    }
    summary: Summary = {**total(()), "tenants": 1, "failed": 1}
    return {"at": "", "tenants": [answer], "summary": summary}


def _merged(answers: Sequence[ManifestResultResponse], now: datetime) -> ManifestResultResponse:
    return {
        "at": max((answer["at"] for answer in answers), default="") or now.isoformat(),
        "tenants": [tenant for answer in answers for tenant in answer["tenants"]],
        "summary": total(answer["summary"] for answer in answers),
    }
