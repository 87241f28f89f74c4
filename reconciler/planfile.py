"""Saved plans: what was reviewed, bound to the state that it was made from.

A plan file holds, per tenant, the manifest, the schedules that were reviewed and the tenant's
revision; and once the database that it was made from, and what the apply may do besides.

Applying it checks the manifests in the file again, by the policy of the apply, exactly as if they
came from the repository: anyone who can write the file can compute its checksum, so nothing in it
counts because it is in there. With a plan key in the settings, the plan must also be signed. The
result must be the schedules that were reviewed, for tenants whose revision has not moved, in the
same database.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

from tenantcron.core.errors import UsageError
from tenantcron.core.values import JsonObject, JsonValue
from tenantcron.manifests.files import ManifestFile, Policies
from tenantcron.reconciler.document import Document, checksum
from tenantcron.reconciler.outcome import ReconcileOutcome, Status
from tenantcron.reconciler.plan import ReviewedState, Rules
from tenantcron.reconciler.plan_documents import OF_DATABASE, SealedList, not_a_plan, unseal_list
from tenantcron.reconciler.plan_keys import PlanKeys
from tenantcron.reconciler.sources import Prepared, source_checksums
from tenantcron.reconciler.spool import Spool, Spooled

ReadManifest = Callable[[Path], ManifestFile]


class _Entry(TypedDict):
    tenant: str
    file: str
    # What --tenant was.
    asked_for: str | None
    revision: int | None
    document: Document
    content: str


class _Rules(TypedDict):
    create_tenants: bool
    max_deletes: int | None


class _Head(TypedDict):
    database: str
    rules: _Rules


class PlanWriter:
    """Takes outcomes one by one, and writes a plan file of them; memory holds one at a time."""

    def __init__(
        self, file: Path, rules: Rules, read: ReadManifest, database: str, keys: PlanKeys
    ) -> None:
        self._file = file
        self._keys = keys
        self._read = read
        allowed = _Rules(create_tenants=rules.create_tenants, max_deletes=rules.max_deletes)
        head = cast("JsonObject", _Head(database=database, rules=allowed))
        self._plan = SealedList(OF_DATABASE, head, "tenants")
        self._is_complete = True

    def add(self, outcome: ReconcileOutcome) -> None:
        """Add a tenant's plan; one that was refused makes no plan to review."""
        if outcome.status is Status.FAILED:
            self._is_complete = False
        elif self._is_complete:
            self._plan.add(cast("JsonObject", self._entry(outcome)))

    def finish(self) -> None:
        """Write the file, unless a tenant was refused."""
        if self._is_complete:
            self._plan.write(self._file, self._keys)

    def close(self) -> None:
        """Forget what was added."""
        self._plan.close()

    def _entry(self, outcome: ReconcileOutcome) -> _Entry:
        plan, file = outcome.plan, outcome.file
        if plan is None or file is None:
            raise ValueError("a manifest that was planned has a plan and a file")
        manifest = self._read(file)
        if source_checksums([manifest]) != [plan.desired.source_checksum]:
            raise UsageError(f"{file}: changed while it was planned; plan again")
        return _Entry(
            tenant=plan.desired.tenant,
            file=file.as_posix(),
            asked_for=manifest.asked_for,
            revision=plan.state.revision,
            document=plan.desired.document,
            content=manifest.content.decode(),
        )


class NoPlan:
    """Takes outcomes where no plan is to be saved."""

    def add(self, outcome: ReconcileOutcome) -> None:
        """Forget an outcome."""

    def finish(self) -> None:
        """Write nothing."""

    def close(self) -> None:
        """There is nothing to forget."""


class _Saved(NamedTuple):
    """A manifest of a plan, and what it must come to."""

    file: Path
    content: bytes
    asked_for: str | None
    reviewed: ReviewedState


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan file that is whole; its manifests are on disk until they are checked."""

    file: Path
    rules: Rules
    is_signed: bool
    _database: str
    _entries: Spooled[_Saved]

    def __len__(self) -> int:
        """Count the manifests."""
        return len(self._entries)

    def require_made_from(self, database: str) -> None:
        """Refuse another database than the one of the plan: its revisions mean nothing there."""
        if database != self._database:
            raise UsageError(f"{self.file}: the plan was made from another database; plan again")

    def manifests(self, policies: Policies) -> Iterator[ManifestFile]:
        """Yield the manifests, to be checked by these policies.

        An unsigned plan may be edited, so the working folder chooses the policy, not its paths.
        """
        for saved in self._entries:
            policy = policies.of(saved.file if self.is_signed else Path(self.file.name))
            yield ManifestFile(saved.file, saved.content, policy, saved.asked_for)

    def reviewed(self) -> Iterator[ReviewedState]:
        """Yield what was reviewed of each manifest, in the same order."""
        return (saved.reviewed for saved in self._entries)


@contextmanager
def saved_plan(file: Path, keys: PlanKeys) -> Iterator[SavedPlan]:
    """Read a plan file; its manifests are kept until the end of the block."""
    with Spooled[_Saved]() as entries:

        def keep(entry: JsonValue) -> None:
            entries.add(_saved(file, entry))

        head = unseal_list(file, OF_DATABASE, "tenants", keep, keys)
        rules, database = _head(file, head)
        yield SavedPlan(file, rules, bool(keys.keys), database, entries)


def _head(file: Path, head: JsonObject) -> tuple[Rules, str]:
    match head:
        case {
            "database": str(database),
            "rules": {"create_tenants": bool(creates), "max_deletes": int() | None as most},
        }:
            return Rules(creates, most), database
    raise not_a_plan(file)


def _saved(file: Path, entry: JsonValue) -> _Saved:
    match entry:
        case {
            "file": str(path),
            "asked_for": str() | None as asked_for,
            "revision": int() | None as revision,
            "document": dict(document),
            "content": str(content),
        }:
            reviewed = ReviewedState(revision, checksum(document))
            return _Saved(Path(path), content.encode(), asked_for, reviewed)
    raise not_a_plan(file)


def bind(prepared: Prepared, reviewed: ReviewedState) -> Prepared:
    """Bind a manifest of a plan to what was reviewed of it."""
    if prepared.desired is None:
        return prepared
    return replace(prepared, desired=replace(prepared.desired, reviewed=reviewed))


def keep_reviewed(plan: SavedPlan, spool: Spool) -> Callable[[Prepared], None]:
    """Return what keeps the manifests of a plan, in their order, bound to what was reviewed."""
    reviewed = plan.reviewed()

    def keep(prepared: Prepared) -> None:
        spool.add(bind(prepared, next(reviewed)))

    return keep
