"""Manifest files as an apply takes them: read once, checked only if they are new to the database.

A source's checksum covers everything that decides what it means: its bytes, its file name (which
may name the tenant), the policy, and the version of the language. A source whose checksum a
tenant's latest version carries has been checked already, with the same outcome.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from tenantcron.core.names import TenantId
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile
from tenantcron.reconciler.definition import define
from tenantcron.reconciler.plan import Wanted, want

# Goes up when the same bytes come to mean something else.
LANGUAGE = b"1"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source after its check: what it wants unless it has errors."""

    file: Path
    tenant: TenantId | None
    wanted: Wanted | None
    diagnostics: tuple[Diagnostic, ...]


def source_checksum(file: ManifestFile) -> str:
    """Return the fingerprint of everything that decides what a manifest means."""
    parts = (LANGUAGE, file.path.name.encode(), (file.asked_for or "").encode())
    digest = sha256()
    for part in (*parts, repr(file.policy).encode(), file.content):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def prepare(file: ManifestFile, caps: Mapping[TenantId, int], now: datetime) -> Prepared:
    """Check a manifest, with the tenants' own caps."""
    found = file._replace(policy=file.policy._replace(caps=caps)).check(now)
    wanted = _wanted(found.checked.desired, source_checksum(file))
    return Prepared(file.path, found.checked.tenant, wanted, tuple(found.diagnostics))


def _wanted(desired: Desired | None, checksum: str) -> Wanted | None:
    if desired is None:
        return None
    return want(desired.tenant, map(define, desired.schedules), checksum)
