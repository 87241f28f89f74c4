"""Saved plans of a server: the manifests that were reviewed, each with the revision that it met.

A server makes schedules of manifests by its own policy. So the manifests themselves are kept and
sent again, and count only for tenants whose revision has not moved. The server is named, for
another one's revisions are others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject
from tenantcron.reconciler.plan_documents import OF_SERVER, seal, unseal
from tenantcron.reconciler.plan_keys import PlanKeys


class ReviewedManifest(NamedTuple):
    """A manifest, and the revision of its tenant; None for one that was not there."""

    file: str
    content: bytes
    tenant: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """What was reviewed, and what the apply may do."""

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
    """Write a plan. Its manifests are valid, so they are text."""
    written = _Plan(
        server=plan.server,
        create_tenants=plan.create_tenants,
        max_deletes=plan.max_deletes,
        manifests=[
            _Manifest(
                file=one.file,
                content=one.content.decode(),
                tenant=one.tenant,
                revision=one.revision,
            )
            for one in plan.manifests
        ],
    )
    seal(file, OF_SERVER, cast("JsonObject", written), keys)


def load_plan(file: Path, server: str, keys: PlanKeys) -> ServerPlan:
    """Read a plan that was made from this server."""
    read = cast("_Plan", unseal(file, OF_SERVER, keys))
    if read["server"] != server:
        raise UsageError(f"{file}: the plan was made from {read['server']}, not from {server}")
    manifests = [
        ReviewedManifest(one["file"], one["content"].encode(), one["tenant"], one["revision"])
        for one in read["manifests"]
    ]
    return ServerPlan(server, manifests, read["create_tenants"], read["max_deletes"])
