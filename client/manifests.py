"""Calls that plan and apply manifests."""

from typing import Literal

from tenantcron.client.calls import ApiCall, Query, path_of
from tenantcron.service.responses.shapes import ManifestResultResponse

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


def _call(
    tenant: str, action: str, content: bytes, media_type: MediaType, query: Query
) -> ApiCall[ManifestResultResponse]:
    path = path_of("tenants", tenant, f"manifest:{action}")
    headers = {"Content-Type": media_type}
    return ApiCall(
        "POST", path, ManifestResultResponse, query=query, content=content, headers=headers
    )
