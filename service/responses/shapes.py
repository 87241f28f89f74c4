"""The types of JSON responses.

The server, the command line with `--server` and the OpenAPI description share them. This module
must not import a database driver, because `--server` needs none.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, NotRequired

# Pydantic requires this TypedDict on older versions of Python.
from typing_extensions import TypedDict

from tenantcron.core.quotas import QuotaSource


class JsonKeywords:
    """Adds keywords to the JSON Schema of a type, without an import of pydantic."""

    def __init__(self, **keywords: object) -> None:
        self.keywords = keywords

    def __get_pydantic_json_schema__(
        self, core: object, handler: Callable[[object], dict[str, object]]
    ) -> dict[str, object]:
        return handler(core) | self.keywords


Time = Annotated[str, JsonKeywords(format="date-time")]
Id = Annotated[str, JsonKeywords(format="uuid")]
STATES: Final = (
    *("PENDING", "RUNNING", "RETRYING", "SUCCEEDED", "DEAD", "SKIPPED", "MISSED", "CANCELLED"),
)
OUTCOMES: Final = (
    *("SUCCEEDED", "FAILED", "TIMED_OUT", "LOST", "INTERRUPTED", "CANCELLED", "REFUSED"),
)
STATUSES: Final = ("active", "suspended", "deprovisioned")
SEVERITIES: Final = ("error", "warning")
StateName = Annotated[str, JsonKeywords(enum=STATES)]
OutcomeName = Annotated[str, JsonKeywords(enum=OUTCOMES)]
StatusName = Annotated[str, JsonKeywords(enum=STATUSES)]
SeverityName = Annotated[str, JsonKeywords(enum=SEVERITIES)]


class DiagnosticResponse(TypedDict):
    """A diagnostic of a manifest, with its position."""

    code: str
    name: str
    severity: SeverityName
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    pointer: str
    message: str
    hint: str | None


class DefinitionResponse(TypedDict):
    """The columns of a schedule that a manifest defines."""

    schedule_name: str
    saga_name: str
    cron_expr: str
    timezone: str
    enabled: bool
    definition: Mapping[str, object]


class ChangeResponse(TypedDict):
    """The change of a schedule from its live to its desired definition."""

    action: Literal["create", "update", "delete"]
    schedule: str
    fields: list[str]
    before: DefinitionResponse | None
    after: DefinitionResponse | None
    # The key of the timetable in the manifest, such as `daily`; null if it is not known.
    form: str | None


class LastChangeResponse(TypedDict):
    """The actor of the last change."""

    id: str
    source: str
    at: Time


class DriftResponse(TypedDict):
    """The drift of a schedule from its applied to its live definition."""

    schedule: str
    fields: list[str]
    applied: DefinitionResponse | None
    live: DefinitionResponse | None
    changed_by: LastChangeResponse | None


class PauseResponse(TypedDict):
    """The pause of a schedule, set by an operator."""

    at: Time
    by: str | None
    reason: str | None
    until: Time | None


class ScheduleResponse(TypedDict):
    """A schedule with its next executions."""

    name: str
    saga: str
    cron: str
    # Local times in the time zone of the schedule.
    starts: str | None
    ends: str | None
    timezone: str
    enabled: bool
    paused: PauseResponse | None
    next_executions: list[Time]
    fault: str | None
    # `tenant` for a schedule that a manifest declares.
    provider: str


class ActorResponse(TypedDict):
    """The actor of an execution."""

    id: str
    type: str
    source: str
    authenticated: bool


class ExecutionResponse(TypedDict):
    """An execution."""

    id: Id
    tenant: str
    schedule: str
    saga: str
    scheduled_for: Time
    state: StateName
    reason_code: str | None
    reason: str | None
    attempt: int
    attempts_allowed: int
    losses: int
    suspect: bool
    # How often it is the suspected cause of the loss of its worker.
    blamed: int
    not_before: Time
    start_deadline: Time | None
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    covers_from: Time | None
    missed_count: int
    worker: str | None
    lease_until: Time | None
    # The last attempt, if a remote worker runs it: what the worker has reported so far.
    handed_over_at: Time | None
    heartbeat_at: Time | None
    attempt_deadline: Time | None
    progress: int | None
    progress_text: str | None
    cancel_requested_at: Time | None
    cancel_reason: str | None
    actor: ActorResponse
    correlation_id: Id


class AttemptResponse(TypedDict):
    """An attempt of an execution."""

    attempt: int
    outcome: OutcomeName
    worker: str
    started_at: Time
    finished_at: Time
    error: str | None
    http_status: int | None
    answer: str | None
    # The last 64 KiB of the handler's log, and the JSON that it returned.
    log: str | None
    result: object


class RunningLogResponse(TypedDict):
    """What the running attempt has logged so far: at most the last 64 KiB."""

    attempt: int
    # How many characters of the log precede `log`.
    position: int
    log: str


class ExecutionDetailsResponse(ExecutionResponse):
    """An execution with its ended attempts."""

    attempts: list[AttemptResponse]
    # None: no attempt is running, or it has not logged anything.
    running_log: RunningLogResponse | None


class AttemptLogResponse(TypedDict):
    """The stored log of an attempt: the last 64 KiB that its handler wrote."""

    attempt: int
    outcome: OutcomeName
    worker: str
    started_at: Time
    finished_at: Time
    log: str | None
    error: str | None


class ExecutionLogResponse(TypedDict):
    """The stored logs of the ended attempts of an execution in order, and of the running one."""

    execution: Id
    tenant: str
    schedule: str
    state: StateName
    attempts: list[AttemptLogResponse]
    running_log: RunningLogResponse | None


class CursorResponse(TypedDict):
    """The scheduler's position in a schedule."""

    schedule_id: Id
    provider: str
    effective_from: Time
    next_run_at: Time | None
    last_run_at: Time | None
    consecutive_failures: int
    fault: str | None


