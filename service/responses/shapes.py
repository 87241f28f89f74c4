"""The shapes of answers: which keys there are, and what is behind each.

Those who make an answer, those who read one from a server and the description of the API share
them. Nothing here may import a database driver: a command that asks a server needs none.
"""

from collections.abc import Mapping
from typing import Literal, NotRequired

# The API describes itself by these, and pydantic takes no others on older versions of Python.
from typing_extensions import TypedDict


class DiagnosticResponse(TypedDict):
    """One mistake of a manifest, with its place."""

    code: str
    name: str
    severity: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    pointer: str
    message: str
    hint: str | None


class DefinitionResponse(TypedDict):
    """The columns of a schedule that a manifest decides."""

    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    definition: Mapping[str, object]


class ChangeResponse(TypedDict):
    """One schedule's way from what is live to what is desired."""

    action: Literal["create", "update", "delete"]
    schedule: str
    fields: list[str]
    before: DefinitionResponse | None
    after: DefinitionResponse | None


class TouchResponse(TypedDict):
    """Who changed something last."""

    id: str
    source: str
    at: str


class DriftResponse(TypedDict):
    """One schedule's way from what was applied to what is live."""

    schedule: str
    fields: list[str]
    applied: DefinitionResponse | None
    live: DefinitionResponse | None
    changed_by: TouchResponse | None


class PauseResponse(TypedDict):
    """An operator's word that a schedule must not fire."""

    at: str
    by: str | None
    reason: str | None
    until: str | None


class ScheduleResponse(TypedDict):
    """A schedule with its next executions."""

    name: str
    saga: str
    cron: str
    timezone: str
    enabled: bool
    paused: PauseResponse | None
    next_executions: list[str]
    fault: str | None
    # `tenant` for what a manifest declares.
    provider: str


class ActorResponse(TypedDict):
    """Who an execution is attributed to."""

    id: str
    type: str
    source: str
    authenticated: bool


class ExecutionResponse(TypedDict):
    """One execution."""

    id: str
    tenant: str
    schedule: str
    saga: str
    scheduled_for: str
    state: str
    reason: str | None
    attempt: int
    attempts_allowed: int
    losses: int
    suspect: bool
    not_before: str
    start_deadline: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    covers_from: str | None
    missed_count: int
    worker: str | None
    lease_until: str | None
    cancel_requested_at: str | None
    cancel_reason: str | None
    actor: ActorResponse
    correlation_id: str


class AttemptResponse(TypedDict):
    """One attempt of an execution."""

    attempt: int
    outcome: str
    worker: str
    started_at: str
    finished_at: str
    error: str | None
    http_status: int | None
    answer: str | None
    # The last 64 KiB that the handler logged, and the JSON that it returned.
    log: str | None
    result: object


class StoryResponse(ExecutionResponse):
    """An execution with its attempts."""

    attempts: list[AttemptResponse]


class CursorResponse(TypedDict):
    """Where the scheduler stands with a schedule."""

    schedule_id: str
    provider: str
    effective_from: str
    next_run_at: str | None
    last_run_at: str | None
    consecutive_failures: int
    fault: str | None


class ChangedByResponse(TypedDict):
    """Who made a change, and whether a token proves it."""

    id: str
    type: str
    source: str
    authenticated: bool


class RecordResponse(TypedDict):
    """One change, as the database has put it on record."""

    entity_type: str
    entity_id: str
    operation: str
    changed_at: str
    changed_by: ChangedByResponse
    correlation_id: str | None
    before: object
    after: object


class SituationResponse(ScheduleResponse):
    """A schedule with where it stands, its last executions, and who changed it last."""

    tenant: str
    definition: Mapping[str, object]
    cursor: CursorResponse | None
    executions: list[ExecutionResponse]
    changes: list[RecordResponse]


class PausedResponse(TypedDict):
    """A pause that was set, with the pending executions that it ended and those that it kept."""

    tenant: str
    schedule: str
    paused: PauseResponse | None
    ended: int
    pending: int


class ResumedResponse(TypedDict):
    """A pause that was lifted, and how many occurrences it had kept from starting."""

    tenant: str
    schedule: str
    paused: None
    passed_over: int
    next_run_at: str | None


class TriggeredResponse(TypedDict):
    """An execution that was made by hand."""

    tenant: str
    schedule: str
    execution: str
    scheduled_for: str


class FindingResponse(TypedDict):
    """One reason why a schedule did not run, and what to do about it."""

    code: str
    message: str
    hint: str


class WhyResponse(TypedDict):
    """Why a schedule did not run; the answer is the first finding's."""

    tenant: str
    schedule: str
    answer: str
    findings: list[FindingResponse]


class TenantResponse(TypedDict):
    """One tenant."""

    tenant: str
    schema: str
    schema_adopted: bool
    status: str
    status_reason: str | None
    max_schedules: int | None
    max_concurrent: int | None
    weight: int
    labels: dict[str, str]
    sourced: bool
    missing_since: str | None
    schedule_revision: int
    created_at: str
    updated_at: str


class TenantPage(TypedDict):
    """Some tenants, by id."""

    tenants: list[TenantResponse]
    next: str | None


class SchedulePage(TypedDict):
    """Some schedules of a tenant, by name."""

    schedules: list[ScheduleResponse]
    next: str | None


class ExecutionPage(TypedDict):
    """Some executions, the newest first."""

    executions: list[ExecutionResponse]
    next: str | None


class VersionResponse(TypedDict):
    """One version of a tenant's manifest."""

    tenant: str
    version: int
    checksum: str
    applied_by: str
    applied_at: str
    source_ref: str | None


class DocumentResponse(VersionResponse):
    """A version with the schedules that it declares."""

    document: Mapping[str, object]


class VersionPage(TypedDict):
    """Some versions, the newest first."""

    manifest_versions: list[VersionResponse]
    next: str | None


class RecordPage(TypedDict):
    """Some records of a tenant, the newest first."""

    audit_records: list[RecordResponse]
    next: str | None


class ErrorResponse(TypedDict):
    """Why a tenant was refused."""

    code: str
    message: str


class TenantAnswer(TypedDict):
    """What became of one tenant."""

    tenant: str | None
    file: str | None
    status: Literal["applied", "unchanged", "planned", "failed"]
    manifest_version: int | None
    revision: int | None
    changes: list[ChangeResponse]
    drift: list[DriftResponse]
    schedules: list[ScheduleResponse]
    diagnostics: list[DiagnosticResponse]
    error: NotRequired[ErrorResponse]


class Summary(TypedDict):
    """The totals over all tenants."""

    tenants: int
    create: int
    update: int
    delete: int
    unchanged: int
    failed: int


class OutcomesAnswer(TypedDict):
    """The answer of plan and apply."""

    at: str
    tenants: list[TenantAnswer]
    summary: Summary
