"""Calls that plan and apply manifests, and read their versions."""

from typing import Literal

from tenantcron.client.calls import ApiCall, ListCall, Query, path_of
from tenantcron.service.responses.shapes import (
    ManifestResultResponse,
    ManifestVersionDetailsResponse,
    ManifestVersionResponse,
)

MediaType = Literal["application/yaml", "application/json"]


def plan(
    tenant: str, content: bytes, media_type: MediaType, query: Query = ()
) -> ApiCall[ManifestResultResponse]:
    """Show what an apply would change."""
    return _call(tenant, "plan", content, media_type, query)


def apply(
    tenant: str, content: bytes, media_type: MediaType, query: Query = ()
) -> ApiCall[ManifestResultResponse]:
    """Apply a manifest to the schedules of its tenant."""
    return _call(tenant, "apply", content, media_type, query)


def versions(tenant: str) -> ListCall[ManifestVersionResponse]:
    """List the versions of a manifest, newest first."""
    path = path_of("tenants", tenant, "manifest-versions")
    return ListCall(path, "manifest_versions", ManifestVersionResponse)


def version(tenant: str, number: int) -> ApiCall[ManifestVersionDetailsResponse]:
    """Get a version of a manifest with its schedules."""
    path = path_of("tenants", tenant, "manifest-versions", str(number))
    return ApiCall("GET", path, ManifestVersionDetailsResponse)


def _call(
    tenant: str, action: str, content: bytes, media_type: MediaType, query: Query
) -> ApiCall[ManifestResultResponse]:
    path = path_of("tenants", tenant, f"manifest:{action}")
    headers = {"Content-Type": media_type}
    return ApiCall(
        "POST", path, ManifestResultResponse, query=query, content=content, headers=headers
    )