class ChangedByResponse(TypedDict):
    """The actor of a change, and whether a token authenticated it."""

    id: str
    type: str
    source: str
    authenticated: bool


class AuditRecordResponse(TypedDict):
    """An audit record of a change."""

    entity_type: str
    entity_id: str
    operation: str
    changed_at: Time
    changed_by: ChangedByResponse
    correlation_id: Id | None
    before: object
    after: object


class ScheduleDetailsResponse(ScheduleResponse):
    """A schedule with its state, its last executions and its last changes."""

    tenant: str
    definition: Mapping[str, object]
    cursor: CursorResponse | None
    executions: list[ExecutionResponse]
    changes: list[AuditRecordResponse]


class PausedResponse(TypedDict):
    """The result of a pause, with the number of cancelled and of remaining pending executions."""

    tenant: str
    schedule: str
    paused: PauseResponse | None
    ended: int
    pending: int


class ResumedResponse(TypedDict):
    """The result of a resume, with the number of occurrences skipped during the pause."""

    tenant: str
    schedule: str
    paused: None
    passed_over: int
    next_run_at: Time | None


class TriggeredResponse(TypedDict):
    """A manually triggered execution."""

    tenant: str
    schedule: str
    execution: Id
    scheduled_for: Time
    # Whether a scheduler runs that will start it.
    scheduler_running: bool


class FindingResponse(TypedDict):
    """A reason why a schedule or a task did not run, and what to do."""

    code: str
    message: str
    hint: str


class HealthFindingResponse(FindingResponse):
    """A problem of the cluster: what it concerns, and how to fix it."""

    severity: SeverityName
    # The first few of them, and how many there are.
    subjects: list[str]
    count: int


class ReplicaResponse(TypedDict):
    """A running scheduler."""

    id: str
    service: str
    started_at: Time
    seen_at: Time
    running: int
    abandoned: int
    draining: bool


class WorkerResponse(ReplicaResponse):
    """A scheduler that is running or was killed recently."""

    alive: bool
    # Patterns of what it can run; null: anything.
    capabilities: list[str] | None


class WorkerPage(TypedDict):
    """A page of workers, ordered by id."""

    workers: list[WorkerResponse]
    next: str | None


class HealthResponse(TypedDict):
    """The health of the cluster; it is healthy if there are no findings."""

    healthy: bool
    findings: list[HealthFindingResponse]
    # Absent if a lock on a table blocks all other reads.
    replicas: NotRequired[list[ReplicaResponse]]
    running: NotRequired[int]
    max_concurrent: NotRequired[int]
    waiting: NotRequired[int]
    lag_seconds: NotRequired[float]


