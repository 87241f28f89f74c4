"""`plan` and `apply-manifest` on a server: the same answer, and no database driver.

Each manifest is a request of its own, under the id of its tenant; some go at a time. Which tenant
that is, is found out here, and so is what only shows across files. Everything else is the server's:
its policy holds, and its answer is what is reported. A request that meets a busy server is sent
again, with the same key, so that nothing is done twice. A saved plan is sent with the revisions
that it was made from.
"""

import argparse
import asyncio
import os
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
from tenantcron.service.responses.shapes import ErrorResponse, OutcomesAnswer, Summary, TenantAnswer
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
    """The server cannot be asked; the text says why."""


def plan(arguments: argparse.Namespace) -> OutcomesAnswer:
    """Ask what applying the manifests would change, and save the plan if that is asked for."""
    server, files = _server(arguments), _manifests(arguments)
    told = _ask(server, "plan", _parameters(arguments), [Sent(file) for file in files])
    if arguments.out and not told["summary"]["failed"]:
        reviewed = [
            ReviewedManifest(
                file.path.as_posix(), file.content, str(one["tenant"]), one["revision"]
            )
            for file, one in zip(files, told["tenants"], strict=True)
        ]
        may = (arguments.create_tenants, arguments.max_deletes)
        save_plan(arguments.out, ServerPlan(server, reviewed, *may), _plan_keys())
    return told


def _plan_keys() -> PlanKeys:
    return plan_keys(load_settings(os.environ, Path.cwd()))


def apply(arguments: argparse.Namespace, source_ref: str | None) -> OutcomesAnswer:
    """Have manifests or a saved plan applied; with --dry-run they are planned only."""
    server = _server(arguments)
    saved = load_plan(arguments.plan, server, _plan_keys()) if arguments.plan else None
    files = _manifests(arguments) if saved is None else []
    sent = [Sent(file) for file in files] if saved is None else list(map(_again, saved.manifests))
    parameters = _parameters(arguments, saved)
    if arguments.dry_run:
        return _ask(server, "plan", parameters, sent)
    if source_ref:
        parameters["source_ref"] = source_ref
    return _ask(server, "apply", parameters, sent)


class Sent(NamedTuple):
    """A manifest, and what of its tenant the server must find unchanged, if anything."""

    file: ManifestFile
    parameters: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}


def _again(reviewed: ReviewedManifest) -> Sent:
    """Let what was reviewed count only for the state that it was made from."""
    path, content = Path(reviewed.file), reviewed.content
    file = ManifestFile(path, content, LocalPolicies(None).of(path), reviewed.tenant)
    if reviewed.revision is None:
        return Sent(file, headers={"If-None-Match": "*"})
    return Sent(file, {"revision": str(reviewed.revision)})


def _manifests(arguments: argparse.Namespace) -> list[ManifestFile]:
    return list(read_files(find_files(arguments.paths), LocalPolicies(None), arguments.tenant))


def _parameters(arguments: argparse.Namespace, saved: ServerPlan | None = None) -> dict[str, str]:
    """Return what may be done: what was reviewed with a plan, and what the options add."""
    parameters: dict[str, str] = {}
    if arguments.create_tenants or (saved and saved.create_tenants):
        parameters["create_tenants"] = "true"
    most = arguments.max_deletes
    if most is None and saved:
        most = saved.max_deletes
    if most is not None:
        parameters["max_deletes"] = str(most)
    return parameters


def _ask(
    server: str, action: Action, parameters: Mapping[str, str], sent: Sequence[Sent]
) -> OutcomesAnswer:
    """Ask the server about all manifests, and put its answers together."""
    title = "Applying" if action == "apply" else "Planning"
    with progress(title, len(sent)) as step:
        return asyncio.run(_Asking(server, action, parameters, step).all(sent))


