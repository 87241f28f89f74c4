"""Names for completion from the manifests in a folder, for a platform without a database URL."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tenantcron.core.errors import TenantcronError
from tenantcron.manifests.desired import Desired
from tenantcron.manifests.files import SUFFIXES, Policies, read_files

# Other folders are not searched: a repository can have thousands of files.
_FOLDERS = (".", "manifests")
_MOST_FILES = 50


class ManifestNames:
    """Tenants and schedules that the valid manifests of a folder declare."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tenants(self, prefix: str) -> Sequence[str]:
        """Return ids of tenants that begin with the prefix."""
        return sorted({found.tenant for found in self._desired(prefix)})

    def schedules(self, tenant: str, prefix: str) -> Sequence[str]:
        """Return names of the tenant's schedules that begin with the prefix."""
        return [
            schedule.name
            for desired in self._desired(tenant)
            if desired.tenant == tenant
            for schedule in desired.schedules
            if schedule.name.startswith(prefix)
        ]

    def _desired(self, prefix: str) -> Iterator[Desired]:
        policies, now = Policies(None), datetime.now(UTC)
        for file in self._files():
            try:
                found = next(read_files([file], policies, None)).check(now).checked.desired
            except TenantcronError:  # a file or policy that cannot be read: `validate` explains it
                continue
            if found is not None and found.tenant.startswith(prefix):
                yield found

    def _files(self) -> list[Path]:
        folders = [self._folder / name for name in _FOLDERS]
        found = (file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir()))
        manifests = [file for file in found if file.suffix in SUFFIXES and file.is_file()]
        return manifests[:_MOST_FILES]
