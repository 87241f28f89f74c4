"""Saved plans of a server: the reviewed manifests, each with the revision of its tenant.

A server evaluates manifests with its own policy. So the plan holds the manifests themselves, which
are sent again and applied only to tenants whose revision has not changed. The plan names its
server, because the revisions of another server are unrelated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.reconciler.plan_documents import OF_SERVER, not_a_plan, seal, unseal
from tenantcron.reconciler.plan_keys import PlanKeys


class ReviewedManifest(NamedTuple):
    """A manifest and the revision of its tenant; None if the tenant did not exist."""

    file: str
    content: bytes
    tenant: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The reviewed manifests and the rules of the apply."""

    server: str
    manifests: Sequence[ReviewedManifest]
    create_tenants: bool
    max_deletes: int | None


class _Manifest(TypedDict):
    file: str
    content: str
    tenant: str
    revision: int | None


class _Plan(TypedDict):
    server: str
    create_tenants: bool
    max_deletes: int | None
    manifests: list[_Manifest]


def save_plan(file: Path, plan: ServerPlan, keys: PlanKeys) -> None:
    """Write a plan. Its manifests are valid, so they are UTF-8 text."""
    document = _Plan(
        server=plan.server,
        create_tenants=plan.create_tenants,
        max_deletes=plan.max_deletes,
        manifests=[
            _Manifest(
                file=manifest.file,
                content=manifest.content.decode(),
                tenant=manifest.tenant,
                revision=manifest.revision,
            )
            for manifest in plan.manifests
        ],
    )
    seal(file, OF_SERVER, cast("JsonObject", document), keys)


def load_plan(file: Path, server: str, keys: PlanKeys) -> ServerPlan:
    """Read a plan that was made from this server."""
    match unseal(file, OF_SERVER, keys):
        case {
            "server": str(made_from),
            "create_tenants": bool(creates),
            "max_deletes": int() | None as most,
            "manifests": list(manifests),
        }:
            if made_from != server:
                raise UsageError(f"{file}: the plan was made from {made_from}, not from {server}")
            reviewed = [_reviewed(file, manifest) for manifest in manifests]
            return ServerPlan(server, reviewed, creates, most)
    raise not_a_plan(file)


def _reviewed(file: Path, manifest: JsonValue) -> ReviewedManifest:
    match manifest:
        case {
            "file": str(path),
            "content": str(content),
            "tenant": str(tenant),
            "revision": int() | None as revision,
        }:
            return ReviewedManifest(path, content.encode(), tenant, revision)
    raise not_a_plan(file)
