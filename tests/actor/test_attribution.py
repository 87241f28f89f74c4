"""Attribution of changes: to the actor, else to the user, else to `system`."""

from contextlib import ExitStack
from dataclasses import dataclass
from uuid import UUID

import pytest

from tenantcron.actor.attribution import AuditColumns, attribution
from tenantcron.actor.context import acting_as, acting_for_user, correlation
from tenantcron.actor.model import Actor, ActorType, AnyActor, AuthenticatedActor, scheduler_actor
from tenantcron.actor.witness import WITNESS


@dataclass(frozen=True, slots=True)
class Case:
    """The context, and the recorded attribution."""

    changed_by: str
    actor_type: str
    actor_source: str
    authenticated: bool = False
    actor: AnyActor | None = None
    user_id: str | None = None
    correlation_id: UUID | None = None


CASES = {
    "nothing": Case(changed_by="system", actor_type="system", actor_source="unknown"),
    "only a correlation id": Case(
        correlation_id=UUID(int=7),
        changed_by="system",
        actor_type="system",
        actor_source="unknown",
    ),
    "a user": Case(
        user_id="u-1",
        changed_by="u-1",
        actor_type="human",
        actor_source="user",
    ),
    "a user who is called system": Case(
        user_id="system",
        changed_by="system",
        actor_type="human",
        actor_source="user",
    ),
    "an actor": Case(
        actor=Actor("github:ada", ActorType.PIPELINE, "github-actions"),
        changed_by="github:ada",
        actor_type="pipeline",
        actor_source="github-actions",
    ),
    "an actor before a user": Case(
        actor=scheduler_actor("billing"),
        user_id="u-1",
        correlation_id=UUID(int=7),
        changed_by="system:scheduler:billing",
        actor_type="scheduler",
        actor_source="cron-scheduler",
    ),
    "an authenticated actor": Case(
        actor=AuthenticatedActor("worker-1", ActorType.WORKER, "token", WITNESS),
        user_id="u-1",
        changed_by="worker-1",
        actor_type="worker",
        actor_source="token",
        authenticated=True,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_change_is_attributed_to_the_actor_else_the_user_else_system(case: Case) -> None:
    with ExitStack() as context:
        if case.actor:
            context.enter_context(acting_as(case.actor))
        if case.user_id:
            context.enter_context(acting_for_user(case.user_id))
        if case.correlation_id:
            context.enter_context(correlation(case.correlation_id))
        who = attribution()
    assert who.columns() == AuditColumns(
        changed_by=case.changed_by,
        actor_type=case.actor_type,
        actor_source=case.actor_source,
        authenticated=case.authenticated,
        correlation_id=case.correlation_id,
    )


def test_an_attribution_does_not_change_when_the_context_ends() -> None:
    with acting_as(scheduler_actor("billing")):
        who = attribution()
    assert who.changed_by == "system:scheduler:billing"
    assert attribution().changed_by == "system"


def test_the_settings_have_the_values_of_the_columns_as_text() -> None:
    with acting_as(scheduler_actor("billing")), correlation(UUID(int=7)):
        settings = attribution().settings()
    assert settings == {
        "tenantcron.actor": "system:scheduler:billing",
        "tenantcron.actor_type": "scheduler",
        "tenantcron.actor_source": "cron-scheduler",
        "tenantcron.authenticated": "false",
        "tenantcron.correlation_id": str(UUID(int=7)),
    }
    assert attribution().settings()["tenantcron.correlation_id"] == ""
