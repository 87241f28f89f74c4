"""What is written down about who made a change: columns of a record, settings for a trigger."""

from dataclasses import dataclass
from typing import Final, TypedDict
from uuid import UUID

from tenantcron.actor.context import current_actor, current_correlation_id, current_user_id
from tenantcron.actor.model import Actor, ActorType, AnyActor

# Nobody said who acts. Not an `ActorType`, because there is no actor.
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
    """Who made a change (None: nobody said) and what it was a part of.

    It keeps the actor, not a flag, so that only an authenticated actor is ever written down as one.
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
        """Return the door that the actor came by, or `unknown`."""
        return UNKNOWN_SOURCE if self.actor is None else self.actor.source

    @property
    def authenticated(self) -> bool:
        """Return whether a verified token proves the actor."""
        return self.actor is not None and self.actor.authenticated

    def columns(self) -> AuditColumns:
        """Return the values by the names of their columns."""
        return AuditColumns(
            changed_by=self.changed_by,
            actor_type=self.actor_type,
            actor_source=self.actor_source,
            authenticated=self.authenticated,
            correlation_id=self.correlation_id,
        )

    def settings(self) -> dict[str, str]:
        """Return the values as settings of a transaction, for triggers to read.

        Always all of them, so that two attributions in one transaction never mix. A setting is
        text and knows no null; empty is also what a transaction leaves behind.
        """
        return {
            "tenantcron.actor": self.changed_by,
            "tenantcron.actor_type": self.actor_type,
            "tenantcron.actor_source": self.actor_source,
            "tenantcron.authenticated": "true" if self.authenticated else "false",
            "tenantcron.correlation_id": str(self.correlation_id or ""),
        }


def attribution() -> Attribution:
    """Attribute to the current actor, else to the current user, else to `system`."""
    return Attribution(current_actor() or _user(), current_correlation_id())


def _user() -> Actor | None:
    user_id = current_user_id()
    return None if user_id is None else Actor(user_id, ActorType.HUMAN, USER_SOURCE)
