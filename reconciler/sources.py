"""Sources of an apply: manifest files, read once and checked only if new to the database.

The checksum of a source covers everything that determines its meaning: its bytes, its file name
(which may name the tenant), the policy, and the version of the language. A source with the checksum
of a tenant's latest version was checked before, with the same result.
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

# Incremented when the meaning of existing manifests changes.
LANGUAGE = b"1"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked source: its desired state unless it has errors."""

    file: Path
    tenant: TenantId | None
    desired: DesiredState | None
    diagnostics: tuple[Diagnostic, ...]


def source_checksums(files: Iterable[ManifestFile]) -> list[str]:
    """Return the checksum of everything that determines the meaning of each manifest."""
    # Files share a few policies, and the text of a policy can be long.
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
    """Return a source from the result of its check."""
    desired = None
    if found.tenant is not None and found.definitions is not None:
        desired = DesiredState(
            found.tenant, found.definitions, found.checksum, source_checksum, forms=found.forms
        )
    return Prepared(file.path, found.tenant, desired, found.diagnostics)
