"""Manifest files as an apply takes them: read once, checked only if they are new to the database.

A source's checksum covers everything that decides what it means: its bytes, its file name (which
may name the tenant), the policy, and the version of the language. A source whose checksum a
tenant's latest version carries has been checked already, with the same outcome.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tenantcron.core.names import TenantId
from tenantcron.manifests.diagnostics import Diagnostic
from tenantcron.manifests.files import ManifestFile
from tenantcron.reconciler.checking import Found
from tenantcron.reconciler.plan import DesiredState

# Goes up when the same bytes come to mean something else.
LANGUAGE = b"1"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source after its check: what it wants unless it has errors."""

    file: Path
    tenant: TenantId | None
    desired: DesiredState | None
    diagnostics: tuple[Diagnostic, ...]


def source_checksums(files: Iterable[ManifestFile]) -> list[str]:
    """Return the fingerprint of everything that decides what each manifest means."""
    # Files share few policies, and one with many presets is long to write down.
    policies: dict[int, bytes] = {}
    checksums = []
    for file in files:
        if id(file.policy) not in policies:
            policies[id(file.policy)] = repr(file.policy).encode()
        checksums.append(_checksum(file, policies[id(file.policy)]))
    return checksums


def _checksum(file: ManifestFile, policy: bytes) -> str:
    digest = sha256()
    name, asked_for = file.path.name.encode(), (file.asked_for or "").encode()
    for part in (LANGUAGE, name, asked_for, policy, file.content):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def prepared(file: ManifestFile, found: Found, source_checksum: str) -> Prepared:
    """Return a source that was checked just now."""
    desired = None
    if found.tenant is not None and found.definitions is not None:
        desired = DesiredState(found.tenant, found.definitions, found.checksum, source_checksum)
    return Prepared(file.path, found.tenant, desired, found.diagnostics)
