"""A plan: what an apply of one tenant's manifest would do, as data."""

from collections.abc import Sequence
from dataclasses import dataclass

from tenantcron.core.names import TenantId
from tenantcron.reconciler.diff import ScheduleDiff, diff
from tenantcron.reconciler.document import Document, document
from tenantcron.reconciler.guards import (
    guard_cap,
    guard_deletes,
    guard_reviewed,
    guard_revision,
    guard_tenant,
)
from tenantcron.reconciler.refusals import RefusedError
from tenantcron.reconciler.state import LiveState
from tenantcron.schedules.definition import Definition


@dataclass(frozen=True, slots=True)
class ReviewedState:
    """The state that a saved plan was made from; a tenant that did not exist had no revision."""

    revision: int | None
    # Of the schedules that were reviewed; None: only the state is given.
    checksum: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What one manifest wants for its tenant, and what it was made from."""

    tenant: TenantId
    definitions: Sequence[Definition]
    # Of the document, taken once: making one is most of the work for a tenant without changes.
    checksum: str
    source_checksum: str
    reviewed: ReviewedState | None = None

    @property
    def document(self) -> Document:
        """What the manifest's version keeps."""
        return document(self.definitions)


@dataclass(frozen=True, slots=True)
class Rules:
    """What an apply may do beyond changing the schedules of tenants that exist."""

    create_tenants: bool = False
    max_deletes: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The way of one tenant from live to desired."""

    desired: DesiredState
    state: LiveState
    difference: ScheduleDiff

    @property
    def makes_version(self) -> bool:
        """Whether the content differs from the version that was applied last."""
        version = self.state.version
        return version is None or version.checksum != self.desired.checksum

    @property
    def version(self) -> int:
        """The number of the version that holds once this is applied."""
        return self.state.number + self.makes_version

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.difference.changes and not self.makes_version


def make_plan(desired: DesiredState, state: LiveState, rules: Rules) -> Plan:
    """Compare, and refuse what must not be done."""
    if desired.reviewed is not None:
        guard_revision(desired.reviewed.revision, state.revision)
        guard_reviewed(desired.reviewed.checksum, desired.checksum)
    if state.tenant is not None or not rules.create_tenants:
        guard_tenant(desired.tenant, state.tenant)
    if state.broken is not None:
        raise RefusedError("TC606", f"the tenant's schema cannot be read: {state.broken}")
    guard_cap(len(desired.definitions), state.tenant)
    difference = diff(desired.definitions, state.live)
    guard_deletes(difference, len(state.live), rules.max_deletes)
    return Plan(desired, state, difference)
