"""The argument and the context of a handler."""

from datetime import UTC

from structlog.contextvars import bind_contextvars

from tenantcron.actor.context import act_from_here
from tenantcron.core.names import Owner, SagaName, ScheduleName
from tenantcron.core.suggest import close_match
from tenantcron.core.values import JsonObject
from tenantcron.manifests.language.payload import fill
from tenantcron.schedules.settings import ScheduleSettings
from tenantcron.store.steps.claiming import Claimed
from tenantcron.targets.authorising import AuthorisationRequest
from tenantcron.targets.execution import Cancellation, Execution, Transactions
from tenantcron.targets.tokens import Tokens


def build_execution(
    claimed: Claimed,
    settings: ScheduleSettings,
    transactions: Transactions,
    tokens: Tokens,
    cancellation: Cancellation,
) -> Execution:
    """Return an execution as its handler sees it; raise KeyError for an unknown placeholder."""
    return Execution(
        id=claimed.id,
        tenant_id=claimed.tenant_id,
        schedule_name=ScheduleName(claimed.schedule_name),
        saga_name=SagaName(claimed.saga_name),
        scheduled_for=claimed.scheduled_for,
        attempt=claimed.attempt,
        payload=_filled(settings.payload, claimed),
        deadline=claimed.started_at + settings.timeout,
        actor=claimed.actor,
        owner=settings.owner,
        _transactions=transactions,
        _tokens=tokens,
        _cancellation=cancellation,
    )


def authorisation_request(
    execution: Execution, owner: Owner, tokens: Tokens
) -> AuthorisationRequest:
    """Return the request to the authoriser, for an execution with an owner."""
    return AuthorisationRequest(
        tenant_id=execution.tenant_id,
        schedule_name=execution.schedule_name,
        saga_name=execution.saga_name,
        owner=owner,
        execution_id=execution.id,
        scheduled_for=execution.scheduled_for,
        _tokens=tokens,
    )


def _filled(payload: JsonObject, claimed: Claimed) -> JsonObject:
    """Return a copy of the payload for each attempt, with its placeholders filled.

    The payload of a task is data of its client: it has no placeholders, and no other owner.
    """
    if claimed.is_task:
        return payload
    if not payload:
        return {}
    values = {
        "fire_time": claimed.scheduled_for.astimezone(UTC).isoformat(),
        "execution_id": str(claimed.id),
        "tenant": claimed.tenant_id,
        "schedule": claimed.schedule_name,
    }
    return {key: fill(value, values) for key, value in payload.items()}


def no_handler_message(saga: str, names: tuple[str, ...]) -> str:
    """Return the error for a saga without a handler, with the closest name."""
    meant = close_match(saga, names)
    hint = f" (did you mean {meant}?)" if meant else ""
    return (
        f"no handler is loaded for saga `{saga}`{hint}: load the module that defines it with "
        "--handlers"
    )


def enter_context(claimed: Claimed, owner: Owner | None) -> None:
    """Set the actor and the log fields of the current context to those of the execution.

    The context is not restored, which would cost more than all the rest. Call this only in the
    handler's own task or thread.
    """
    bind_contextvars(**fields(claimed))
    act_from_here(claimed.actor, claimed.id, owner)


def fields(claimed: Claimed) -> dict[str, str | int]:
    """Return the fields of log lines about an execution."""
    return {
        "tenant": claimed.tenant_id,
        "schedule": claimed.schedule_name,
        "saga": claimed.saga_name,
        "execution": str(claimed.id),
        "attempt": claimed.attempt,
    }