class WhyResponse(TypedDict):
    """Why a schedule did not run; `answer` is the message of the first finding."""

    tenant: str
    schedule: str
    answer: str
    findings: list[FindingResponse]


class TenantResponse(TypedDict):
    """A tenant."""

    tenant: str
    schema: str
    schema_adopted: bool
    status: StatusName
    status_reason: str | None
    max_schedules: int | None
    max_concurrent: int | None
    weight: int
    # Those that an operator has set, by name.
    quotas: dict[str, int]
    labels: dict[str, str]
    sourced: bool
    missing_since: Time | None
    schedule_revision: int
    created_at: Time
    updated_at: Time


class IdentityResponse(TypedDict):
    """An identity under which schedulers act for a tenant."""

    id: str
    role: str
    status: StatusName


class QuotaResponse(TypedDict):
    """A quota in effect, and whether the policy, its table of the tenant or an operator set it."""

    value: int
    source: QuotaSource


class TenantDetailsResponse(TenantResponse):
    """A tenant with its identities and quotas; no identities before the first scheduler has run."""

    identities: list[IdentityResponse]
    effective_quotas: dict[str, QuotaResponse]


class DeprovisionedResponse(TenantResponse):
    """A deprovisioned tenant, and the objects that were not dropped, with the reasons."""

    kept: list[str]


class TenantPage(TypedDict):
    """A page of tenants, ordered by id."""

    tenants: list[TenantResponse]
    next: str | None


class SchedulePage(TypedDict):
    """A page of the schedules of a tenant, ordered by name."""

    schedules: list[ScheduleResponse]
    next: str | None


class TenantScheduleResponse(ScheduleResponse):
    """A schedule with its tenant."""

    tenant: str


class FailedTenantResponse(TypedDict):
    """A tenant whose schema cannot be read, and why."""

    tenant: str
    error: str


class TenantSchedulePage(TypedDict):
    """A page of the schedules of all tenants, ordered by tenant and name."""

    schedules: list[TenantScheduleResponse]
    # Tenants of this page.
    failed: list[FailedTenantResponse]
    next: str | None


class ExecutionPage(TypedDict):
    """A page of executions, newest first."""

    executions: list[ExecutionResponse]
    next: str | None


class ManifestVersionResponse(TypedDict):
    """A version of a tenant's manifest."""

    tenant: str
    version: int
    checksum: str
    applied_by: str
    applied_at: Time
    source_ref: str | None


class ManifestVersionDetailsResponse(ManifestVersionResponse):
    """A version with the schedules that it declares."""

    document: Mapping[str, object]


class ManifestVersionPage(TypedDict):
    """A page of manifest versions, newest first."""

    manifest_versions: list[ManifestVersionResponse]
    next: str | None


class AuditRecordPage(TypedDict):
    """A page of the audit records of a tenant, newest first."""

    audit_records: list[AuditRecordResponse]
    next: str | None


class ClusterAuditRecordResponse(AuditRecordResponse):
    """An audit record with its tenant; null for records about the cluster."""

    tenant: str | None


class ClusterAuditRecordPage(TypedDict):
    """A page of the audit records of all tenants, newest first."""

    audit_records: list[ClusterAuditRecordResponse]
    next: str | None


class ErrorResponse(TypedDict):
    """Why a tenant was refused."""

    code: str
    message: str


class TenantResultResponse(TypedDict):
    """The result of a tenant."""

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


class PolicyResponse(TypedDict):
    """A policy that checked manifests: its origin, and the start of its checksum.

    The origin is a file, `default` without one, or a server. A server calls itself `server`; the
    command line puts its URL there.
    """

    origin: str
    digest: str


class Summary(TypedDict):
    """The totals over all tenants."""

    tenants: int
    create: int
    update: int
    delete: int
    unchanged: int
    failed: int


class ManifestResultResponse(TypedDict):
    """The response of plan and apply."""

    at: Time
    # A server of an earlier release does not return them.
    policies: NotRequired[list[PolicyResponse]]
    tenants: list[TenantResultResponse]
    summary: Summary
