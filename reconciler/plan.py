"""The plan of a tenant: the changes of an apply as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    """The state that a saved plan was made from; None if the tenant did not exist."""

    revision: int | None
    # The checksum of the reviewed schedules; None if only the revision is checked.
    checksum: str | None = None


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The desired schedules of a tenant, and the checksum of their source."""

    tenant: TenantId
    definitions: Sequence[Definition]
    # The checksum of the document. Computing it dominates the work for an unchanged tenant.
    checksum: str
    source_checksum: str
    reviewed: ReviewedState | None = None
    # The keys of the timetables in the manifest, by schedule: `daily`. Unknown for a source that
    # was checked before.
    forms: Mapping[str, str] = field(default_factory=dict)

    @property
    def document(self) -> Document:
        """The document of the manifest version."""
        return document(self.definitions)


@dataclass(frozen=True, slots=True)
class Rules:
    """Permissions of an apply in addition to changing schedules of existing tenants."""

    create_tenants: bool = False
    max_deletes: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of a tenant from its live to its desired state."""

    desired: DesiredState
    state: LiveState
    difference: ScheduleDiff

    @property
    def makes_version(self) -> bool:
        """Whether the content differs from the last applied version."""
        version = self.state.version
        return version is None or version.checksum != self.desired.checksum

    @property
    def version(self) -> int:
        """The number of the current version after the apply."""
        return self.state.number + self.makes_version

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.difference.changes and not self.makes_version


def make_plan(desired: DesiredState, state: LiveState, rules: Rules) -> Plan:
    """Compare desired with live; raise RefusedError if a guard refuses the plan."""
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
