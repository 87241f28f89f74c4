"""Saved plans: the reviewed changes, bound to the state that they were made from.

A plan file contains the manifest, the reviewed schedules and the revision of each tenant, the
identity of the database, and the rules of the apply.

An apply checks the manifests in the file again, with its own policy, as if they came from the
repository: any program that can write the file can compute its checksum, so the content is not
trusted. With a plan key in the settings, the plan must also be signed. The check must result in the
reviewed schedules, the revisions must be unchanged, and the database must be the same.
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
    # The value of --tenant.
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
    """Writes a plan file from outcomes, one at a time."""

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
        """Add the plan of a tenant; after a refused tenant, no file is written."""
        if outcome.status is Status.FAILED:
            self._is_complete = False
        elif self._is_complete:
            self._plan.add(cast("JsonObject", self._entry(outcome)))

    def finish(self) -> None:
        """Write the file, unless a tenant was refused."""
        if self._is_complete:
            self._plan.write(self._file, self._keys)

    def close(self) -> None:
        """Close the temporary file."""
        self._plan.close()

    def _entry(self, outcome: ReconcileOutcome) -> _Entry:
        plan, file = outcome.plan, outcome.file
        if plan is None or file is None:
            raise ValueError("a planned manifest has a plan and a file")
        manifest = self._read(file)
        if source_checksums([manifest]) != [plan.desired.source_checksum]:
            raise UsageError(f"{file}: changed during planning; plan again")
        return _Entry(
            tenant=plan.desired.tenant,
            file=file.as_posix(),
            asked_for=manifest.asked_for,
            revision=plan.state.revision,
            document=plan.desired.document,
            content=manifest.content.decode(),
        )


class NoPlan:
    """Ignores outcomes, because no plan is saved."""

    def add(self, outcome: ReconcileOutcome) -> None:
        """Ignore an outcome."""

    def finish(self) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Saved(NamedTuple):
    """A manifest of a plan, and the state that was reviewed."""

    file: Path
    content: bytes
    asked_for: str | None
    reviewed: ReviewedState


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A complete plan file; its manifests are on disk until they are checked."""

    file: Path
    rules: Rules
    is_signed: bool
    _database: str
    _entries: Spooled[_Saved]

    def __len__(self) -> int:
        """Count the manifests."""
        return len(self._entries)

    def require_made_from(self, database: str) -> None:
        """Raise UsageError for another database, because its revisions are unrelated."""
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
        """Yield the reviewed state of each manifest, in the same order."""
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
    """Bind a manifest of a plan to its reviewed state."""
    if prepared.desired is None:
        return prepared
    return replace(prepared, desired=replace(prepared.desired, reviewed=reviewed))


def keep_reviewed(plan: SavedPlan, spool: Spool) -> Callable[[Prepared], None]:
    """Return a function that spools the manifests of a plan with their reviewed state."""
    reviewed = plan.reviewed()

    def keep(prepared: Prepared) -> None:
        spool.add(bind(prepared, next(reviewed)))

    return keep
