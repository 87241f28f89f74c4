"""`plan` and `apply-manifest` through a server: the same output without a database driver.

Each manifest is sent in its own request to the URL of its tenant, several at a time. The client
finds the tenant of each manifest and rejects tenants that several files declare. The server does
everything else: its policy applies, and its response is the report. A saved plan is sent with the
revisions that it was made from.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tenantcron.cli.clusters.server.caller import ServerCaller
from tenantcron.cli.clusters.server.cluster import client_of
from tenantcron.cli.clusters.targets import ChosenServer
from tenantcron.cli.environment import current_settings
from tenantcron.cli.report import OutcomeReport, progress
from tenantcron.cli.server_plans import ReviewedManifest, ServerPlan, load_plan, save_plan
from tenantcron.client import ProblemError, manifests
from tenantcron.client.calls import with_headers
from tenantcron.client.manifests import MediaType
from tenantcron.core.errors import UsageError
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile, declared_in_several, find_files, read_files
from tenantcron.manifests.files import Policies as LocalPolicies
from tenantcron.reconciler.plan_keys import PlanKeys, plan_keys
from tenantcron.service.responses.diagnostics import as_json
from tenantcron.service.responses.shapes import (
    ErrorResponse,
    ManifestResultResponse,
    PolicyResponse,
    Summary,
    TenantResultResponse,
)
from tenantcron.service.responses.totals import total

Action = Literal["plan", "apply"]
OnApplied = Callable[[datetime, TenantResultResponse], None]
_AT_A_TIME: Final = 8
# Problems of the caller or the server, which all manifests have in common.
_OF_ALL: Final = ("TC701", "TC712", "TC714", "TC721")
_NOT_ALLOWED: Final = "TC702"
_INVALID: Final[ErrorResponse] = {"code": "TC605", "message": "the manifest has errors"}


def plan(arguments: argparse.Namespace, target: ChosenServer) -> ManifestResultResponse:
    """Request the plan of the manifests, and save it if requested."""
    server, files = _server(arguments, target), _manifests(arguments)
    answer = _request_all(
        target, "plan", _parameters(arguments), [ManifestRequest(file) for file in files]
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
    return plan_keys(current_settings())


def apply(
    arguments: argparse.Namespace,
    source_ref: str | None,
    target: ChosenServer,
    report: OutcomeReport,
) -> ManifestResultResponse:
    """Request the apply of manifests or a saved plan; with --dry-run only their plan."""
    server = _server(arguments, target)
    saved = load_plan(arguments.plan, server, _plan_keys()) if arguments.plan else None
    files = _manifests(arguments) if saved is None else []
    requests = (
        [ManifestRequest(file) for file in files]
        if saved is None
        else list(map(_conditional, saved.manifests))
    )
    parameters = _parameters(arguments, saved)
    if arguments.dry_run:
        return _request_all(target, "plan", parameters, requests)
    if source_ref:
        parameters["source_ref"] = source_ref
    report.expect(len(requests))
    return _request_all(target, "apply", parameters, requests, report.finished)


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
    target: ChosenServer,
    action: Action,
    parameters: Mapping[str, str],
    requests: Sequence[ManifestRequest],
    applied: OnApplied | None = None,
) -> ManifestResultResponse:
    """Send all manifests to the server and merge its responses; report applied tenants at once."""
    title = "Applying" if action == "apply" else "Planning"

    async def run(step: Callable[[], None]) -> ManifestResultResponse:
        async with client_of(target) as client:
            caller = ServerCaller(client, target.token_source)
            sender = _ManifestSender(caller, action, parameters, step, applied)
            return await sender.send_all(requests)

    with progress(title, len(requests)) as step:
        return asyncio.run(run(step))


def _server(arguments: argparse.Namespace, target: ChosenServer) -> str:
    if arguments.policy:
        raise UsageError("--policy cannot be used with --server: the server applies its own policy")
    return target.url.rstrip("/")


@dataclass(frozen=True, slots=True)
class _ManifestSender:
    """Sends manifests to a server, for a plan or an apply."""

    caller: ServerCaller
    action: Action
    parameters: Mapping[str, str]
    step: Callable[[], None]
    applied: OnApplied | None
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_A_TIME))

    async def send_all(self, requests: Sequence[ManifestRequest]) -> ManifestResultResponse:
        """Send all manifests, several at a time."""
        now = datetime.now(UTC)
        checked = [(request, *_check(request.file, now)) for request in requests]
        count = Counter(tenant for _, tenant, _ in checked)
        tasks = [
            self._send_unless_invalid(request, tenant, diagnostics, count[tenant])
            for request, tenant, diagnostics in checked
        ]
        answers = await asyncio.gather(*tasks)
        return _merged(answers, now, self.caller.client.server)

    async def _send_unless_invalid(
        self,
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
            answer = await self._send(request, tenant)
        self.step()
        if self.applied is not None and not answer["summary"]["failed"]:
            self.applied(datetime.fromisoformat(answer["at"]), answer["tenants"][0])
        return answer

    async def _send(self, request: ManifestRequest, tenant: str) -> ManifestResultResponse:
        file = request.file
        is_json = file.path.suffix.lower() == ".json"
        media_type: MediaType = "application/json" if is_json else "application/yaml"
        given = {**self.parameters, **request.parameters, "file": file.path.as_posix()}
        call_of = manifests.apply if self.action == "apply" else manifests.plan
        call = call_of(tenant, file.content, media_type, [*given.items()])
        try:
            return await self.caller.client.send(with_headers(call, request.headers))
        except ProblemError as problem:
            if problem.code in _OF_ALL:
                raise self.caller.error_of(problem) from problem
            message = problem.detail
            if problem.code == _NOT_ALLOWED:
                message += ": use a token with another role"
            return _failed(file, tenant, {"code": problem.code, "message": message}, [])


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


def _merged(
    answers: Sequence[ManifestResultResponse], now: datetime, server: str
) -> ManifestResultResponse:
    return {
        "at": max((answer["at"] for answer in answers), default="") or now.isoformat(),
        "policies": _policies(answers, server),
        "tenants": [tenant for answer in answers for tenant in answer["tenants"]],
        "summary": total(answer["summary"] for answer in answers),
    }


def _policies(answers: Sequence[ManifestResultResponse], server: str) -> list[PolicyResponse]:
    """Return the policies of the server: several if its processes have different ones."""
    digests = [policy["digest"] for answer in answers for policy in answer.get("policies", ())]
    return [{"origin": server, "digest": digest} for digest in dict.fromkeys(digests)]
