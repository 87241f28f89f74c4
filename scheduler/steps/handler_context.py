"""What a handler is handed: its execution, and the context that it acts in."""

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


def handed_over(
    claimed: Claimed,
    settings: ScheduleSettings,
    transactions: Transactions,
    tokens: Tokens,
    cancellation: Cancellation,
) -> Execution:
    """Return an execution as its handler sees it; a KeyError for a placeholder without a value."""
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


def question_of(execution: Execution, owner: Owner, tokens: Tokens) -> AuthorisationRequest:
    """Return what is asked before a handler starts that has an owner."""
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
    """A copy for each attempt, so that no handler changes what another one gets."""
    if not payload:
        return {}
    values = {
        "fire_time": claimed.scheduled_for.astimezone(UTC).isoformat(),
        "execution_id": str(claimed.id),
        "tenant": claimed.tenant_id,
        "schedule": claimed.schedule_name,
    }
    return {key: fill(value, values) for key, value in payload.items()}


def no_handler(saga: str, names: tuple[str, ...]) -> str:
    """Say that nobody runs a saga, and whom was probably meant."""
    meant = close_match(saga, names)
    hint = f" (did you mean {meant}?)" if meant else ""
    return (
        f"no handler for saga `{saga}` among the loaded ones{hint}: load the module that has it "
        "with --handlers"
    )


def enter_context(claimed: Claimed, owner: Owner | None) -> None:
    """Whatever happens from here on is done by the execution's actor, and logged with its names.

    Nothing is taken back (that costs more than all the rest): only for a task or thread of the
    handler's own, whose context ends with it.
    """
    bind_contextvars(**fields(claimed))
    act_from_here(claimed.actor, claimed.id, owner)


def fields(claimed: Claimed) -> dict[str, str | int]:
    """Return the names that log lines of an execution carry."""
    return {
        "tenant": claimed.tenant_id,
        "schedule": claimed.schedule_name,
        "saga": claimed.saga_name,
        "execution": str(claimed.id),
        "attempt": claimed.attempt,
    }