def _server(arguments: argparse.Namespace) -> str:
    if arguments.policy:
        raise UsageError("--policy does not go with --server: the policy of the server holds")
    url: str = arguments.server
    scheme, host = _parts(url)
    if scheme not in ("http", "https") or not host:
        raise UsageError(f"--server {url!r} is not an address such as https://cron.internal")
    if "@" in url or "?" in url:
        raise UsageError(
            f"--server {url!r} has a user, a password or a query: name scheme and host only, and "
            f"set {TOKEN}"
        )
    if scheme == "http" and host not in _LOOPBACK and _token():
        raise UsageError(f"--server {url}: over http anybody can read the token; use https")
    return url.rstrip("/")


def _parts(url: str) -> tuple[str, str | None]:
    """Return scheme and host of a URL; nothing if it cannot be read."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is read only now
    except ValueError:
        return "", None
    return parts.scheme, parts.hostname


def _client(headers: Mapping[str, str]) -> httpx.AsyncClient:
    try:
        return httpx.AsyncClient(headers=headers, timeout=_PATIENCE)
    except (httpx.InvalidURL, ValueError, ImportError):
        # The cause quotes parts of the URL, which may be parts of a password.
        raise UsageError(
            "a proxy of the environment cannot be used: check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
        ) from None


def _token() -> str | None:
    """Return the token, without the line break that a file of it ends with."""
    token = os.environ.get(TOKEN, "").strip()
    # The client library would show the whole of a header that it cannot send.
    if not token.isascii() or not token.isprintable():
        raise UsageError(f"{TOKEN} is not a token: it has characters that none has")
    return token or None


@dataclass(frozen=True, slots=True)
class _Asking:
    """Asks one server for one thing."""

    server: str
    action: Action
    parameters: Mapping[str, str]
    step: Callable[[], None]
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_A_TIME))

    async def all(self, sent: Sequence[Sent]) -> OutcomesAnswer:
        """Ask about all manifests, some at a time."""
        now = datetime.now(UTC)
        checked = [(one, *_own(one.file, now)) for one in sent]
        count = Counter(tenant for _, tenant, _ in checked)
        token = _token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with _client(headers) as client:
            tasks = [
                self._one(client, one, tenant, diagnostics, count[tenant])
                for one, tenant, diagnostics in checked
            ]
            try:
                answers = await asyncio.gather(*tasks)
            except httpx.HTTPError as error:
                raise ServerError(f"{self.server} cannot be asked: {error!r}") from error
        return _together(answers, now)

    async def _one(
        self,
        client: httpx.AsyncClient,
        sent: Sent,
        tenant: str | None,
        diagnostics: list[Diagnostic],
        declared: int,
    ) -> OutcomesAnswer:
        file = sent.file
        if tenant is None or file.asked_for not in (None, tenant):
            return _failed(file, tenant, _INVALID, diagnostics)
        if declared > 1:
            double = declared_in_several(tenant, declared, file.path)
            return _failed(file, tenant, _INVALID, [*diagnostics, double])
        async with self.slots:
            answer = await self._send(client, sent, tenant)
        self.step()
        return answer

    async def _send(self, client: httpx.AsyncClient, sent: Sent, tenant: str) -> OutcomesAnswer:
        file = sent.file
        is_json = file.path.suffix.lower() == ".json"
        kind = "application/json" if is_json else "application/yaml"
        headers = {"Content-Type": kind, **sent.headers}
        if self.action == "apply":
            headers["Idempotency-Key"] = str(uuid4())
        request = client.build_request(
            "POST",
            f"{self.server}/v1/tenants/{tenant}/manifest:{self.action}",
            params={**self.parameters, **sent.parameters, "file": file.path.as_posix()},
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
    file: ManifestFile, tenant: str | None, error: ErrorResponse, diagnostics: Sequence[Diagnostic]
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
    summary: Summary = {**total(()), "tenants": 1, "failed": 1}
    return {"at": "", "tenants": [told], "summary": summary}


def _together(answers: Sequence[OutcomesAnswer], now: datetime) -> OutcomesAnswer:
    return {
        "at": max((one["at"] for one in answers), default="") or now.isoformat(),
        "tenants": [tenant for one in answers for tenant in one["tenants"]],
        "summary": total(one["summary"] for one in answers),
    }
