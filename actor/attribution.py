"""Attribution of changes: columns of an audit record, settings for a trigger."""

from dataclasses import dataclass
from typing import Final, TypedDict
from uuid import UUID

from tenantcron.actor.context import current_actor, current_correlation_id, current_user_id
from tenantcron.actor.model import Actor, ActorType, AnyActor

# The actor of a change without an actor. Not an `ActorType`, because there is none.
SYSTEM: Final = "system"
UNKNOWN_SOURCE: Final = "unknown"
USER_SOURCE: Final = "user"


class AuditColumns(TypedDict):
    """The columns of an audit record that an attribution fills."""

    changed_by: str
    actor_type: str
    actor_source: str
    authenticated: bool
    correlation_id: UUID | None


@dataclass(frozen=True, slots=True)
class Attribution:
    """The actor of a change (None: unknown) and its correlation id.

    It stores the actor, not a flag, so that only an authenticated actor is recorded as one.
    """

    actor: AnyActor | None
    correlation_id: UUID | None = None

    @property
    def changed_by(self) -> str:
        """Return the id of the actor, or `system`."""
        return SYSTEM if self.actor is None else self.actor.id

    @property
    def actor_type(self) -> str:
        """Return the type of the actor, or `system`."""
        return SYSTEM if self.actor is None else self.actor.type.value

    @property
    def actor_source(self) -> str:
        """Return the source of the actor, such as `cli` or `api`, or `unknown`."""
        return UNKNOWN_SOURCE if self.actor is None else self.actor.source

    @property
    def authenticated(self) -> bool:
        """Return whether a verified token authenticates the actor."""
        return self.actor is not None and self.actor.authenticated

    def columns(self) -> AuditColumns:
        """Return the values by column name."""
        return AuditColumns(
            changed_by=self.changed_by,
            actor_type=self.actor_type,
            actor_source=self.actor_source,
            authenticated=self.authenticated,
            correlation_id=self.correlation_id,
        )

    def settings(self) -> dict[str, str]:
        """Return the values as settings of a transaction, which triggers read.

        Always all of them, so that two attributions in one transaction never mix. A setting is
        text and cannot be null; empty is also its value after the transaction.
        """
        return {
            "tenantcron.actor": self.changed_by,
            "tenantcron.actor_type": self.actor_type,
            "tenantcron.actor_source": self.actor_source,
            "tenantcron.authenticated": "true" if self.authenticated else "false",
            "tenantcron.correlation_id": str(self.correlation_id or ""),
        }


def attribution() -> Attribution:
    """Return the attribution to the current actor, else to the current user, else to `system`."""
    return Attribution(current_actor() or _user(), current_correlation_id())


def _user() -> Actor | None:
    user_id = current_user_id()
    return None if user_id is None else Actor(user_id, ActorType.HUMAN, USER_SOURCE)
